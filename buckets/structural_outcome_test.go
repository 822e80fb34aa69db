package buckets_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
)

// longestOutcome is how long other requests wait for the outcome of one.
const longestOutcome = 15 * time.Second

// outcomes are requests for the outcome of which others wait. Each function sends one, with a manager that knows
// nothing.
var outcomes = map[string]func(t *testing.T, m *buckets.RESTBucketManager) *caller{
	"probe of a route": func(_ *testing.T, m *buckets.RESTBucketManager) *caller { return ask(m, message(1)) },
	"first after a hold of the bucket": func(t *testing.T, m *buckets.RESTBucketManager) *caller {
		return firstAfter(t, m, inBucket(refused(ratelimits.ClassUser, time.Second), "messages", 100, 0, time.Second))
	},
	"first after a hold of the resource": func(t *testing.T, m *buckets.RESTBucketManager) *caller {
		return firstAfter(t, m, inBucket(refused(ratelimits.ClassShared, time.Second), "messages", 100, 90, time.Second))
	},
	"first after a hold of the edge": func(t *testing.T, m *buckets.RESTBucketManager) *caller {
		return firstAfter(t, m, refused(ratelimits.ClassEdge, time.Second))
	},
	"first after a hold of the sub-limit": func(t *testing.T, m *buckets.RESTBucketManager) *caller {
		return firstAfter(t, m, inBucket(refused(ratelimits.ClassSubLimit, time.Second), "messages", 100, 90, time.Second))
	},
	"unread refusal by the bucket":    unread(ratelimits.ClassUser),
	"unread refusal by the resource":  unread(ratelimits.ClassShared),
	"unread refusal by the sub-limit": unread(ratelimits.ClassSubLimit),
	"unread refusal of all":           unread(ratelimits.ClassGlobal),
	"unread refusal by the edge":      unread(ratelimits.ClassEdge),
}

// firstAfter returns the first request after a hold.
func firstAfter(t *testing.T, m *buckets.RESTBucketManager, r ratelimits.Response) *caller {
	discover(t, m, message(1), roomy)
	discover(t, m, message(1), r)
	first := ask(m, message(1))
	wait(3 * time.Second)
	return first
}

// unread returns what sends a request that is refused, of which only the headers come.
func unread(class ratelimits.Class) func(t *testing.T, m *buckets.RESTBucketManager) *caller {
	return func(t *testing.T, m *buckets.RESTBucketManager) *caller {
		discover(t, m, message(1), roomy)
		slow := ask(m, message(1))
		require.True(t, slow.granted())
		slow.lease.Refused(refused(class, time.Second))
		return slow
	}
}

// What waits for the outcome of one request waits a bounded time, then goes on with what is known.
//
// today: it waits until the outcome is known, however long that takes
func TestStructuralOutcomeIsAwaitedForABoundedTime(t *testing.T) {
	structural(t)
	t.Parallel()
	for name, send := range outcomes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T) { awaitedOutcome(t, send) })
		})
	}
}

// The same of the first request after a global 429.
func TestOutcomeAfterAGlobalRefusalIsAwaitedForABoundedTime(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		awaitedOutcome(t, func(t *testing.T, m *buckets.RESTBucketManager) *caller {
			return firstAfter(t, m, refused(ratelimits.ClassGlobal, time.Second))
		})
	})
}

func awaitedOutcome(t *testing.T, send func(t *testing.T, m *buckets.RESTBucketManager) *caller) {
	m := started(t, buckets.WithMaxRateLimit(time.Hour))
	one := send(t, m)
	require.True(t, one.granted())
	others := asks(m, message(1), 5)
	wait(time.Second)
	require.Zero(t, granted(t, others), "they wait for its outcome")
	wait(longestOutcome)
	require.Positive(t, granted(t, others), "they wait still")
	drive(t, others)
	one.update(roomy)
	drained(t, m)
}

// An ordered request waits for the outcome of the one before it as long as that takes.
func TestOrderedRequestWaitsForItsPredecessorHoweverLong(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		m := started(t)
		discover(t, m, message(1), roomy)
		ordered := gate{ordered: true}
		before, after := ordered.call(m), ordered.call(m)
		require.True(t, before.granted())
		wait(4 * longestOutcome)
		assert.False(t, after.done())
		before.update(roomy)
		require.True(t, after.granted())
		after.update(roomy)
		drained(t, m)
	})
}
