package buckets

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// A server may have a hash for each channel. How many channels are known does not matter to the first request in a new one, and what
// is not needed any more is forgotten.
func TestFirstRequestInAChannelLooksAtNoOtherChannels(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const channels = 300
		m := NewRESTBucketManager(WithGlobalLimit(0), WithMaxRateLimit(time.Hour))
		require.NoError(t, m.Start())
		defer m.Close()
		for channel := 1; channel <= channels; channel++ {
			for _, route := range []routes.Route{routes.CreateMessage, routes.ListMessages} {
				compiled, err := route.Compile(strconv.Itoa(channel))
				require.NoError(t, err)
				lease, err := m.Acquire(t.Context(), compiled, "Bot")
				require.NoError(t, err)
				lease.Update(ratelimits.Response{Status: 200, Limited: true, Bucket: "h" + strconv.Itoa(channel), Limit: 5, Remaining: 4, ResetAfter: time.Hour})
			}
		}
		a := anyAuthentication(m)
		m.moves.Lock()
		require.GreaterOrEqual(t, len(a.groups), channels)
		assert.LessOrEqual(t, len(a.groupsOf(major{id: channels + 1})), 10, "limit groups that are looked at")
		m.moves.Unlock()
		time.Sleep(4 * time.Hour)
		synctest.Wait()
		assert.Zero(t, m.authentications.Size(), "all is forgotten")
		assert.Empty(t, a.groups)
		assert.Empty(t, a.unused)
		assert.Empty(t, a.routes)
	})
}

// anyAuthentication returns one of them.
func anyAuthentication(m *RESTBucketManager) *authentication {
	for _, a := range m.authentications.All() {
		return a
	}
	return nil
}
