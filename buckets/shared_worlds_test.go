package buckets_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// rough is a store that predicts the same wait for every request.
type rough struct {
	shared.Source
	forecast time.Duration
}

type roughSession struct {
	shared.Session
	forecast time.Duration
}

type roughBucket struct {
	shared.Bucket
	forecast time.Duration
}

func (r rough) Join(clock clockwork.Clock, origin time.Time) shared.Session {
	return roughSession{r.Source.Join(clock, origin), r.forecast}
}

func (s roughSession) Bucket(key shared.Key, w *ratelimits.Window, changed func()) shared.Bucket {
	return roughBucket{s.Session.Bucket(key, w, changed), s.forecast}
}

func (b roughBucket) Predict(now time.Duration, ahead int) shared.Forecast {
	f := b.Bucket.Predict(now, ahead)
	f.Wait = b.forecast
	return f
}

// randomSharedWorld sends requests of all kinds through managers that share declared limits. It requires that all
// requests have ended within an hour after the last arrival.
func randomSharedWorld(t *testing.T, seed uint64, forecast time.Duration) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 99))
	var drawing sync.Mutex // callbacks draw random numbers, too
	pick := func(n int) int {
		drawing.Lock()
		defer drawing.Unlock()
		return rnd.IntN(n)
	}
	var shared shared.Source = newStore(t)
	if forecast > 0 {
		shared = rough{shared, forecast}
	}
	all := []routes.Route{routes.CreateMessage, routes.ListMessages, routes.ExecuteWebhook, routes.GetMyUser}
	opts := []buckets.Option{
		buckets.WithShared(shared), buckets.WithMaxRateLimit(1000 * time.Hour), buckets.WithLogger(nil),
	}
	if pick(2) == 0 {
		opts = append(opts, buckets.WithGlobalLimit(3+pick(4)))
	} else {
		opts = append(opts, buckets.WithGlobalLimit(0))
	}
	for i := range 1 + pick(4) {
		k := pick(5)
		match := []buckets.Match{
			buckets.ForAll(), buckets.ForRoute(all[0]), buckets.ForRoute(all[1]), buckets.ForRoute(all[2]), buckets.ForAll(),
		}
		o := []buckets.LimitOption{buckets.Named(fmt.Sprint("r", i))}
		switch pick(5) {
		case 0:
			o = append(o, buckets.PerMajor())
		case 1:
			o = append(o, buckets.PerGroup())
		case 2:
			o = append(o, buckets.AcrossCredentials())
		}
		opts = append(opts, buckets.WithLimit(match[k], 1+pick(3), time.Duration(1+pick(10))*time.Second, o...))
	}
	n := 1 + pick(3)
	var ms, every []*buckets.RESTBucketManager
	for range n {
		ms = append(ms, started(t, opts...))
		wait(time.Duration(1+pick(9)) * time.Millisecond)
	}
	every = append(every, ms...)
	type window struct {
		until  time.Time
		used   int
		limit  int
		period time.Duration
	}
	limits, periods := [4]int{}, [4]time.Duration{}
	for i := range limits {
		limits[i], periods[i] = 1+pick(5), time.Duration(1+pick(5))*time.Second
	}
	server := map[string]*window{}
	var mu sync.Mutex
	waiting := 0
	var cancels []context.CancelFunc
	wild := pick(3) == 0
	var send func(ctx context.Context, m int, r *buckets.Request, ri int, key string)
	send = func(ctx context.Context, m int, r *buckets.Request, ri int, key string) {
		mu.Lock()
		waiting++
		mu.Unlock()
		buckets.AcquireFunc(ctx, every[m], r, func(l buckets.Lease, err error) {
			mu.Lock()
			defer mu.Unlock()
			waiting--
			if err != nil {
				return
			}
			d := time.Duration(pick(300)) * time.Millisecond
			lost := pick(30) == 0
			back := pick(15) == 0
			strange := wild && pick(8) == 0
			class := []ratelimits.Class{
				ratelimits.ClassEdge, ratelimits.ClassGlobal, ratelimits.ClassShared, ratelimits.ClassSubLimit,
			}[pick(4)]
			time.AfterFunc(d, func() {
				mu.Lock()
				w := server[key]
				if w == nil {
					w = &window{limit: limits[ri], period: periods[ri]}
					server[key] = w
				}
				now := time.Now()
				if !back {
					if now.After(w.until) {
						w.used, w.until = 0, now.Add(w.period)
					}
					w.used++
				}
				used, after := w.used, w.until.Sub(now)
				mu.Unlock()
				switch {
				case back:
					l.Return()
				case lost:
					l.Release()
				case strange:
					r429 := refused(class, 2*time.Second)
					l.Update(inBucket(r429, fmt.Sprint("h", ri), w.limit, max(w.limit-used, 0), after))
					send(ctx, m, r, ri, key)
				case used > w.limit:
					l.Update(inBucket(refused(ratelimits.ClassUser, after), fmt.Sprint("h", ri), w.limit, 0, after))
					send(ctx, m, r, ri, key)
				default:
					l.Update(limited(fmt.Sprint("h", ri), w.limit, w.limit-used, after))
				}
			})
		})
	}
	arrive := func() {
		ri, ch := pick(4), strconv.Itoa(1+pick(2))
		p := [][]string{{ch}, {ch}, {"77", "token" + ch}, nil}[ri]
		c := compile(all[ri], p...)
		cred := []string{"Bot one", "Bot one", "Bot two", ""}[pick(4)]
		group := []string{"", "", "a", "b"}[pick(4)]
		ctx := background
		if pick(8) == 0 {
			ctx = buckets.ContextWithPriority(ctx)
		}
		if pick(8) == 0 {
			ctx = buckets.ContextWithOrdered(ctx)
		}
		ctx, cancel := context.WithCancel(ctx)
		cancels = append(cancels, cancel)
		home := cred
		if ri == 2 {
			home = ""
		}
		r := &buckets.Request{Route: c, Authorization: cred, Group: group}
		send(ctx, pick(len(ms)), r, ri, fmt.Sprint(ri, p, home))
	}
	closed := false
	for range 30 + pick(60) {
		mu.Lock()
		x := pick(20)
		mu.Unlock()
		switch {
		case x == 0:
			for i := range cancels {
				if pick(5) == 0 {
					cancels[i]()
				}
			}
		case x == 1:
			ms[pick(len(ms))].Throttle(time.Duration(pick(5)) * time.Second)
		case x == 2 && !closed && len(ms) > 1 && pick(4) == 0:
			closed = true
			if err := ms[len(ms)-1].Close(); err != nil {
				t.Error(err)
			}
			ms = ms[:len(ms)-1]
		case x < 6:
			wait(time.Duration(pick(3000)) * time.Millisecond)
		default:
			arrive()
			wait(time.Duration(pick(20)) * time.Millisecond)
		}
	}
	start := time.Now()
	for time.Since(start) < time.Hour {
		wait(time.Second)
		mu.Lock()
		w := waiting
		mu.Unlock()
		if w == 0 {
			break
		}
	}
	mu.Lock()
	if waiting > 0 {
		t.Errorf("world %d: %d requests wait forever", seed, waiting)
		for i, m := range ms {
			for w := range m.WaitingRequests() {
				t.Logf("manager %d: %+v", i, w)
			}
		}
	}
	mu.Unlock()
	for _, m := range ms {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
	wait(10 * time.Second)
}

// In random worlds of managers that share declared limits, no request may wait for ever.
func TestRandomSharedWorldsSendAllRequests(t *testing.T) {
	for seed := range uint64(80) {
		synctest.Test(t, func(t *testing.T) { randomSharedWorld(t, seed, 0) })
	}
}

// Managers and their source must not call each other endlessly at one instant, whatever wait is predicted.
func TestManagersAndTheirSourceMakeNoEndlessCalls(t *testing.T) {
	for _, forecast := range []time.Duration{time.Second, time.Hour} {
		for range 4 { // goroutines run in another order each time
			synctest.Test(t, func(t *testing.T) { randomSharedWorld(t, 41, forecast) })
		}
	}
}
