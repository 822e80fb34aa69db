package limitertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
)

// noContext is a nil context, which a careless caller may pass.
var noContext context.Context

func (s *suite) arguments() {
	const mistake = "a caller's mistake must cause an error, neither a panic nor a wait"
	const noWait = "a caller's mistake must cause an error, or a panic like those of package context, but no wait"
	s.add("arguments/no context", noWait, func(t *trial) {
		t.fails(noContext, request(message(1)))
	})
	s.add("arguments/no request", mistake, func(t *trial) { t.fails(t.ctx, nil) })
	s.add("arguments/no route", mistake, func(t *trial) { t.fails(t.ctx, &buckets.Request{Authorization: bot}) })
	s.add("arguments/context that has ended",
		"the caller no longer wants to send the request, and must learn why it gets no grant", func(t *trial) {
			ctx, cancel := context.WithCancel(t.ctx)
			cancel()
			err := t.fails(ctx, request(message(1)))
			t.expect(errors.Is(err, context.Canceled), "context.Canceled was expected, but the error is %v", err)
		})
	s.add("arguments/no token in an error", "errors are logged, and tokens must not appear in logs", func(t *trial) {
		const secret = "a-webhook-token-that-nobody-may-see"
		hook := match("POST", "/webhooks/5/"+secret)
		t.tell(hook, ok("hooks", 5, 0, time.Minute))
		c := t.call(t.withMaxWait(0), request(hook))
		err := c.now().err
		t.expect(isTooLong(err), "a *ratelimits.TooLongError was expected, but %s", c)
		for _, token := range []string{secret, bot, strings.TrimPrefix(bot, "Bot ")} {
			for _, text := range []string{err.Error(), fmt.Sprintf("%+v", err), fmt.Sprintf("%#v", err)} {
				t.expect(!strings.Contains(text, token), "no token was expected in the error, but it reads: %s", text)
			}
		}
	}, Prediction)
}

// fails expects an error at once and no lease. If ctx is nil, AcquireRequest may panic instead.
func (t *trial) fails(ctx context.Context, r *buckets.Request) error {
	t.reporter.Helper()
	type result struct {
		lease    buckets.Lease
		err      error
		panicked any
	}
	results := make(chan result, 1)
	t.background(func() {
		var got result
		defer func() {
			got.panicked = recover()
			results <- got
		}()
		got.lease, got.err = t.acquire(ctx, r)
	})
	t.settle()
	t.expect(t.soon(func() bool { return len(results) > 0 }), "an error was expected at once, but the call waits")
	got := <-results
	t.expect(got.panicked == nil || ctx == nil, "an error was expected at once, but the call panicked: %v", got.panicked)
	t.expect(got.err != nil || got.panicked != nil, "an error was expected at once, but the request was granted")
	t.expect(got.lease == (buckets.Lease{}), "with the error %v, a zero Lease was expected", got.err)
	t.must(message(1), "a wrong call must not affect other requests").giveBack(t)
	return got.err
}

// lastOfTwo acquires the last place of a bucket of two.
func lastOfTwo(t *trial) *call {
	t.reporter.Helper()
	t.tell(message(1), ok("messages", 2, 1, 2*time.Second))
	return t.must(message(1), "one of two is left")
}

func (s *suite) leases() {
	s.add("lease/ended more than once",
		"callers that defer Release also call it after Update; a place given back twice is used twice", func(t *trial) {
			c := lastOfTwo(t)
			c.giveBack(t)
			c.giveBack(t)
			c.release(t)
			c.update(t, ok("messages", 2, 2, 2*time.Second))
			all := t.asks(3, message(1))
			t.expectGrants(1, all, "a lease was returned twice")
			t.cancelAll(all)
			all[0].update(t, ok("messages", 2, 0, 2*time.Second))
			all[0].giveBack(t)
			all[0].release(t)
			t.expectWait(request(message(1)), true, "the next, because Return after Update does nothing,")
			t.wait(2*time.Second + t.late(1))
			t.must(message(1), "the window is over").giveBack(t)
		})
	s.add("lease/Return gives back",
		"a request that was never sent was never counted; its place belongs to the next one", func(t *trial) {
			lastOfTwo(t).giveBack(t)
			for range 4 {
				t.must(message(1), "what was granted before was returned").giveBack(t)
			}
			t.expectGrants(1, t.asks(3, message(1)), "one of two is left")
		})
	s.add("lease/Return lets the next one go",
		"otherwise a request would wait for the next window, although this window has room", func(t *trial) {
			last := lastOfTwo(t)
			first, second := t.waiter(message(1), "none of two is left"), t.ask(message(1))
			last.giveBack(t)
			t.expect(t.soon(first.granted), "the first in the queue was expected to get the returned place, but %s", first)
			t.expect(second.waiting(), "the second in the queue was expected to wait, but %s", second)
		}, OneMind)
	s.add("lease/Release keeps the charge",
		"a request whose response was lost may have been counted; then one more causes a 429", func(t *trial) {
			lastOfTwo(t).release(t)
			began := time.Now()
			next := t.waiter(message(1), "until the window is over")
			t.wait(time.Until(began.Add(2*time.Second + t.late(2) + time.Second)))
			t.expect(next.granted(), "the next request was expected to be granted in the next window, but %s", next)
		})
	s.add("lease/ending does not block",
		"the request that uses up a bucket gets its response at once; only later ones wait", func(t *trial) {
			c := lastOfTwo(t)
			waiting := t.asks(3, message(1))
			began := time.Now()
			c.held().Update(ok("messages", 2, 0, time.Minute))
			took := time.Since(began)
			t.expect(took <= t.late(0), "Update was expected to return at once, but took %v", took)
			t.settle()
			t.expectGrants(0, waiting, "the window is used up")
		})
}

