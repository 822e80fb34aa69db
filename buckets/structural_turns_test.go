package buckets_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// crowds are places where sixty requests wait, each of a tenant of its own, of which one leaves in a second.
var crowds = map[string]struct {
	options []buckets.Option
	answer  ratelimits.Response
	route   func(i int) routes.CompiledRoute
	tenants bool
}{
	"bucket": {nil, limited("messages", 1, 0, time.Second), always(message(1)), true},
	"line for the global limit": {
		[]buckets.Option{buckets.WithGlobalLimit(1)}, plain(200), message, true,
	},
	"line for the global limit, no tenants": {
		[]buckets.Option{buckets.WithGlobalLimit(1)}, plain(200), message, false,
	},
	"declared limit": {
		[]buckets.Option{buckets.WithLimit(buckets.ForAll(), 1, time.Second)}, plain(200), message, true,
	},
}

// A request with priority comes before all that came shortly before it, whatever their tenants and buckets are.
//
// It left last of 61, after 60 s, when turns of tenants came first.
func TestPriorityAmongTenants(t *testing.T) {
	t.Parallel()
	for name, crowd := range crowds {
		for where, number := range map[string]int{"alone in its queue": 99, "where another one waits": 29} {
			subtest(t, name+", "+where, func(t *testing.T) {
				m := started(t, append([]buckets.Option{buckets.WithMaxRateLimit(time.Hour)}, crowd.options...)...)
				discover(t, m, message(1), crowd.answer)
				request := func(i int) *buckets.Request {
					r := &buckets.Request{Route: crowd.route(i + 1), Authorization: bot}
					if crowd.tenants {
						r.Group = strconv.Itoa(i)
					}
					return r
				}
				for i := range 60 {
					r := request(i)
					queueUp(m, always(r.Route), r.Group, 1, crowd.answer, &sentLog{})
				}
				wait(buckets.HeadStart / 2)
				start, waited := time.Now(), time.Duration(0)
				ctx := buckets.ContextWithPriority(background)
				buckets.AcquireFunc(ctx, m, request(number), func(lease buckets.Lease, err error) {
					if err == nil {
						waited = time.Since(start)
						lease.Update(crowd.answer)
					}
				})
				wait(2 * time.Minute)
				assert.NotZero(t, waited)
				assert.LessOrEqual(t, waited, 2*time.Second, "it is the next one")
			})
		}
	}
}
