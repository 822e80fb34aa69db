package buckets_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// everything asks for one request of each kind: of both authentications, without one, and exempt ones.
func everything(m *buckets.RESTBucketManager) []*caller {
	return []*caller{
		ask(m, message(1)), ask(m, message(2)), as(m, "Bot two", message(1)), as(m, "", message(1)),
		ask(m, callback(1)), as(m, "", callback(2)), ask(m, followUp(1)),
	}
}

// familiar makes all those routes known.
func familiar(t *testing.T, m *buckets.RESTBucketManager) {
	t.Helper()
	for _, authorization := range []string{bot, "Bot two", ""} {
		for _, route := range []routes.CompiledRoute{message(1), message(2), followUp(1)} {
			as(m, authorization, route).update(roomy)
		}
	}
}

func countGranted(all []*caller) (n int) {
	for _, c := range all {
		if c.granted() {
			n++
		}
	}
	return n
}

func TestEdgeRefusalStopsEverythingOfTheAddress(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t)
		familiar(t, m)
		ask(m, message(1)).update(refused(ratelimits.ClassEdge, 30*time.Second))
		assert.Equal(t, 30*time.Second+time.Millisecond, m.EdgeWait(""))
		held := everything(m)
		wait(30*time.Second - time.Millisecond)
		require.Zero(t, countGranted(held), "interactions, too")

		wait(2 * time.Millisecond)
		require.Equal(t, 1, countGranted(held), "one goes first")
		assert.Zero(t, m.EdgeWait(""))
		wait(patience / 2)
		require.Equal(t, 1, countGranted(held), "until its answer is there")
		for _, c := range held {
			if c.granted() {
				c.update(roomy)
				break
			}
		}
		assert.Equal(t, len(held), countGranted(held))
	})
}

func TestEdgeProbeThatFailsLetsTheNextOneTry(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(buckets.Lease){
		"lost": buckets.Lease.Release, "never sent": buckets.Lease.Return, "server error": update(plain(502)),
	} {
		subtest(t, name, func(t *testing.T) {
			m := started(t)
			familiar(t, m)
			ask(m, message(1)).update(refused(ratelimits.ClassEdge, time.Second))
			held := everything(m)
			for tried := 0; tried < 3; tried++ {
				wait(1100 * time.Millisecond)
				require.Equal(t, tried+1, countGranted(held), "one after the other")
				for _, c := range held {
					if c.granted() {
						end(c.lease)
					}
				}
				synctest.Wait()
			}
		})
	}
}

// A request that came through the gate and found its bucket used up must not keep the probe for itself.
func TestEdgeProbeIsNotLostToABucketThatHasToWait(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t)
		familiar(t, m)
		ask(m, message(1)).update(refused(ratelimits.ClassEdge, 2*time.Second))
		first := ask(m, message(1))
		m.Throttle(time.Minute) // first has to wait for that, once the edge is open
		other := ask(m, callback(9))
		wait(2100 * time.Millisecond)
		assert.False(t, first.done())
		assert.True(t, other.granted())
		other.update(plain(204))
		wait(time.Minute)
		assert.True(t, first.granted())
	})
}
