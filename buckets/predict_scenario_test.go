package buckets_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
)

// fixedWindow is the server's fixed window of one bucket.
type fixedWindow struct {
	limit  int // 0 for a bucket without a limit
	period time.Duration
	mu     sync.Mutex
	used   int
	ends   time.Time
}

// answer counts a request that the server processes now and returns the response.
func (w *fixedWindow) answer(hash string) ratelimits.Response {
	if w.limit == 0 {
		return plain(200)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := time.Now(); !now.Before(w.ends) {
		w.used, w.ends = 0, now.Add(w.period)
	}
	w.used++
	return limited(hash, w.limit, max(w.limit-w.used, 0), time.Until(w.ends))
}

// scenario is a random set of limits and waiting requests. A seed determines all of it, so a scenario can be repeated.
type scenario struct {
	random   *rand.Rand
	options  []buckets.Option
	windows  []*fixedWindow // of the channels 1, 2 and so on
	tenants  int
	declared []string
	trip     time.Duration
	longest  time.Duration // the longest period of all limits
	manager  *buckets.RESTBucketManager
}

func newScenario(t *testing.T, seed uint64) *scenario {
	r := rand.New(rand.NewPCG(seed, 2))
	s := &scenario{random: r, longest: time.Second, tenants: r.IntN(2) * r.IntN(5)}
	s.trip = time.Duration(r.IntN(3)) * 20 * time.Millisecond
	global := r.IntN(2) * (2 + r.IntN(10))
	s.options = []buckets.Option{buckets.WithMaxRateLimit(24 * time.Hour), buckets.WithGlobalLimit(global)}
	if r.IntN(8) == 0 {
		s.options = append(s.options, buckets.WithOrdered())
	}
	for i := range r.IntN(3) {
		limit, of := 1+r.IntN(8), []buckets.LimitOption{buckets.Named(strconv.Itoa(i))}
		of = append(of, [][]buckets.LimitOption{nil, {buckets.PerMajor()}, {buckets.PerGroup()}}[r.IntN(3)]...)
		period := s.period()
		s.declared = append(s.declared, fmt.Sprintf("%d/%v %d", limit, period, len(of)))
		s.options = append(s.options, buckets.WithLimit(buckets.ForAll(), limit, period, of...))
	}
	for range 1 + r.IntN(4) {
		s.windows = append(s.windows, &fixedWindow{limit: r.IntN(10), period: s.period()})
	}
	s.manager = started(t, s.options...)
	return s
}

func (s *scenario) period() time.Duration {
	d := time.Duration(1+s.random.IntN(10)) * time.Second
	s.longest = max(s.longest, d)
	return d
}

// draw returns a request, which may have priority.
func (s *scenario) draw() (context.Context, *buckets.Request) {
	ctx, r := background, request(message(1+s.random.IntN(len(s.windows))))
	if s.tenants > 0 {
		r.Group = "tenant"[:1+s.random.IntN(s.tenants)]
	}
	if s.random.IntN(8) == 0 {
		ctx = buckets.ContextWithPriority(ctx)
	}
	return ctx, r
}

// acquire starts a request and answers it one round trip after it has left.
func (s *scenario) acquire(ctx context.Context, request *buckets.Request, then func(err error)) {
	buckets.AcquireFunc(ctx, s.manager, request, func(lease buckets.Lease, err error) {
		if then(err); err != nil {
			return
		}
		channel, _ := strconv.Atoi(request.Route.Major().ID)
		time.AfterFunc(s.trip/2, func() {
			response := s.windows[channel-1].answer("messages " + strconv.Itoa(channel))
			time.AfterFunc(s.trip/2, func() { lease.Update(response) })
		})
	})
}

// prepare discovers all buckets and lets requests wait.
func (s *scenario) prepare() {
	for i := range s.windows {
		s.acquire(background, request(message(i+1)), func(error) {})
		wait(11 * time.Second)
	}
	switch s.random.IntN(6) {
	case 0:
		s.manager.Throttle(time.Duration(s.random.IntN(5000)) * time.Millisecond)
	case 1:
		c := call(buckets.ContextWithMaxWait(background, 0), s.manager, *request(message(1)))
		held := time.Duration(1+s.random.IntN(5)) * time.Second
		if c.granted() {
			response := refused(ratelimits.ClassShared, held)
			if w := s.windows[0]; w.limit > 0 {
				response = inBucket(response, "messages 1", w.limit, w.limit, w.period)
			}
			c.update(response)
		}
	}
	for range s.random.IntN(80) {
		ctx, request := s.draw()
		s.acquire(ctx, request, func(error) {})
		wait(time.Duration(s.random.IntN(20)) * time.Millisecond)
	}
}

// last sends one more request, whose maximum wait is most. It returns the predicted wait, the real wait, the tolerance
// for the difference between the two, and whether the wait could be predicted.
func (s *scenario) last(
	t *testing.T, most time.Duration,
) (predicted, waited, tolerance time.Duration, known bool, err error) {
	ctx, request := s.draw()
	predicted, because, problem := s.manager.Predict(request)
	require.NoError(t, problem)
	start, done := time.Now(), make(chan error, 1)
	s.acquire(buckets.ContextWithMaxWait(ctx, most), request, func(err error) {
		waited = time.Since(start)
		done <- err
	})
	err = <-done
	// Predict does not get the priority, which is in the context.
	known = because != buckets.WaitsForProbe && !buckets.OptionsOf(ctx).Priority
	return predicted, waited, max(s.longest, waited/20) + 2*s.trip, known, err
}

// A prediction is right if it differs from the real wait by at most the longest period of the limits or 5 % of the
// wait, plus two round trips. Requests whose maximum wait is the real wait plus that tolerance must not be rejected.
//
// At least 99 % of the predictions should be right. At present, 5 of 269 are wrong. In these scenarios, a bucket and a
// limit above it let requests leave in bursts at different times, or a hidden limit is found after the prediction. No
// request is rejected. The test allows 8 wrong predictions and no rejection.
func TestPredictionsInRandomScenarios(t *testing.T) {
	t.Parallel()
	const scenarios, mostOff, mostRejected = 300, 8, 0
	off, rejected, all := 0, 0, 0 // all: scenarios whose wait can be predicted
	for seed := range uint64(scenarios) {
		var predicted, waited, tolerance time.Duration
		var known bool
		bubble(t, func(t *testing.T) {
			s := newScenario(t, seed)
			s.prepare()
			var err error
			predicted, waited, tolerance, known, err = s.last(t, 24*time.Hour)
			require.NoError(t, err)
			wait(10 * time.Minute)
		})
		if !known {
			continue
		}
		all++
		if (predicted - waited).Abs() > tolerance {
			off++
		}
		bubble(t, func(t *testing.T) {
			s := newScenario(t, seed)
			s.prepare()
			if _, _, _, _, err := s.last(t, waited+tolerance); err != nil {
				rejected++
			}
			wait(10 * time.Minute)
		})
	}
	assert.LessOrEqual(t, off, mostOff, "wrong predictions, of %d", all)
	assert.LessOrEqual(t, rejected, mostRejected, "rejected requests that would have left in time")
}
