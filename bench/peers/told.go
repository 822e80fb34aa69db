package main

import (
	"context"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// told is the best that limiters without feedback can do: it knows the limits ahead, one for everything and one for each route
// and channel, each a rate.Limiter. It knows neither which routes share a limit nor who else uses it.
type told struct {
	limits map[kind]limit
	make   func(requests int, period time.Duration) *rate.Limiter
	global *rate.Limiter

	mu     sync.Mutex
	routes map[toldKey]*rate.Limiter
}

type toldKey struct {
	method, path string
	channel      uint64
}

// bursts lets as many go at once as the limit allows, and the others as the places come back one by one. That is exactly a leaky
// bucket; a fixed window sees up to twice its limit.
func bursts(requests int, period time.Duration) *rate.Limiter {
	return rate.NewLimiter(rate.Limit(float64(requests)/period.Seconds()), requests)
}

// late is how much later than it should a goroutine may wake.
const late = 20 * time.Millisecond

// evenly spreads requests over the period, and over the time by which one may catch up with another on its way, so that no
// window of that length sees more than the limit.
func evenly(requests int, period time.Duration) *rate.Limiter {
	return rate.NewLimiter(rate.Every((period+travel.Jitter+late)/time.Duration(requests)), 1)
}

func newTold(s scenario, limiter func(int, time.Duration) *rate.Limiter) *told {
	return &told{
		limits: s.limits, make: limiter,
		global: limiter(globalRequests, globalPeriod),
		routes: make(map[toldKey]*rate.Limiter),
	}
}

// wait waits until a request may be sent. It fails at once when the context ends before that. The other order draws more 429s:
// what one channel has let through would age in the queue of all.
func (t *told) wait(ctx context.Context, k kind, channel uint64) error {
	if k.authorized() {
		if err := t.global.Wait(ctx); err != nil {
			return err
		}
	}
	l := t.limits[k]
	if l.quota.Kind == discordsim.KindUnlimited {
		return nil
	}
	return t.route(toldKey{l.method, l.path, channel}, l.quota).Wait(ctx)
}

func (t *told) route(key toldKey, quota discordsim.Quota) *rate.Limiter {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.routes[key]
	if l == nil {
		l = t.make(quota.Limit, quota.Period)
		t.routes[key] = l
	}
	return l
}

// tellsLimits opens a plain client that is told the limits.
func tellsLimits(limiter func(int, time.Duration) *rate.Limiter) func(http.RoundTripper, scenario) (client, func(), error) {
	return func(base http.RoundTripper, s scenario) (client, func(), error) {
		return inPlain{Client: &http.Client{Transport: base}, before: newTold(s, limiter).wait, repeats: true}, func() {}, nil
	}
}
