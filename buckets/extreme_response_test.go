package buckets_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
)

// extremeResponses are responses that a caller has made by hand, with times and numbers that no header can name.
func extremeResponses() (all []ratelimits.Response) {
	for class := range ratelimits.Class(ratelimits.NumClasses + 1) {
		for _, d := range []time.Duration{math.MinInt64, -1, math.MaxInt64 - 1, math.MaxInt64} {
			for _, n := range []int{math.MinInt, -1, 1, math.MaxInt32 + 1, math.MaxInt} {
				r := ratelimits.Response{
					Status: 429, Class: class, Bucket: "messages", Limited: true, Limit: n, Remaining: n, ResetAfter: d,
					HasRetryAfter: n > 1, RetryAfter: d, ResetRounding: d, Stamp: int64(n), Code: n,
				}
				if class == ratelimits.ClassOK {
					r.Status = 200
				}
				all = append(all, r)
			}
		}
	}
	return all
}

// However a caller tells a response of its own making, what it says holds for a day at most, and for no time to speak
// of if it is negative.
func TestResponsesWithFieldsAtTheirExtremesHoldNothingForEver(t *testing.T) {
	t.Parallel()
	for name, tell := range map[string]func(m *buckets.RESTBucketManager, c *caller, r ratelimits.Response){
		"update": func(_ *buckets.RESTBucketManager, c *caller, r ratelimits.Response) { c.update(r) },
		"update without a lease": func(m *buckets.RESTBucketManager, c *caller, r ratelimits.Response) {
			c.lease.Return()
			m.UpdateRateLimits(message(1), bot, r)
		},
		"headers first": func(_ *buckets.RESTBucketManager, c *caller, r ratelimits.Response) {
			c.lease.Refused(r)
			wait(time.Second)
			c.update(r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, r := range extremeResponses() {
				longest := ratelimits.LongestTrust
				if r.RetryAfter < 0 {
					longest = 10 * time.Second
				}
				bubble(t, func(t *testing.T) {
					m := started(t, buckets.WithMaxRateLimit(math.MaxInt64), buckets.WithHooks(buckets.Hooks{
						Held: func(_ context.Context, h buckets.Held) {
							assert.True(t, 0 < h.Wait && h.Wait <= longest, "held for %v by %+v", h.Wait, r)
						},
					}))
					discover(t, m, message(1), limited("messages", 5, 4, time.Second))
					c := ask(m, message(1))
					require.True(t, c.granted())
					tell(m, c, r)
					d, _, err := m.Predict(&buckets.Request{Route: message(1), Authorization: bot})
					require.NoError(t, err)
					assert.True(t, 0 <= d && d <= longest+time.Second, "%v by %+v", d, r)
				})
			}
		})
	}
}
