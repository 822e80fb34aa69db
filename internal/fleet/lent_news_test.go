package fleet_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/fleet"
)

// A request of an unknown route turns out to have used the last place of a bucket that is lent to another process. No
// other request waits in its process. The holder must still learn of the request before it sends again.
func TestHolderHearsWhatAnotherRouteHasUsed(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{2, 3} {
		rule := discordsim.Rule{Quota: discordsim.Fixed(limit, 8*time.Second), Hash: "messages"}
		config := fleet.Config{Processes: 2, Discord: bucket(rule), Buckets: unlimited}
		inBubble(t, config, func(t *testing.T, f *fleet.Fleet) {
			holder, other := f.Processes[0], f.Processes[1]
			send := func(p *fleet.Process, r fleet.Request) {
				o := p.Do(t.Context(), r)
				require.NoError(t, o.Err)
			}
			for range 2 { // finds the limit, and gets the bucket
				send(holder, fleet.Message(1))
				time.Sleep(10 * time.Second)
			}
			send(holder, fleet.Message(1))
			require.Positive(t, holder.Transport.Manager().Stats().Shared.Loans, "it is lent")
			for range limit - 1 {
				send(other, fleet.History(1))
			}
			time.Sleep(2 * time.Second)
			send(holder, fleet.Message(1))
			finish(t, f, time.Minute)
			assert.Zero(t, f.Discord.Report().Refused.Total(), "%+v", f.Discord.Refusals())
		})
	}
}
