package buckets_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/routes"
)

func editOf(message int) routes.CompiledRoute {
	return compile(routes.UpdateMessage, "1", strconv.Itoa(message))
}

// byPath discovers a route that has a bucket for each path. The hashes do not contain the path.
func byPath(t *testing.T, m *buckets.RESTBucketManager) {
	t.Helper()
	for i := 1; i <= 4; i++ {
		discover(t, m, editOf(i), limited(fmt.Sprint("opaque ", i), 5, 4, time.Minute))
	}
}

// askForPaths sends a request for each of n paths that were never used.
func askForPaths(m *buckets.RESTBucketManager, n int) (all []*caller) {
	for i := range n {
		all = append(all, ask(m, editOf(100+i)))
	}
	return all
}

func TestARouteHasBucketsByPathWhenEachPathNamesAnother(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		byPath(t, m)
		all := askForPaths(m, 20)
		require.Equal(t, 20, granted(t, all), "each request is the first of its bucket")
		same := asks(m, editOf(100), 5)
		require.Equal(t, 0, granted(t, same), "the limit of that bucket is not known yet")
		all[0].update(limited("opaque 100", 3, 2, time.Minute))
		require.Equal(t, 2, granted(t, same), "as many as the limit of that bucket allows")
	})
}

func TestPathsAreLookedAtAnewAfterAWhile(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, editOf(1), limited("old", 5, 4, time.Minute))
		discover(t, m, editOf(1), limited("new", 5, 4, time.Minute)) // the same path has two hashes
		discover(t, m, editOf(1), limited("old", 5, 4, time.Minute))
		wait(2 * time.Minute)
		byPath(t, m)
		require.Equal(t, 20, granted(t, askForPaths(m, 20)), "each request is the first of its bucket")
	})
}

func TestABucketThatIsNamedByThePathIsThePaths(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		first := ask(m, editOf(1001))
		others := []*caller{ask(m, editOf(1001)), ask(m, editOf(1002)), ask(m, editOf(1003))}
		first.update(limited("PATCH /channels/1/messages/1001", 1, 0, time.Minute))
		require.False(t, others[0].granted(), "the path's bucket is used up")
		require.True(t, others[1].granted() && others[2].granted())
		for b := range m.Buckets() {
			assert.NotContains(t, b.Major, "1001")
		}
	})
}

// Every response names a new hash, but there is one limit for all paths. No request may be refused, so the manager must
// not treat the hashes as those of buckets by path.
func TestNamesThatAreAlwaysNewAreNotThoseOfPaths(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{1, 2, 3, 5, 10} {
		bubble(t, func(t *testing.T) {
			w := newWorld(t, one(discordsim.Rule{
				Quota: discordsim.Fixed(limit, time.Second), Hash: "common",
				Faults: []discordsim.Fault{{Edit: func(c discordsim.Call, r *discordsim.Response) {
					r.Header.Set("X-RateLimit-Bucket", fmt.Sprint("hash ", c.N))
				}}},
			}))
			for i := range 60 {
				w.send(background, "DELETE", "/channels/1/messages/"+strconv.Itoa(1+i), nil)
			}
			w.finish()
			assert.Zero(t, w.Report().Refused.Total(), limit)
		})
	}
}

func TestPathsThatTurnOutToShareABucketAreOneAgain(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		byPath(t, m)
		discover(t, m, editOf(5), limited("common", 5, 4, time.Minute))
		discover(t, m, editOf(6), limited("common", 5, 3, time.Minute))
		assert.LessOrEqual(t, granted(t, askForPaths(m, 9)), 3)
	})
}

// The paths of a route name different hashes, but some of these buckets are used by other requests, too.
func TestRouteWithoutEnoughFreshBucketsHasNoBucketsByPath(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		for i, remaining := range []int{4, 2, 2, 4, 4, 4} {
			route := compile(routes.UpdateMessage, strconv.Itoa(1+i%2), strconv.Itoa(i))
			discover(t, m, route, limited(fmt.Sprint("opaque ", i), 5, remaining, time.Minute))
		}
		assert.Less(t, granted(t, askForPaths(m, 20)), 20)
	})
}

func TestRoutesByPathAreForgottenAndRemembered(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		byPath(t, m)
		for i := range 3000 {
			discover(t, m, editOf(1000+i), limited(fmt.Sprint("opaque ", 1000+i), 5, 4, time.Second))
		}
		used := editOf(7)
		discover(t, m, used, limited("opaque 7", 5, 0, time.Hour))
		wait(2 * time.Minute)
		assert.Less(t, m.Stats().Buckets, 10)
		state := stateOf(t, m, true)
		assert.Less(t, len(state), 2000)
		m = successor(t, state, buckets.WithMaxRateLimit(2*time.Hour))
		assert.False(t, ask(m, used).granted(), "the path's bucket is used up")
		assert.True(t, ask(m, editOf(8)).granted())
		assert.True(t, ask(m, editOf(9)).granted())
	})
}

func TestRoutesOfAFamilyHaveBucketsByPathIfOneOfThemHas(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		probe := ask(m, react(1))
		others := []*caller{ask(m, unreactAll(1)), ask(m, unreact(1))}
		probe.update(limited("/channels/1/messages/1/reactions/x/@me", 5, 4, time.Minute))
		require.Equal(t, 2, granted(t, others))
	})
}
