package buckets_test

import (
	"bytes"
	"context"
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

// byPath lets a route have buckets by its paths, which are named without telling that.
func byPath(t *testing.T, m *buckets.RESTBucketManager) {
	t.Helper()
	for i := 1; i <= 4; i++ {
		discover(t, m, editOf(i), limited(fmt.Sprint("opaque ", i), 5, 4, time.Minute))
	}
}

func TestARouteHasBucketsByPathWhenEachPathNamesAnother(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t)
		byPath(t, m)
		var all []*caller
		for i := range 20 {
			all = append(all, ask(m, editOf(100+i)))
		}
		require.Equal(t, 20, granted(t, all), "each is the first of its bucket")
		same := asks(m, editOf(100), 5)
		require.Equal(t, 0, granted(t, same), "of which the limit is not certain")
		all[0].update(limited("opaque 100", 3, 2, time.Minute))
		require.Equal(t, 2, granted(t, same), "up to its own limit")
	})
}

func TestPathsAreLookedAtAnewAfterAWhile(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t)
		discover(t, m, editOf(1), limited("old", 5, 4, time.Minute))
		discover(t, m, editOf(1), limited("new", 5, 4, time.Minute)) // one path with two hashes
		discover(t, m, editOf(1), limited("old", 5, 4, time.Minute))
		wait(2 * time.Minute)
		byPath(t, m)
		var all []*caller
		for i := range 20 {
			all = append(all, ask(m, editOf(100+i)))
		}
		require.Equal(t, 20, granted(t, all), "each is the first of its bucket")
	})
}

func TestABucketThatIsNamedByThePathIsThePaths(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t)
		first := ask(m, editOf(1001))
		others := []*caller{ask(m, editOf(1001)), ask(m, editOf(1002)), ask(m, editOf(1003))}
		first.update(limited("PATCH /channels/1/messages/1001", 1, 0, time.Minute))
		require.False(t, others[0].granted(), "its bucket is used up")
		require.True(t, others[1].granted() && others[2].granted())
		for b := range m.Buckets() {
			assert.NotContains(t, b.Major, "1001")
		}
	})
}

// Names that are always new may stand for one limit: then most buckets are not fresh.
func TestNamesThatAreAlwaysNewAreNotThoseOfPaths(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{1, 2, 3, 5, 10} {
		bubble(t, func(t *testing.T) {
			w := newWorld(t, one(discordsim.Rule{Quota: discordsim.Fixed(limit, time.Second), Hash: "common", Faults: []discordsim.Fault{
				{Edit: func(c discordsim.Call, r *discordsim.Response) {
					r.Header.Set("X-RateLimit-Bucket", fmt.Sprint("hash ", c.N))
				}},
			}}))
			for i := range 60 {
				w.send(context.Background(), "DELETE", "/channels/1/messages/"+strconv.Itoa(1+i), nil)
			}
			w.finish()
			assert.Zero(t, w.Report().Refused.Total(), limit)
		})
	}
}

func TestPathsThatTurnOutToShareABucketAreOneAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t)
		byPath(t, m)
		discover(t, m, editOf(5), limited("common", 5, 4, time.Minute))
		discover(t, m, editOf(6), limited("common", 5, 3, time.Minute))
		var all []*caller
		for i := range 9 {
			all = append(all, ask(m, editOf(100+i)))
		}
		assert.LessOrEqual(t, granted(t, all), 3)
	})
}

func TestRoutesByPathAreForgottenAndRemembered(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t)
		byPath(t, m)
		for i := range 3000 {
			discover(t, m, editOf(1000+i), limited(fmt.Sprint("opaque ", 1000+i), 5, 4, time.Second))
		}
		used := editOf(7)
		discover(t, m, used, limited("opaque 7", 5, 0, time.Hour))
		wait(2 * time.Minute)
		assert.Less(t, m.Stats().Buckets, 10)
		var state bytes.Buffer
		require.NoError(t, m.WriteState(&bytes.Buffer{}))
		require.NoError(t, m.Close())
		require.NoError(t, m.WriteState(&state))
		assert.Less(t, state.Len(), 2000)
		m = started(t, buckets.WithMaxRateLimit(2*time.Hour))
		require.NoError(t, m.RestoreState(&state))
		assert.False(t, ask(m, used).granted(), "its bucket is used up")
		assert.True(t, ask(m, editOf(8)).granted())
		assert.True(t, ask(m, editOf(9)).granted())
	})
}

func TestRoutesOfAFamilyHaveBucketsByPathIfOneOfThemHas(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t)
		probe := ask(m, react(1))
		others := []*caller{ask(m, unreactAll(1)), ask(m, unreact(1))}
		probe.update(limited("/channels/1/messages/1/reactions/x/@me", 5, 4, time.Minute))
		require.Equal(t, 2, granted(t, others))
	})
}
