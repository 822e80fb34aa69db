package httpclient

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient/internal/message"
	"github.com/ratelight/ratelight/httpclient/internal/wait"
	"github.com/ratelight/ratelight/ratelimits"
)

const (
	// maxRefusal is how much of a 429's body is read, in bytes. Discord's are a few hundred.
	maxRefusal = 64 << 10
	// refusalPatience is how long.
	refusalPatience = 5 * time.Second
)

// exchange is one request on its way, with all its attempts. It ends with a response or an error.
//
//	wait for a lease ── send ──┬── done
//	     ▲                     ├── refused by a limit: again, as soon as the limiter says
//	     └─────────────────────┴── failed: again after a pause, if that can do no harm
type exchange struct {
	*Transport
	request *http.Request
	ask     buckets.Request
	header  http.Header // of the attempts, if it is not the request's

	credential credential
	firstWait  queued

	attemptTimeout time.Duration // the request's own, or the transport's

	body  body
	retry retry
	first attempt

	demand *demand // nil before a 429, and with a manager
}

// demand is what 429s ask for, which a limiter that is no manager may not know.
type demand struct {
	at         time.Time           // when the header of the latest came
	retryAfter time.Duration       // of that
	inRow      ratelimits.Refusals // how many there were
	lifted     <-chan struct{}     // closed by a LiftHolds after the latest
}

// fate is what became of one attempt.
type fate int

const (
	done    fate = iota
	refused      // by a limit
	failed       // a server error, or none at all
)

// run makes attempts until one of them is the last.
func (x *exchange) run() (*http.Response, error) {
	for {
		response, fate, err := x.attempt()
		switch fate {
		case refused:
			if err := x.obey(); err != nil {
				return nil, err
			}
			continue
		case failed:
			pause, reason := x.again(response, err)
			x.failing(response, pause, reason)
			if reason != nil {
				return x.giveUp(response, reason, err)
			}
			if response != nil {
				discard(response.Body)
			}
			if err := x.sleep(pause, nil); err != nil {
				return nil, err
			}
			continue
		}
		return response, err
	}
}

// attempt sends the request once. The response is nil if there is an error, or if the fate is refused.
func (x *exchange) attempt() (*http.Response, fate, error) {
	var asked time.Time
	if x.hooks.Request != nil {
		asked = time.Now()
	}
	lease, content, err := x.enter()
	if err != nil {
		return nil, done, err
	}
	defer lease.Release()
	x.retry.begin()
	x.announce(asked, lease, content)
	now := time.Now()
	x.retry.sent(now)
	response, err := x.send(now, content)
	took := x.since(now)
	defer closeInPanic(response)
	if err != nil {
		if neverSent(err) && !x.repeatedBelow() || unsendable(x.request, err) {
			lease.Return()
		} else {
			lease.Release()
		}
		x.sent(took, nil, ratelimits.ClassOK, err)
		return nil, failed, err
	}
	switch response.StatusCode {
	case http.StatusTooManyRequests:
		return x.takeRefusal(took, response, lease)
	case http.StatusProxyAuthRequired: // a proxy's on the way, which passes on nothing: the server has seen nothing, and said nothing
		lease.Return()
	default:
		x.credential.answered(response) // before those in the queue go on
		lease.Update(x.parse(response, nil))
	}
	x.sent(took, response, ratelimits.ClassOK, nil)
	if passing(response.StatusCode) {
		return response, failed, nil
	}
	return response, done, nil
}

// enter waits until the request may be sent, and returns what it needs for that.
func (x *exchange) enter() (buckets.Lease, io.ReadCloser, error) {
	wait := x.wait()
	defer wait.end()
	admit := x.admit
	if x.retry.again && x.retrying.within > 0 || x.retry.bounded {
		admit = x.admitAgain
	}
	lease, content, err := admit(wait)
	return lease, content, wait.reason(err)
}

// admit is enter without a bound of its own.
func (x *exchange) admit(ctx context.Context) (buckets.Lease, io.ReadCloser, error) {
	if err := x.credential.check(); err != nil {
		return buckets.Lease{}, nil, err
	}
	lease, err := x.limiter.AcquireRequest(ctx, &x.ask)
	if err != nil {
		return buckets.Lease{}, nil, err
	}
	taken := false
	defer func() { // also if the caller's GetBody panics
		if !taken {
			lease.Return()
		}
	}()
	err = x.credential.check() // once more, as it may have waited long
	var content io.ReadCloser
	if err == nil {
		if content, err = x.body.next(); err != nil && x.retry.failures > 0 {
			err = x.inVain(ErrNotRepeatable, err)
		}
	}
	if err != nil {
		return buckets.Lease{}, nil, err
	}
	taken = true
	x.credential.leaves()
	return lease, content, nil
}

// announce tells of an attempt that is about to be sent. Should the hook panic, nothing is sent and all is given back.
func (x *exchange) announce(asked time.Time, lease buckets.Lease, content io.ReadCloser) {
	told := false
	defer func() {
		if told {
			return
		}
		lease.Return()
		closeSoon(content)
	}()
	x.sending(asked)
	told = true
}

