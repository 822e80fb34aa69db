package tune

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// The simulator with all its headers is the reference.
func TestServerSaysWhatTheSimulatorSays(t *testing.T) {
	t.Parallel()
	for _, quota := range []discordsim.Quota{
		discordsim.Fixed(5, second), discordsim.Sliding(5, second), discordsim.Leaky(3, second), discordsim.Unlimited(),
	} {
		load := together(t, 3, 1)
		reaction, err := compile(routes.AddMyMessageReaction, 1)
		require.NoError(t, err)
		load.queue(reaction)
		discord := Discord{Quota: quota, GlobalLimit: 12, Rules: []discordsim.Rule{{Method: "POST", Path: "/channels/{id}/messages", Quota: discordsim.Fixed(2, 3*second)}}}
		world, err := discordsim.NewWorld(beginning, discordsim.Config{Rules: discord.Rules, Default: &discordsim.Rule{Path: "**", Quota: quota}, Global: discord.global()})
		require.NoError(t, err)
		server, now, chance := newServer(load, discord), beginning, rand.New(rand.NewPCG(1, 2))
		seen := make(map[ratelimits.Class]int)
		for range 2000 {
			now = now.Add(time.Duration(chance.ExpFloat64() * float64(100*ms)))
			target := chance.IntN(len(load.queues))
			route := load.queues[target].route
			said := world.Handle(now, discordsim.Request{Method: route.Method(), Path: route.Path(), Authorization: authorization})
			want, have := ratelimits.ParseResponse(said.Status, said.Header, said.Body), server.handle(now, target)
			assert.Equal(t, want.Bucket == "", have.Bucket == "")
			want.Bucket, have.Bucket = "", ""
			require.Equal(t, want, have)
			seen[want.Class]++
		}
		assert.NotZero(t, seen[ratelimits.ClassUser])
		assert.NotZero(t, seen[ratelimits.ClassGlobal])
	}
}
