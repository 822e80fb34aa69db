package buckets

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// Credentials may come and go without end, and so may bursts of buckets.
func TestListOfWhatIsBusyDoesNotGrowForGood(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := NewRESTBucketManager(WithLogger(nil))
		require.NoError(t, m.Start())
		defer m.Close()
		const credentials, channels = 20, 500
		m.Throttle(30 * time.Second)
		for n := range credentials {
			for channel := range channels {
				route, err := routes.CreateMessage.Compile(fmt.Sprint(channel + 1))
				require.NoError(t, err)
				credential := fmt.Sprint("Bot ", n)
				m.UpdateRateLimits(route, credential, ratelimits.Response{Status: 200, Limited: true, Bucket: "h", Limit: 5, Remaining: 4, ResetAfter: time.Second})
				m.AcquireFunc(context.Background(), &Request{Route: route, Authorization: credential}, func(l Lease, err error) {
					require.NoError(t, err)
					l.Return()
				})
			}
		}
		require.Equal(t, credentials, m.listed.Size())
		var listed []*authentication
		for a := range m.listed.All() {
			require.Equal(t, channels, len(listOf(a)))
			listed = append(listed, a)
		}
		time.Sleep(2 * time.Minute)
		assert.Zero(t, m.listed.Size())
		for _, a := range listed {
			assert.Empty(t, listOf(a))
			assert.LessOrEqual(t, cap(listOf(a)), 64)
		}
	})
}

// listOf returns the list of an authentication's busy buckets.
func listOf(a *authentication) []*bucket {
	a.busy.mu.Lock()
	defer a.busy.mu.Unlock()
	return a.busy.all
}
