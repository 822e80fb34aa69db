package riverlimit_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient/discordtest"
)

// In River's own order, the second guild's jobs would be last, after minutes of the first guild's jobs. With the
// plugin, the jobs of the second guild must not wait for those of the first.
func TestJobsOfOneGuildDoNotDelayThoseOfAnother(t *testing.T) {
	t.Parallel()
	const many, few = 1000, 10
	server := discordtest.NewServer(t, discordtest.Window(create, 5, time.Second), discordtest.GlobalLimit(100_000))
	discord := newDiscord(server.URL)
	t.Cleanup(func() { _ = discord.Close() })
	_, pool := newDatabase(t)
	queue, err := newQueue(pool, 100, &sender{discord: discord})
	require.NoError(t, err)
	insert(t, queue, "1", many)
	insert(t, queue, "2", few)
	start(t, queue)
	waitFor(t, pool, few, completed+" AND args->>'channel' = '2'", time.Minute)
	assert.Less(t, count(t, pool, completed+" AND args->>'channel' = '1'"), many/2,
		"most of the first guild's jobs must still wait")
	assert.Empty(t, server.Avoidable())
}
