package buckets_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// A hash that successes have named is that of a bucket, however many routes are refused in its name.
func TestBucketThatSuccessesNameIsNotForeign(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(time.Hour))
		first, second, third := message(1), compile(routes.GetChannel, "1"), compile(routes.ListChannelInvites, "1")
		discover(t, m, first, limited("one", 5, 4, time.Minute))
		full := inBucket(refused(ratelimits.ClassUser, time.Minute), "one", 5, 0, time.Minute)
		discover(t, m, second, full)
		discover(t, m, third, full)
		assert.Equal(t, 0, foreignRoutes(m), "one of the routes was sent to a bucket for all paths")
	})
}

// foreignRoutes counts the buckets for which their major parameter does not count.
func foreignRoutes(m *buckets.RESTBucketManager) (n int) {
	for b := range m.Buckets() {
		if b.Hash == "one" && b.Major == "-" {
			n++
		}
	}
	return n
}
