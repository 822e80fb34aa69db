package limitertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ratelight/ratelight/buckets"
)

// noContext is a nil context, as a careless caller passes it.
var noContext context.Context

func argumentCases() []testCase {
	return []testCase{
		{
			name: "arguments/no context", run: withoutContext,
			why: "a caller's mistake is to be an error, or a panic at the worst; a request without a context cannot be cancelled",
		},
		{
			name: "arguments/no request", run: func(t *trial) { t.fails(t.ctx, nil) },
			why: "a caller's mistake is to be an error, neither a panic nor a wait",
		},
		{
			name: "arguments/no route", run: func(t *trial) { t.fails(t.ctx, &buckets.Request{Authorization: bot}) },
			why: "a request to nowhere must not get a place in a bucket",
		},
		{
			name: "arguments/context that has ended", run: endedContext,
			why: "nobody is left to send the request, and whoever asks is to hear why",
		},
		{
			name: "arguments/no token in an error", needs: Prediction, run: errorsKeepSecrets,
			why: "errors end up in logs, and tokens must not",
		},
	}
}

// fails expects an error at once.
func (t *trial) fails(ctx context.Context, r *buckets.Request) {
	t.reporter.Helper()
	lease, err := t.guarded(ctx, r)
	t.expect(err != nil, "an error was expected at once, but it was granted")
	t.expect(lease == (buckets.Lease{}), "with the error %q, the lease was expected to be the zero one", err)
	t.must(message(1), "a wrong call is nobody else's business").giveBack(t)
}

// guarded calls AcquireRequest, and ends the case with a failure if that waits or panics.
func (t *trial) guarded(ctx context.Context, r *buckets.Request) (buckets.Lease, error) {
	t.reporter.Helper()
	lease, panicked, err := t.attempted(ctx, r)
	t.expect(panicked == nil, "an error was expected at once, but it panicked: %v", panicked)
	return lease, err
}

// withoutContext expects an error or a panic, as package context itself panics.
func withoutContext(t *trial) {
	lease, panicked, err := t.attempted(noContext, request(message(1)))
	t.expect(err != nil || panicked != nil, "an error was expected at once, but it was granted")
	t.expect(lease == (buckets.Lease{}), "with the error %v, the lease was expected to be the zero one", err)
	t.must(message(1), "a wrong call is nobody else's business").giveBack(t)
}

// attempted calls AcquireRequest, returns its panic, if any, and ends the case with a failure if it waits.
func (t *trial) attempted(ctx context.Context, r *buckets.Request) (lease buckets.Lease, panicked any, err error) {
	t.reporter.Helper()
	type result struct {
		lease    buckets.Lease
		err      error
		panicked any
	}
	results := make(chan result, 1)
	t.asking.Add(1)
	t.background(func() {
		defer t.asking.Add(-1)
		var answer result
		defer func() {
			answer.panicked = recover()
			results <- answer
		}()
		answer.lease, answer.err = t.limiter.AcquireRequest(ctx, r)
	})
	t.settle()
	select {
	case got := <-results:
		return got.lease, got.panicked, got.err
	default:
		t.fatalf("an error was expected at once, but it waits")
		return buckets.Lease{}, nil, errors.New("it waits")
	}
}

func endedContext(t *trial) {
	ctx, cancel := context.WithCancel(t.ctx)
	cancel()
	lease, err := t.guarded(ctx, request(message(1)))
	t.expect(errors.Is(err, context.Canceled), "context.Canceled was expected, but the error is %v", err)
	t.expect(lease == (buckets.Lease{}), "with the error %q, the lease was expected to be the zero one", err)
	t.must(message(1), "nobody uses the route").giveBack(t)
}

func errorsKeepSecrets(t *trial) {
	const secret = "a-webhook-token-that-nobody-may-see"
	hook := match("POST", "/webhooks/5/"+secret)
	t.tell(hook, ok("hooks", 5, 0, time.Minute))
	c := t.call(buckets.ContextWithMaxWait(t.ctx, 0), request(hook))
	_, _, err := c.state()
	t.expect(isTooLong(err), "a *ratelimits.TooLongError was expected, but %s", c)
	for _, token := range []string{secret, bot, strings.TrimPrefix(bot, "Bot ")} {
		for _, text := range []string{err.Error(), fmt.Sprintf("%+v", err), fmt.Sprintf("%#v", err)} {
			t.expect(!strings.Contains(text, token), "no token was expected in the error, but it reads: %s", text)
		}
	}
}
