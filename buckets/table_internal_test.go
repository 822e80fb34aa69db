package buckets

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// Keys are hashes. Here 128 of them are all there are, so that many buckets have to pass by others; each is found
// again all the same, before and after collections and while others are made and collected.
func TestBucketsWhoseHashesAreTheSameAreKeptApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := NewRESTBucketManager(WithGlobalLimit(0), WithPollPeriod(time.Minute), WithMaxRateLimit(0))
		m.buckets.mask = 127
		require.NoError(t, m.Start())
		defer m.Close()
		send := func(channel int, window time.Duration) error {
			route, err := routes.CreateMessage.Compile(strconv.Itoa(channel))
			require.NoError(t, err)
			lease, err := m.Acquire(context.Background(), route, "Bot one")
			lease.Update(ratelimits.Response{Status: 200, Limited: true, Bucket: "h", Limit: 1, ResetAfter: window})
			return err
		}
		const channels = 60
		for round := range 5 {
			for channel := 1; channel <= channels; channel++ {
				window := 30 * time.Second // collected each time
				if channel%3 == 0 {
					window = 24 * time.Hour // never collected
				}
				err := send(channel, window)
				if channel%3 == 0 && round > 0 {
					require.Error(t, err, "its window is used up: it is still the same one")
					continue
				}
				require.NoError(t, err, "round %d, channel %d", round, channel)
				require.Error(t, send(channel, window), "round %d, channel %d", round, channel)
			}
			time.Sleep(time.Hour/2 + time.Second)
			synctest.Wait()
			seen := map[major]int{}
			for b := range m.buckets.all() {
				if !b.group.hasHash() {
					continue
				}
				seen[b.major]++
				require.Equal(t, 1, seen[b.major])
				require.Same(t, b, m.buckets.find(b.group, b.major))
			}
			require.GreaterOrEqual(t, len(seen), channels/3)
		}
		assert.NotZero(t, m.Stats().Evicted)
		require.NoError(t, m.Close())
		assert.Zero(t, m.Stats().Buckets)
	})
}

// The same for what is known of routes, of which some are used all the time, and others are forgotten. Which hashes are the same is
// another matter each time.
func TestRoutesWhoseHashesAreTheSameAreKeptApart(t *testing.T) {
	t.Parallel()
	forgotten := 0
	for range 30 {
		synctest.Test(t, func(t *testing.T) { forgotten += useRoutesWithFewHashes(t) })
	}
	assert.NotZero(t, forgotten)
}

// useRoutesWithFewHashes uses fifteen routes for twelve hours, each of them not for three of these, and returns how often one was forgotten.
func useRoutesWithFewHashes(t *testing.T) (forgotten int) {
	m := NewRESTBucketManager(WithGlobalLimit(0), WithPollPeriod(time.Minute), WithMaxRateLimit(0))
	m.buckets.mask = 15
	require.NoError(t, m.Start())
	defer m.Close()
	type one struct {
		route         routes.Route
		authorization string
	}
	used := map[one]int{}
	for hour := range 12 {
		for i, route := range []routes.Route{routes.CreateMessage, routes.ListMessages, routes.GetChannel, routes.UpdateChannel, routes.ListChannelInvites} {
			for j, authorization := range []string{"Bot one", "Bot two", "Bot three"} {
				if (hour/3+i+j)%3 == 0 {
					continue
				}
				compiled, err := route.Compile("1")
				require.NoError(t, err)
				request := Request{Route: compiled, Authorization: authorization}
				entry := m.entry(&request)
				require.Equal(t, route, entry.route)
				require.Equal(t, m.hash(&request), entry.authentication.id.Load())
				if before, met := used[one{route, authorization}]; met && entry.group.Load().kind == unknownGroup {
					require.Less(t, before, hour-1, "it was in use")
					forgotten++
				}
				used[one{route, authorization}] = hour
				lease, err := m.Acquire(context.Background(), compiled, authorization)
				require.NoError(t, err)
				lease.Update(ratelimits.Response{Status: 200, Limited: true, Bucket: route.Name(), Limit: 1, ResetAfter: time.Second})
				require.Same(t, entry, m.entry(&request))
				require.Equal(t, route.Name(), entry.group.Load().hash)
			}
		}
		time.Sleep(time.Hour)
		synctest.Wait()
	}
	return forgotten
}