func (s *suite) order() {
	s.add("order/first come, first served",
		"otherwise messages are sent in a wrong order, and some requests can wait for ever", func(t *trial) {
			w := limited(t, discordsim.Fixed(2, 200*time.Millisecond))
			all := w.sends(13, message(1))
			w.delivered(10*time.Second, all, "all")
			w.inOrder(all)
		}, Order)
	s.add("order/refused requests come first, in order",
		"refused requests are the oldest; behind others they would be overtaken again and again", func(t *trial) {
			t.tell(message(1), ok("messages", 3, 2, time.Second))
			first, second := t.must(message(1), "two of three are left"), t.must(message(1), "one of three is left")
			behind := t.ask(message(1))
			t.wait(10 * time.Millisecond)
			for _, c := range []*call{first, second} {
				c.update(t, in(refused(ratelimits.ClassUser, 500*time.Millisecond), "messages", 3, 0, 500*time.Millisecond))
			}
			secondAgain, firstAgain := t.call(t.ctx, second.request), t.call(t.ctx, first.request)
			t.expectGrants(0, []*call{firstAgain, secondAgain, behind}, "the bucket is held")
			var latest time.Time
			for i, c := range []*call{firstAgain, secondAgain, behind} {
				for elapsed := time.Duration(0); c.waiting() && elapsed < 10*time.Second; elapsed += 10 * time.Millisecond {
					t.wait(10 * time.Millisecond)
				}
				t.expect(c.granted(), "number %d was expected to be granted, but %s", i+1, c)
				t.expect(!c.now().at.Before(latest), "number %d was expected to be granted no earlier than the one before it", i+1)
				latest = c.now().at
				c.update(t, ok("messages", 3, 0, 200*time.Millisecond))
			}
		}, Order)
	s.add("order/one at a time",
		"Discord orders messages by arrival, so each has to be answered before the next one is sent", func(t *trial) {
			t.tell(message(1), ok("messages", 10, 9, time.Minute))
			ctx := buckets.ContextWithOrdered(t.ctx)
			var all []*call
			for range 4 {
				all = append(all, t.call(ctx, request(message(1))))
			}
			for i, c := range all {
				t.expectGrants(i+1, all, fmt.Sprintf("%d are answered", i))
				t.expect(c.granted(), "number %d was expected to be the next, but %s", i+1, c)
				c.update(t, ok("messages", 10, 8-i, time.Minute))
			}
		}, OneAtATime)
}

// closer returns the limiter as an io.Closer, or skips the case if it is none.
func (t *trial) closer() io.Closer {
	closer, ok := t.limiter.(io.Closer)
	if !ok {
		t.reporter.Skipf("the limiter is not an io.Closer")
	}
	return closer
}

// close closes the limiter and expects that Close returns within a second.
func (t *trial) close(closer io.Closer) {
	t.reporter.Helper()
	closed := make(chan error, 1)
	t.background(func() { closed <- closer.Close() })
	t.wait(time.Second)
	t.expect(t.soon(func() bool { return len(closed) > 0 }), "Close was expected to return within a second")
	err := <-closed
	t.expect(err == nil, "Close was expected to succeed, but its error is %v", err)
}

func (s *suite) closing() {
	s.add("close/ends all waits", "a program that shuts down must not hang because requests wait", func(t *trial) {
		closer := t.closer()
		t.tell(message(1), ok("messages", 5, 0, time.Minute))
		t.must(history(1), "it is the first") // its lease is never ended
		t.tell(message(2), ok("messages", 5, 4, time.Minute))
		t.must(message(2), "four of five are left").update(t, refusedIn(ratelimits.ClassShared, 3, time.Minute))
		var all []*call
		for range 3 {
			all = append(all, t.waiter(message(1), "the window is used up"), t.waiter(message(2), "it was refused"))
			if !t.without[Discovery] {
				all = append(all, t.waiter(history(1), "the route is unknown"))
			}
		}
		t.tell(message(3), refused(ratelimits.ClassGlobal, time.Minute))
		all = append(all, t.waiter(message(4), "the credential is held"), t.waiter(rename(5), "the credential is held"))
		t.close(closer)
		for i, c := range all {
			ended := t.soon(func() bool { return c.now().done })
			t.expect(ended, "number %d was expected to end with the limiter, but it waits", i+1)
			t.expect(c.now().err != nil, "number %d was expected to end with an error, but it was granted", i+1)
		}
	})
	s.add("close/afterwards",
		"a request that comes after Close gets an error, and a lease that ends later does no harm", func(t *trial) {
			closer := t.closer()
			t.tell(message(1), ok("messages", 5, 4, time.Minute))
			updated, released := t.must(message(1), "four are left"), t.must(message(1), "three are left")
			returned := t.must(message(1), "two are left")
			t.close(closer)
			updated.update(t, ok("messages", 5, 1, time.Minute))
			released.release(t)
			returned.giveBack(t)
			c := t.ask(message(1))
			t.expect(t.soon(func() bool { return c.now().err != nil }), "an error was expected at once, but %s", c)
			t.close(closer)
		})
}
