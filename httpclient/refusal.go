package httpclient

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient/internal/message"
	"github.com/ratelight/ratelight/httpclient/internal/wait"
	"github.com/ratelight/ratelight/ratelimits"
)

const (
	// maxRefusal bounds how many bytes of a 429's body are read. The body of a 429 of Discord has a few hundred bytes.
	maxRefusal = 64 << 10
	// refusalPatience bounds how long the body of a 429 is read.
	refusalPatience = 5 * time.Second
)

// refusalState says how long the request must wait after 429s. It is used only with a limiter that is not a manager,
// because such a limiter does not necessarily wait after a 429.
type refusalState struct {
	at         time.Time           // when the headers of the latest 429 arrived
	retryAfter time.Duration       // how long to wait, according to the latest 429
	inRow      ratelimits.Refusals // counts 429s in a row
	lifted     <-chan struct{}     // closed by the first LiftHolds after the latest 429
}

// handleRefusal reports a refusal to the lease: the headers at once, and the whole response when its body has been
// read. Then the request is sent again, except in four cases: if a refusal at the edge does not say when to retry, if
// the request's body can be sent only once, if the context has ended, or if the body shows that the response is no
// refusal.
func (x *roundTrip) handleRefusal(
	took time.Duration, response *http.Response, headers ratelimits.Response, lease buckets.Lease,
) (*http.Response, outcome, error) {
	if headers.Class != ratelimits.ClassOK {
		lease.Refused(headers)
	}
	if x.manager == nil {
		if x.refusalState == nil {
			x.refusalState = new(refusalState)
		}
		x.refusalState.at, x.refusalState.lifted = time.Now(), x.liftSignal.next()
	}
	read := measure(&x.times.sent)
	keep := !x.body.repeatable() || x.dialectOf(x.ask.Server) != nil // the body may show that it is no refusal
	refusal, whole, err := readRefusal(x.request.Context(), response.Body, keep)
	read()
	limits := x.parse(response, message.Decoded(response.Header, refusal, maxRefusal))
	lease.Update(limits)
	x.callResponseHook(took, response, limits.Class, err)
	switch {
	case err != nil && x.request.Context().Err() != nil:
		response.Body.Close()
		return nil, done, err
	case limits.Class == ratelimits.ClassOK:
		response.Body, x.retry.asked = whole, limits.RetryAfter
		return response, outcomeOf(response), nil
	case limits.Class == ratelimits.ClassEdge && !limits.HasRetryAfter:
		response.Body.Close()
		return nil, done, &ratelimits.EdgeError{Route: x.route(), Hold: edgeWait(x.limiter, x.ask.Server)}
	case !x.body.repeatable():
		x.logFailure(slog.LevelWarn, response, nil, 0, ErrNotRepeatable)
		response.Body = whole
		return response, done, nil
	}
	response.Body.Close()
	if x.refusalState != nil {
		x.refusalState.retryAfter = limits.RetryAfter
	}
	return nil, refused, nil
}

// waitAfterRefusal waits as long as the latest 429 asked for, and longer after several 429s in a row. With a manager it
// does nothing, because the manager's AcquireRequest waits. Another limiter might let the request be sent again at once
// after each 429.
func (x *roundTrip) waitAfterRefusal() error {
	d := x.refusalState
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

// readRefusal reads the body of a 429, or the part of it that arrives within refusalPatience and before the context
// ends. err says that the context has ended, or that the connection broke before the end of the body. If
// refusalPatience ends first, there is no error, and readRefusal closes the body unless keep is set. With keep,
// readRefusal closes the body only if the context ends, and the caller can read the complete body from the returned
// reader (whole), even if parts of the body arrive after refusalPatience.
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
		over = reading.waitBriefly()
	}
	if over {
		h := reading.get()
		text, err = h.text, h.err
	}
	if cut {
		err = ctx.Err()
	}
	return text, &partlyRead{Closer: body, whole: sync.OnceValue(func() io.Reader {
		return io.MultiReader(bytes.NewReader(reading.get().text), body)
	})}, err
}

// partlyRead is a body whose beginning is read by another goroutine. The first call of Read waits for that goroutine.
type partlyRead struct {
	io.Closer
	whole func() io.Reader
}

func (b *partlyRead) Read(p []byte) (int, error) { return b.whole().Read(p) }

// head is the result of reading the beginning of a body.
type head struct {
	text  []byte
	whole bool
	err   error
}

// discard reads the rest of a body, so that the connection can be reused, and closes the body. It reads at most
// maxRefusal bytes, and waits for these bytes for briefWait at most.
func discard(body io.ReadCloser) {
	defer body.Close()
	reading := start(func() error {
		_, err := io.CopyN(io.Discard, body, maxRefusal)
		return err
	})
	if reading.waitBriefly() {
		_ = reading.get()
	}
}

// withHead returns a body that consists of head, which has already been read, and of rest.
func withHead(head []byte, rest io.ReadCloser) io.ReadCloser {
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head), rest), rest}
}
