package buckets_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
)

// A request that is cancelled gives its turn back: that of its tenant, and the one of those with priority. So who waits
// in its place leaves as early as if nobody had been cancelled.
func TestCancelledRequestsGiveTheirTurnsBack(t *testing.T) {
	t.Parallel()
	used := limited("messages", 1, 0, time.Second)
	for _, priority := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			m := started(t, buckets.WithMaxRateLimit(time.Hour))
			discoverPunctual(t, m, message(1), used)
			var sent sentLog
			queueUp(m, always(message(1)), "b", 500, used, &sent)
			ctx := background
			if priority {
				ctx = buckets.ContextWithPriority(ctx)
			}
			for range 300 {
				c := call(ctx, m, buckets.Request{Route: message(1), Authorization: bot, Group: "a"})
				c.cancel()
				wait(time.Microsecond)
				require.Error(t, c.failed())
			}
			c := call(ctx, m, buckets.Request{Route: message(1), Authorization: bot, Group: "a"})
			wait(5 * time.Second)
			assert.True(t, c.granted(), "priority: %t", priority)
			require.NoError(t, m.Close())
		})
	}
}

