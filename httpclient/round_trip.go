package httpclient

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient/internal/wait"
	"github.com/ratelight/ratelight/ratelimits"
)

// roundTrip is one request with all its attempts. It ends with a response or an error.
//
//	wait for a lease ── send ──┬── done
//	     ▲                     ├── refused by a limit: again when the limiter allows it
//	     └─────────────────────┴── failed: again after a pause, if a second attempt does no harm
type roundTrip struct {
	*Transport
	hooks   *Hooks // the transport's hooks when the request began
	request *http.Request
	ask     buckets.Request
	header  http.Header // the headers that are sent, without the withheld ones

	credential credential

	attempts Attempts // those of the transport, overridden by those of the request's context

	body  body
	retry retry
	first attempt

	refusalState *refusalState // nil before the first 429, and always nil with a manager
	times        times

	redactedMajor string // "" until major is called
}

// outcome says how an attempt ended.
type outcome int

const (
	done    outcome = iota
	refused         // refused by a limit; the request is sent again
	failed          // a temporary server error, or no response
)

// run makes attempts until one of them decides the outcome of the request.
func (x *roundTrip) run() (*http.Response, error) {
	for {
		response, outcome, err := x.try()
		switch outcome {
		case refused:
			if err := x.waitAfterRefusal(); err != nil {
				return nil, err
			}
			x.retry.reason = RetryRateLimited
			continue
		case failed:
			pause, reason := x.nextRetry(err)
			x.logFailure(slog.LevelDebug, response, err, pause, reason)
			if reason != nil {
				return x.finish(response, reason, err)
			}
			if response != nil {
				over := measure(&x.times.sent)
				discard(response.Body)
				over()
			}
			if err := x.sleep(pause, nil); err != nil {
				return nil, err
			}
			x.retry.reason = retryReason(response, err)
			continue
		}
		return response, err
	}
}

// try waits for a lease and sends the request once. The response is nil if there is an error, or if the outcome is
// refused.
func (x *roundTrip) try() (*http.Response, outcome, error) {
	if err := x.awaitBody(); err != nil {
		return nil, done, err
	}
	asked := time.Now()
	lease, err := x.acquire()
	if err != nil {
		return nil, done, err
	}
	defer lease.Release()
	x.retry.attempts++
	x.retry.again, x.retry.asked = false, 0
	x.callRequestHook(asked, lease)
	now := time.Now()
	x.retry.latest = now
	response, err := x.sendAttempt(now)
	took := time.Since(now)
	x.times.sent += took
	defer closeInPanic(response)
	if err != nil {
		if neverSent(err) && !x.repeatedBelow() || x.unsendable(err) {
			lease.Return()
		} else {
			lease.Release()
		}
		x.callResponseHook(took, nil, ratelimits.ClassOK, err)
		return nil, failed, err
	}
	if response.StatusCode == http.StatusProxyAuthRequired { // from a proxy, so the server has not received the request
		lease.Return()
	} else {
		limits := x.parse(response, nil)
		if limits.Class != ratelimits.ClassOK || x.mayRefuse(response.StatusCode) {
			return x.handleRefusal(took, response, limits, lease)
		}
		x.credential.answered(response, now) // before Update, which lets waiting requests be sent
		x.retry.asked = limits.RetryAfter
		lease.Update(limits)
	}
	x.callResponseHook(took, response, ratelimits.ClassOK, nil)
	return response, outcomeOf(response), nil
}

// outcomeOf returns the outcome of an attempt whose response is not a refusal by a limit.
func outcomeOf(response *http.Response) outcome {
	if temporaryStatus(response.StatusCode) {
		return failed
	}
	return done
}

// acquire waits until the request may be sent.
func (x *roundTrip) acquire() (buckets.Lease, error) {
	ctx := x.credential.untilStopped(x.request.Context())
	defer x.credential.endWait()
	if x.manager == nil { // the limiter does not measure Waited, so the whole call counts
		defer measure(&x.times.waited)()
	}
	acquire := x.acquireLease
	if x.retry.again || x.retry.doubtful {
		acquire = x.acquireForRetry
	}
	lease, err := acquire(ctx)
	return lease, whyStopped(ctx, err)
}

// acquireLease waits for a lease, and checks the credential before and after the wait. Unlike acquireForRetry, it does
// not apply retryTime.
func (x *roundTrip) acquireLease(ctx context.Context) (buckets.Lease, error) {
	if err := x.credential.check(); err != nil {
		return buckets.Lease{}, err
	}
	x.ask.Unproven = x.credential.unproven()
	lease, err := x.limiter.AcquireRequest(ctx, &x.ask)
	if x.manager != nil {
		x.times.waited += x.ask.Waited()
	}
	if err != nil {
		return buckets.Lease{}, err
	}
	if err := x.credential.check(); err != nil { // Discord may have refused it during the wait
		lease.Return()
		return buckets.Lease{}, err
	}
	return lease, nil
}

// closeInPanic must be deferred by functions that call hooks. If a hook panics, closeInPanic closes the response, and
// the panic continues.
func closeInPanic(response *http.Response) {
	if problem := recover(); problem != nil {
		if response != nil {
			response.Body.Close()
		}
		panic(problem)
	}
}

// sleep waits for d, or until early is closed. It returns an error if, before that, the request's context ends, the
// transport is closed, or the credential starts to rest.
func (x *roundTrip) sleep(d time.Duration, early <-chan struct{}) error {
	ctx := x.credential.untilStopped(x.request.Context())
	defer x.credential.endWait()
	defer measure(&x.times.waited)()
	return whyStopped(ctx, wait.For(ctx, x.life, d, early))
}
