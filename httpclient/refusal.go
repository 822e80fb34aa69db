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
	// maxRefusal is how much of a 429's body is read, in bytes. Discord's are a few hundred.
	maxRefusal = 64 << 10
	// refusalPatience is how long.
	refusalPatience = 5 * time.Second
)

// refusalState is what 429s ask for, which a limiter that is no manager may not know.
type refusalState struct {
	at         time.Time           // when the header of the latest came
	retryAfter time.Duration       // of that
	inRow      ratelimits.Refusals // how many there were
	lifted     <-chan struct{}     // closed by a LiftHolds after the latest
}

// handleRefusal takes in a 429: its headers at once, and then what its body adds. It is the last attempt if nobody
// knows when to come back, or if the request cannot be repeated.
func (x *roundTrip) handleRefusal(
	took time.Duration, response *http.Response, lease buckets.Lease,
) (*http.Response, outcome, error) {
	lease.Refused(x.parse(response, nil))
	if x.manager == nil {
		if x.refusalState == nil {
			x.refusalState = new(refusalState)
		}
		x.refusalState.at, x.refusalState.lifted = time.Now(), x.liftSignal.next()
	}
	read := measure(&x.times.sent)
	refusal, whole, err := readRefusal(x.request.Context(), response.Body, !x.body.repeatable())
	read()
	limits := x.parse(response, message.Decoded(response.Header, refusal, maxRefusal))
	lease.Update(limits)
	x.callResponseHook(took, response, limits.Class, err)
	switch {
	case err != nil && x.request.Context().Err() != nil:
		response.Body.Close()
		return nil, done, err
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

// waitAfterRefusal waits as long as a 429 asked for, and longer after several, unless a manager sees to that. With
// another limiter, or none, the request would otherwise be sent again at once, and again.
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

// readRefusal reads the body of a 429, or the part of it that comes within refusalPatience and before the context
// ends. Only the latter and a body that breaks off are errors. After that time the body is closed, unless it is to be
// kept: then whole is all of it, however late it comes.
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

// partlyRead is a body whose beginning has been read, or will have been.
type partlyRead struct {
	io.Closer
	whole func() io.Reader
}

func (b *partlyRead) Read(p []byte) (int, error) { return b.whole().Read(p) }

// head is what was read of the beginning of a body.
type head struct {
	text  []byte
	whole bool
	err   error
}

// discard reads what is left of a small body, so that its connection can be used again, if it comes soon, and closes
// it.
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

// withHead returns a body that begins with what was read of it.
func withHead(head []byte, rest io.ReadCloser) io.ReadCloser {
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head), rest), rest}
}
