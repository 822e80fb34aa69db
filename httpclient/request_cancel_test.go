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

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/internal/discordsim"
)

//lint:file-ignore SA1019 Request.Cancel is deprecated, and heeded.

// Request.Cancel is deprecated, and what older libraries use.
func TestTheCancelChannelOfARequestEndsItWhereverItIs(t *testing.T) {
	t.Parallel()
	used := answer(http.StatusOK, "", limitHeaders("X-RateLimit-Limit: 1", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset-After: 60")...)
	ok := answer(http.StatusOK, "")
	late429 := answerWith(http.StatusTooManyRequests, func() io.ReadCloser { r, _ := io.Pipe(); return r }, "X-RateLimit-Scope: user", "Retry-After: 1")
	for name, c := range map[string]struct {
		answers []func(*http.Request) (*http.Response, error)
		change  func(r *http.Request)
		sent    int
	}{
		"in its bucket's queue":              {answers: answers(used), sent: 1},
		"in a 429's wait":                    {answers: answers(ok, refuse("user", "60"), ok), sent: 2},
		"while a 429's body is read":         {answers: answers(ok, late429), sent: 2},
		"in the pause after a failure":       {answers: answers(ok, answer(http.StatusServiceUnavailable, "", "Retry-After: 10"), ok), sent: 2},
		"while it is sent":                   {answers: answers(ok, silence), sent: 2},
		"while the body of a 200 is read":    {answers: answers(ok, answerSlowly(http.StatusOK, "late", time.Minute)), sent: 2},
		"while its body is read into memory": {answers: answers(ok), change: func(r *http.Request) { r.Body, _ = io.Pipe() }, sent: 1},
	} {
		for parent, ctx := range parents {
			t.Run(name+", "+parent, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					below := newScript(c.answers...)
					transport := newTransport(t, below)
					assertStatus(t, http.StatusOK, send(transport, getChannel(t)))
					cancel := make(chan struct{})
					r := getChannel(t).WithContext(ctx(t))
					r.Cancel = cancel
					if c.change != nil {
						c.change(r)
					}
					victim := send(transport, r)
					time.Sleep(time.Second)
					require.False(t, victim.over())
					close(cancel)
					synctest.Wait()
					require.True(t, victim.over(), "it does not return")
					assert.ErrorIs(t, victim.err, context.Canceled)
					assert.Len(t, below.requests(), c.sent)
					assertNothingHeld(t, transport)
				})
			})
		}
	}
}

func TestTheCancelChannelEndsARequestOverRealConnections(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]discordsim.Fault{"headers": {Delay: time.Minute}, "body": {BodyDelay: time.Minute}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := newDiscord(t, everything(discordsim.Fixed(5, time.Second), fault))
				below := &http.Transport{DialContext: server.DialContext}
				defer below.CloseIdleConnections()
				cancel := make(chan struct{})
				r := newMessage(t)
				r.Cancel = cancel
				time.AfterFunc(time.Second, func() { close(cancel) })
				sent := send(newTransport(t, below), r).wait()
				assert.ErrorIs(t, sent.err, context.Canceled)
			})
		})
	}
}

// Neither a goroutine nor a context is left of a channel that is never closed, which goleak and synctest would see.
func TestNothingIsLeftOfACancelChannelThatIsNeverClosed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer func(*http.Request) (*http.Response, error)
		finish func(t *testing.T, response *http.Response)
	}{
		"read to the end":  {answer(http.StatusOK, "done"), func(t *testing.T, r *http.Response) { _, err := io.ReadAll(r.Body); assert.NoError(t, err) }},
		"closed":           {answer(http.StatusOK, "done"), func(t *testing.T, r *http.Response) { assert.NoError(t, r.Body.Close()); r.Body.Close() }},
		"without a body":   {answerWith(http.StatusNoContent, func() io.ReadCloser { return http.NoBody }), func(*testing.T, *http.Response) {}},
		"without any body": {answerWith(http.StatusNoContent, func() io.ReadCloser { return nil }), func(*testing.T, *http.Response) {}},
		"an error":         {fail(io.ErrUnexpectedEOF), nil},
		"a panic":          {func(*http.Request) (*http.Response, error) { panic("below") }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				below := newScript(c.answer)
				r := newMessage(t)
				r.Cancel = make(chan struct{})
				defer func() { _ = recover() }()
				response, err := newTransport(t, below).RoundTrip(r)
				if c.finish == nil {
					require.Error(t, err)
				} else {
					require.NoError(t, err)
					assert.Same(t, r, response.Request)
					c.finish(t, response)
				}
				assert.ErrorIs(t, below.requests()[0].request.Context().Err(), context.Canceled)
			})
		})
	}
}

func TestARequestWhoseCancelChannelIsClosedIsNotSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		below := newScript(answer(http.StatusOK, ""))
		transport := newTransport(t, below, httpclient.WithBuckets(buckets.WithGlobalLimit(1)))
		cancel := make(chan struct{})
		close(cancel)
		var bodies ledger
		r := newMessage(t)
		r.Body, r.Cancel = bodies.open(r.Body), cancel
		_, err := transport.RoundTrip(r)
		assert.ErrorIs(t, err, context.Canceled)
		assert.Empty(t, below.requests())
		bodies.assertClosed(t)
	})
}
