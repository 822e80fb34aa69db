package httpclient_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient"
)

// parents are contexts of requests: one never ends, one can be cancelled, and one ends after the attempt.
var parents = map[string]func(t *testing.T) context.Context{
	"endless":     func(*testing.T) context.Context { return context.Background() },
	"cancellable": func(t *testing.T) context.Context { return t.Context() },
	"with a deadline": func(t *testing.T) context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		t.Cleanup(cancel)
		return ctx
	},
}

// forEachParent runs a test in virtual time once for each of parents.
func forEachParent(t *testing.T, test func(t *testing.T, parent context.Context)) {
	t.Parallel()
	for name, parent := range parents {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { test(t, parent(t)) })
		})
	}
}

// deriver derives contexts from the request's context. It answers when all of them have ended, with the last one's
// error.
type deriver struct {
	contexts []context.Context
	answer   responder // nil: wait
}

func (d *deriver) RoundTrip(r *http.Request) (*http.Response, error) {
	for range 3 {
		ctx, cancel := context.WithCancelCause(r.Context())
		context.AfterFunc(ctx, func() { cancel(nil) })
		d.contexts = append(d.contexts, ctx)
	}
	if d.answer != nil {
		return d.answer(r)
	}
	<-d.contexts[2].Done()
	return nil, context.Cause(d.contexts[2])
}

func (d *deriver) assertEnded(t *testing.T, want error) {
	t.Helper()
	for _, ctx := range d.contexts {
		if assert.NotNil(t, ctx.Err(), "it goes on") {
			assert.ErrorIs(t, ctx.Err(), want)
		}
	}
}

func TestWhatTheTransportBelowDerivesEndsWithTheTimeOfTheAttempt(t *testing.T) {
	forEachParent(t, func(t *testing.T, parent context.Context) {
		below := new(deriver)
		transport := newTransport(t, below, httpclient.WithAttemptTimeout(2*time.Second), httpclient.WithRetries(0))
		sent := send(transport, newMessage(t).WithContext(parent)).wait()
		assertAttemptTimeout(t, 2*time.Second, sent.err)
		assert.Equal(t, 2*time.Second, sent.took)
		for _, ctx := range below.contexts {
			assert.Error(t, ctx.Err())
		}
	})
}

func TestWhatTheTransportBelowDerivesEndsWithTheBody(t *testing.T) {
	forEachParent(t, func(t *testing.T, parent context.Context) {
		below := &deriver{answer: answer(http.StatusOK, "done")}
		response := roundTrip(t, newTransport(t, below), newMessage(t).WithContext(parent))
		for _, ctx := range below.contexts {
			require.NoError(t, ctx.Err(), "the body is still to be read")
		}
		_, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		below.assertEnded(t, context.Canceled)
	})
}

func TestWhatIsDerivedFromAnAttemptThatIsOverHasEnded(t *testing.T) {
	forEachParent(t, func(t *testing.T, parent context.Context) {
		below := newScript(answer(http.StatusOK, "done"))
		assertStatus(t, http.StatusOK, send(newTransport(t, below), newMessage(t).WithContext(parent)))
		over := below.requests()[0].request.Context()
		<-over.Done()
		ctx, cancel := context.WithCancelCause(over)
		defer cancel(nil)
		assert.ErrorIs(t, ctx.Err(), context.Canceled)
	})
}

// The transport below asks the context for its state, but does not stop when the context ends.
func TestTheContextOfAnAttemptSaysWhenItEndsAndThatItHas(t *testing.T) {
	forEachParent(t, func(t *testing.T, parent context.Context) {
		type key struct{}
		start := time.Now()
		below := newScript(func(r *http.Request) (*http.Response, error) {
			ctx := r.Context()
			_, can := parent.Deadline()
			deadline, ok := ctx.Deadline()
			assert.Equal(t, can, ok, "the attempt's timeout can be extended, so it is no deadline")
			if can {
				assert.Equal(t, time.Hour, deadline.Sub(start))
			}
			assert.Equal(t, "value", ctx.Value(key{}))
			assert.NoError(t, ctx.Err())
			time.Sleep(2*time.Second - time.Nanosecond)
			assert.NoError(t, ctx.Err())
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			assert.ErrorIs(t, ctx.Err(), context.Canceled)
			assert.ErrorAs(t, context.Cause(ctx), new(*httpclient.AttemptTimeoutError))
			return answer(http.StatusOK, "done")(r)
		})
		transport := newTransport(t, below, httpclient.WithAttemptTimeout(2*time.Second))
		assertStatus(t, http.StatusOK, send(transport, newMessage(t).WithContext(context.WithValue(parent, key{}, "value"))))
	})
}

func TestAnAttemptUnderWayAtTheCloseStillEndsAtItsTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := newScript(answer(http.StatusOK, "done"))
		below.takes = time.Hour
		transport := newTransport(t, below, httpclient.WithRetries(0))
		sent := send(transport, newMessage(t))
		synctest.Wait()
		require.NoError(t, transport.Close())
		assertAttemptTimeout(t, httpclient.DefaultAttemptTimeout, sent.wait().err)
	})
}
