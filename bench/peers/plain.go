package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/ratelight/ratelight/bench/internal/load"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// plain makes calls with an http.Client.
type plain struct {
	*http.Client
	// before is called before each attempt; it may be nil.
	before func(context.Context, call) error
	// repeats reports whether to send a request again after each 429, when Retry-After has passed.
	repeats bool
}

func (p plain) call(ctx context.Context, c call) error {
	for {
		if p.before != nil {
			if err := p.before(ctx, c); err != nil {
				return err
			}
		}
		again, err := p.attempt(ctx, c)
		if !p.repeats || again == 0 {
			return err
		}
		if err := load.Pause(ctx, again); err != nil {
			return err
		}
	}
}

// attempt sends a request once. After a 429, it returns the wait, which is at least a second to avoid a busy loop. 0
// means that there was no 429.
func (p plain) attempt(ctx context.Context, c call) (again time.Duration, err error) {
	request, err := newRequest(ctx, c)
	if err != nil {
		return 0, err
	}
	response, err := p.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("status %d: %s", response.StatusCode, answer)
	}
	if response.StatusCode != http.StatusTooManyRequests {
		return 0, err
	}
	seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
	return time.Duration(max(seconds, 1)) * time.Second, err
}

func newRequest(ctx context.Context, c call) (*http.Request, error) {
	to, contentType := endpoints[c.kind], "application/json"
	if c.kind == upload {
		contentType = "multipart/form-data; boundary=x"
	}
	values := strings.NewReplacer(
		"{channel}", text(c.channel), "{message}", text(c.message()), "{emoji}", url.PathEscape(emoji),
		"{webhook.token}", webhookToken, "{interaction}", text(c.interaction()),
		"{interaction.token}", interactionToken, "{text}", c.content(),
	)
	body := strings.NewReader(values.Replace(to.body))
	request, err := http.NewRequestWithContext(ctx, to.method, "https://discord.com/api/v10"+values.Replace(to.path), body)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", contentType)
	if c.kind.authorized() {
		request.Header.Set("Authorization", "Bot "+token)
	}
	return request, nil
}

// configured is the best that limiters without feedback can do. It knows the limits in advance, and has a rate.Limiter
// for the global limit, and one for each route and channel. It does not know which routes share a limit, or what other
// clients send.
type configured struct {
	limits limits
	make   func(requests int, period time.Duration) *rate.Limiter
	global *rate.Limiter

	mu     sync.Mutex
	routes map[string]*rate.Limiter
}

// bursts returns a limiter that lets as many requests pass at once as the limit allows, and then one request each time
// a place is free. That matches a leaky bucket exactly, but may send twice the limit into a fixed window.
func bursts(requests int, period time.Duration) *rate.Limiter {
	return rate.NewLimiter(rate.Limit(float64(requests)/period.Seconds()), requests)
}

// late bounds how late a goroutine may wake.
const late = 20 * time.Millisecond

// evenly returns a limiter that spreads requests evenly, so that no window of the given length gets more requests than
// the limit allows. It adds jitter and delay to the period, because a request may catch up with an earlier one on the
// way to the server.
func evenly(requests int, period time.Duration) *rate.Limiter {
	return rate.NewLimiter(rate.Every((period+travel.Jitter+late)/time.Duration(requests)), 1)
}

func newConfigured(s scenario, limiter func(int, time.Duration) *rate.Limiter) *configured {
	global := limiter(globalRequests, globalPeriod)
	return &configured{limits: s.limits, make: limiter, global: global, routes: make(map[string]*rate.Limiter)}
}

// wait blocks until a request may be sent. It fails at once if the context would end earlier. It waits for the global
// limit first. In the other order, requests that have passed the limiter of their channel would queue again and cause
// more 429s.
func (l *configured) wait(ctx context.Context, c call) error {
	if c.kind.authorized() {
		if err := l.global.Wait(ctx); err != nil {
			return err
		}
	}
	if l.limits[c.kind].Kind == discordsim.KindUnlimited {
		return nil
	}
	return l.route(c).Wait(ctx)
}

func (l *configured) route(c call) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := fmt.Sprint(endpoints[c.kind].method, endpoints[c.kind].path, c.channel)
	if l.routes[key] == nil {
		l.routes[key] = l.make(l.limits[c.kind].Limit, l.limits[c.kind].Period)
	}
	return l.routes[key]
}
