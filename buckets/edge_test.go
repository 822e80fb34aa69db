package buckets_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// everything sends one request of each kind: with two credentials, with none, and on routes exempt from the global
// limit.
func everything(m *buckets.RESTBucketManager) []*caller {
	return []*caller{
		ask(m, message(1)), ask(m, message(2)), as(m, "Bot two", message(1)), as(m, "", message(1)),
		ask(m, callback(1)), as(m, "", callback(2)), ask(m, followUp(1)),
	}
}

// familiar discovers the buckets of the routes that everything uses.
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
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		familiar(t, m)
		ask(m, message(1)).update(refused(ratelimits.ClassEdge, 30*time.Second))
		assert.Equal(t, 30*time.Second+time.Millisecond, m.EdgeWait(""))
		held := everything(m)
		wait(30*time.Second - time.Millisecond)
		require.Zero(t, countGranted(held), "interactions, too")

		wait(2 * time.Millisecond)
		require.Equal(t, 1, countGranted(held), "one request goes first")
		assert.Zero(t, m.EdgeWait(""))
		wait(patience / 2)
		require.Equal(t, 1, countGranted(held), "the others wait for its response")
		for _, c := range held {
			if c.granted() {
				c.update(roomy)
				break
			}
		}
		assert.Equal(t, len(held), countGranted(held))
	})
}
