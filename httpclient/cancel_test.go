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

// A request is cancelled after a second, at the place where it is held up for much longer, with two more behind it.
func TestACancelledRequestLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	slow := discordsim.Fault{Nth: []int{1}, Delay: 5 * time.Second}
	slowBody := discordsim.Fault{Nth: []int{1}, BodyDelay: 5 * time.Second}
	ban := discordsim.EdgeBan{Until: 5 * time.Second}
	unlimited := everything(discordsim.Unlimited())
	taken := func(config discordsim.Config) discordsim.Config { // by others, at the very beginning
		config.Foreign = []discordsim.ForeignUse{{
			Request: discordsim.Request{
				Method: http.MethodPatch, Path: "/channels/1", Authorization: authorization, Fields: []string{"name"},
			}, Count: 2, At: []time.Duration{0},
		}}
		return config
	}
	blocked := unlimited
	blocked.Blocks = []discordsim.GlobalBlock{{Until: 5 * time.Second}}
	banned := unlimited
	banned.Edge = []discordsim.EdgeBan{ban}

	for name, c := range map[string]struct {
		config discordsim.Config
		global int
		ahead  int // requests before it
	}{
		"while the route is discovered":    {config: everything(discordsim.Fixed(5, time.Second), slow), ahead: 1},
		"in its bucket's queue":            {config: everything(discordsim.Fixed(1, 5*time.Second)), ahead: 1},
		"deep in its bucket's queue":       {config: everything(discordsim.Fixed(1, 5*time.Second)), ahead: 3},
		"in line for the global limit":     {config: unlimited, global: 1, ahead: 4},
		"refused, in its bucket's queue":   {config: taken(everything(discordsim.Fixed(2, 5*time.Second)))},
		"refused, for the global limit":    {config: blocked},
		"behind a global refusal":          {config: blocked, ahead: 1},
		"refused by the edge":              {config: banned},
		"behind a refusal of the edge":     {config: banned, ahead: 1},
		"refused by a hidden limit":        {config: taken(channels(discordsim.Fixed(9, 5*time.Second)))},
		"behind one that met such a limit": {config: taken(channels(discordsim.Fixed(9, 5*time.Second))), ahead: 1},
		"in flight":                        {config: everything(discordsim.Fixed(5, time.Second), slow)},
		"while its answer is read":         {config: everything(discordsim.Fixed(5, time.Second), slowBody)},
		"while its refusal is read":        {config: taken(everything(discordsim.Fixed(2, 5*time.Second), slowBody))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := newDiscord(t, c.config)
				global := c.global
				if global == 0 {
					global = buckets.DefaultGlobalLimit
				}
				transport := newTransport(t, server.RoundTripper(), httpclient.WithMaxRateLimit(time.Hour),
					httpclient.WithBuckets(buckets.WithGlobalLimit(global)))
				var others []*call
				for range c.ahead {
					others = append(others, send(transport, rename(t)))
					synctest.Wait()
				}
				ctx, cancel := context.WithCancel(t.Context())
				victim := send(transport, rename(t).WithContext(ctx))
				synctest.Wait()
				for range 2 {
					others = append(others, send(transport, rename(t)))
					synctest.Wait()
				}
				time.Sleep(time.Second)
				require.False(t, victim.over(), "it was not held up")
				cancel()
				synctest.Wait()
				require.True(t, victim.over(), "it does not return")
				require.ErrorIs(t, victim.err, context.Canceled)

				assertStatus(t, http.StatusOK, others...)
				assertNothingHeld(t, transport)
				time.Sleep(20 * time.Minute)
				later := send(transport, rename(t))
				assertStatus(t, http.StatusOK, later)
				assert.Less(t, later.took, slack)
				assert.Zero(t, server.Report().Avoidable.Total())
			})
		})
	}
}

// The context ends after the permission to send was given and before anything was sent.
func TestARequestCancelledOnTheWayOutGivesItsPermitBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		below := newScript(func(r *http.Request) (*http.Response, error) {
			cancel()
			return nil, r.Context().Err()
		}, answer(http.StatusOK, "{}"))
		transport := newTransport(t, below)
		victim := send(transport, newMessage(t).WithContext(ctx))
		assert.ErrorIs(t, victim.wait().err, context.Canceled)
		assertNothingHeld(t, transport)
		assertStatus(t, http.StatusOK, send(transport, newMessage(t)), send(transport, newMessage(t)))
	})
}

func TestARequestCancelledBeforehandIsNotSent(t *testing.T) {
	t.Parallel()
	below := newScript(answer(http.StatusOK, "{}"))
	transport := newTransport(t, below)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var bodies ledger
	r := newMessage(t).WithContext(ctx)
	r.Body = bodies.open(r.Body)
	_, err := transport.RoundTrip(r)
	assert.ErrorIs(t, err, context.Canceled)
	bodies.assertClosed(t)
	assert.Empty(t, below.requests())
}

// The body comes from a pipe whose other end falls silent, and would have to be kept in memory.
func TestReadingABodyThatNeverEndsCanBeCancelled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		below := newScript(answer(http.StatusOK, "{}"))
		transport := newTransport(t, below)
		ctx, cancel := context.WithCancel(t.Context())
		reader, writer := io.Pipe()
		go writer.Write([]byte("half of it"))
		r := newMessage(t).WithContext(ctx)
		r.Body, r.GetBody, r.ContentLength = reader, nil, -1
		victim := send(transport, r)
		time.Sleep(time.Second)
		require.False(t, victim.over())
		cancel()
		synctest.Wait()
		require.True(t, victim.over(), "it does not return")
		assert.ErrorIs(t, victim.err, context.Canceled)
		_, err := writer.Write([]byte("more"))
		assert.ErrorIs(t, err, io.ErrClosedPipe, "the body was not closed")
		assert.Empty(t, below.requests())
		assertStatus(t, http.StatusOK, send(transport, newMessage(t)))
	})
}

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
