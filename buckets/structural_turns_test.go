package buckets_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// busyTenants returns a manager with a bucket of one request per second, in which 40 requests of tenant a and 120 of
// tenant b wait, whose weight is 3. The global limit is busy with requests to other buckets.
func busyTenants(
	t *testing.T, others func(i int) routes.CompiledRoute,
) (*buckets.RESTBucketManager, *sentLog, ratelimits.Response) {
	m := started(t, buckets.WithMaxRateLimit(24*time.Hour), buckets.WithGlobalLimit(5),
		buckets.WithGroupWeights(func(group string) int { return map[string]int{"b": 3}[group] }))
	used, ample := limited("messages", 1, 0, time.Second), limited("lists", 1_000_000, 999_999, time.Second)
	sent := &sentLog{}
	discover(t, m, message(1), used)
	discover(t, m, list(1), ample)
	wait(3 * time.Second)
	queueUp(m, others, "", 3000, ample, sent)
	queueUp(m, always(message(1)), "a", 40, used, sent)
	queueUp(m, always(message(1)), "b", 120, used, sent)
	sent.take()
	return m, sent, used
}

var busyWith = map[string]func(i int) routes.CompiledRoute{
	"one other bucket": always(list(1)), "many other buckets": func(i int) routes.CompiledRoute { return list(1 + i%30) },
}

// A weight counts in a bucket also while its requests have to wait for the global limit, too. (Should weights go, this
// test goes with them.)
//
// today: 10 of a and 10 of b in 40 s
func TestStructuralWeightsWhileTheGlobalLimitIsBusy(t *testing.T) {
	structural(t)
	t.Parallel()
	for name, others := range busyWith {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T) {
				_, sent, _ := busyTenants(t, others)
				wait(40 * time.Second)
				count := map[string]int{}
				for _, group := range sent.take() {
					count[group]++
				}
				assert.InDelta(t, 10, count["a"], 2)
				assert.InDelta(t, 30, count["b"], 3)
			})
		})
	}
}

// The prediction is by the weights that count.
//
// today: 160 s for one of b that leaves after 321 s
func TestStructuralPredictionByWeights(t *testing.T) {
	structural(t)
	t.Parallel()
	for name, others := range busyWith {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T) {
				m, _, used := busyTenants(t, others)
				request := &buckets.Request{Route: message(1), Authorization: bot, Group: "b"}
				predicted, _, err := m.Predict(request)
				require.NoError(t, err)
				start, waited := time.Now(), time.Duration(0)
				buckets.AcquireFunc(background, m, request, func(lease buckets.Lease, err error) {
					if err == nil {
						waited = time.Since(start)
						lease.Update(used)
					}
				})
				wait(10 * time.Minute)
				require.NotZero(t, waited)
				assert.InDelta(t, waited, predicted, float64(max(time.Second, waited/20)))
			})
		})
	}
}

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
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T) {
				m := started(t, append([]buckets.Option{buckets.WithMaxRateLimit(time.Hour)}, crowd.options...)...)
				discover(t, m, message(1), crowd.answer)
				for i := range 60 {
					tenant := ""
					if crowd.tenants {
						tenant = strconv.Itoa(i)
					}
					queueUp(m, func(int) routes.CompiledRoute { return crowd.route(i + 1) }, tenant, 1, crowd.answer, &sentLog{})
				}
				wait(buckets.HeadStart / 2)
				tenant := ""
				if crowd.tenants {
					tenant = "urgent"
				}
				request := &buckets.Request{Route: crowd.route(100), Authorization: bot, Group: tenant}
				start, waited := time.Now(), time.Duration(0)
				buckets.AcquireFunc(buckets.ContextWithPriority(background), m, request, func(lease buckets.Lease, err error) {
					if err == nil {
						waited = time.Since(start)
						lease.Update(crowd.answer)
					}
				})
				wait(2 * time.Minute)
				assert.NotZero(t, waited)
				assert.LessOrEqual(t, waited, 2*time.Second, "it is the next one")
				drained(t, m)
			})
		})
	}
}