// closeInPanic is deferred where hooks are called. It closes a response that nobody will get, and lets the panic go on.
func closeInPanic(response *http.Response) {
	if problem := recover(); problem != nil {
		if response != nil {
			response.Body.Close()
		}
		panic(problem)
	}
}

// parse reads what a response says about limits.
func (x *exchange) parse(response *http.Response, refusal []byte) ratelimits.Response {
	limits := ratelimits.ParseResponse(response.StatusCode, response.Header, refusal)
	if x.manager == nil || x.manager.Shares() { // who else limits may need it
		limits.Stamp = ratelimits.ParseStamp(response.Header)
	}
	return limits
}

// takeRefusal takes in a 429: its headers at once, and then what its body adds. It is the last attempt if nobody knows when to come
// back, or if the request cannot be repeated.
func (x *exchange) takeRefusal(took time.Duration, response *http.Response, lease buckets.Lease) (*http.Response, fate, error) {
	lease.Refused(x.parse(response, nil))
	if x.manager == nil {
		if x.demand == nil {
			x.demand = new(demand)
		}
		x.demand.at, x.demand.lifted = time.Now(), x.lifting.next()
	}
	refusal, whole, err := readRefusal(x.request.Context(), response.Body, !x.body.repeatable())
	limits := x.parse(response, message.Decoded(response.Header, refusal, maxRefusal))
	lease.Update(limits)
	x.sent(took, response, limits.Class, err)
	switch {
	case err != nil && x.request.Context().Err() != nil:
		response.Body.Close()
		return nil, done, err
	case limits.Class == ratelimits.ClassEdge && !limits.HasRetryAfter:
		response.Body.Close()
		return nil, done, &ratelimits.EdgeError{Route: x.route(), Hold: edgeWait(x.limiter, x.ask.Server)}
	case !x.body.repeatable():
		response.Body = whole
		return response, done, nil
	}
	response.Body.Close()
	if x.demand != nil {
		x.demand.retryAfter = limits.RetryAfter
	}
	return nil, refused, nil
}

// obey waits as long as a 429 asked for, and longer after several, unless a manager sees to that. With another limiter, or
// none, the request would otherwise be sent again at once, and again.
func (x *exchange) obey() error {
	d := x.demand
	if d == nil {
		return nil
	}
	pause := max(min(d.retryAfter, ratelimits.LongestTrust)-time.Since(d.at), d.inRow.Again(0, false))
	if err := wait.Check(x.request.Context(), x.ask.Route, pause, x.maxRateLimit()); err != nil {
		return err
	}
	err := x.sleep(pause, d.lifted)
	select {
	case <-d.lifted:
		d.inRow = ratelimits.Refusals{}
	default:
	}
	return err
}

// sleep waits, unless the request comes to an end before, or will not be sent any more. It is over early when a channel is closed.
func (x *exchange) sleep(d time.Duration, early <-chan struct{}) error {
	waiting := x.wait()
	defer waiting.end()
	return waiting.reason(wait.For(waiting, x.life, d, early))
}

// readRefusal reads the body of a 429, or the part of it that comes within refusalPatience and before the context ends. Only the
// latter and a body that breaks off are errors. After that time the body is closed, unless it is to be kept: then whole is all of it,
// however late it comes.
func readRefusal(ctx context.Context, body io.ReadCloser, keep bool) (text []byte, whole io.ReadCloser, err error) {
	reading := start(func() (h head) {
		h.text, h.err = io.ReadAll(io.LimitReader(body, maxRefusal))
		return h
	})
	patient, stop := context.WithTimeout(ctx, refusalPatience)
	defer stop()
	over := reading.wait(patient)
	cut := !over && (!keep || ctx.Err() != nil)
	if cut {
		body.Close()
		over = reading.waitForMoment()
	}
	if over {
		h := reading.get()
		text, err = h.text, h.err
	}
	if cut {
		err = ctx.Err()
	}
	return text, &begun{Closer: body, whole: sync.OnceValue(func() io.Reader {
		return io.MultiReader(bytes.NewReader(reading.get().text), body)
	})}, err
}

// head is what was read of the beginning of a body.
type head struct {
	text  []byte
	whole bool
	err   error
}

// begun is a body whose beginning has been read, or will have been.
type begun struct {
	io.Closer
	whole func() io.Reader
}

func (b *begun) Read(p []byte) (int, error) { return b.whole().Read(p) }

// discard reads what is left of a small body, so that its connection can be used again, if it comes soon, and closes it.
func discard(body io.ReadCloser) {
	defer body.Close()
	reading := start(func() error {
		_, err := io.CopyN(io.Discard, body, maxRefusal)
		return err
	})
	if reading.waitForMoment() {
		_ = reading.get()
	}
}

// withHead returns a body that begins with what was read of it.
func withHead(head []byte, rest io.ReadCloser) io.ReadCloser {
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head), rest), rest}
}

// tuning is what a context says about the requests made with it.
type tuning struct {
	retry      retryMode
	timeout    time.Duration
	hasTimeout bool
}

type tuningKey struct{}

func tuningOf(ctx context.Context) tuning {
	t, _ := ctx.Value(tuningKey{}).(tuning)
	return t
}
