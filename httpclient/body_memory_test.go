package httpclient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
)

// tally is a body that adds the number of bytes read from it to sum. All bodies of a test share one sum.
type tally struct {
	io.Reader
	sum *atomic.Int64
}

func (c tally) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.sum.Add(int64(n))
	return n, err
}

// Uploads wait until the bucket of their route is known. Meanwhile the parts of their bodies that have been read stay
// in memory. The total size of these parts must not exceed a bound.
func TestTheBodiesOfAllThatWaitAreKeptUpToABound(t *testing.T) {
	type story struct {
		options []httpclient.Option
		bound   int64
		length  int64
		count   int
		size    int
	}
	inBubbles(t, map[string]story{
		"of known length":   {[]httpclient.Option{allBodies(100_000)}, 100_000, 3000, 200, 3000},
		"of unknown length": {[]httpclient.Option{allBodies(100_000)}, 100_000, -1, 200, 3000},
		"large":             {[]httpclient.Option{allBodies(100_000)}, 100_000, -1, 20, 200_000},
		"by default":        {nil, 64 << 20, -1, 70, 1 << 20},
		"without a bound":   {[]httpclient.Option{allBodies(math.MaxInt64)}, 600_000, -1, 200, 3000},
		"none":              {[]httpclient.Option{allBodies(0)}, 0, -1, 20, 3000},
		"negative, none":    {[]httpclient.Option{allBodies(-5)}, 0, 3000, 20, 3000},
		"no body is kept":   {[]httpclient.Option{eachBody(0)}, 0, -1, 20, 3000},
	}, func(t *testing.T, c story) {
		below := newScript(silence, answer(http.StatusOK, ""))
		options := append(c.options, httpclient.WithAttempts(httpclient.Attempts{Timeout: time.Second}), unlimitedBot())
		transport := newTransport(t, below, options...)
		first := send(transport, newMessage(t))
		synctest.Wait()
		var sum atomic.Int64
		var calls []*call
		for range c.count {
			text := tally{strings.NewReader(strings.Repeat("a", c.size)), &sum}
			calls = append(calls, send(transport, unreplayable(newMessage(t), text, c.length)))
		}
		synctest.Wait()
		const ahead = 1 // a body of unknown length is read one byte further, to see whether it has ended
		assert.LessOrEqual(t, sum.Load(), c.bound+int64(c.count)*ahead)
		assert.GreaterOrEqual(t, sum.Load(), c.bound*9/10, "the bodies in memory must use most of the bound")
		assert.Error(t, first.wait().err)
		assertStatus(t, http.StatusOK, calls...)
		require.Len(t, below.requests(), 1+c.count)
		for _, s := range below.requests()[1:] {
			assert.Len(t, s.body, c.size)
		}
	})
}

// gate is a limiter that grants all requests at once while it is open, and none while it is shut.
type gate struct {
	buckets.Unlimited
	shut atomic.Bool
}

func (g *gate) AcquireRequest(ctx context.Context, r *buckets.Request) (buckets.Lease, error) {
	if g.shut.Load() {
		<-ctx.Done()
	}
	return g.Unlimited.AcquireRequest(ctx, r)
}

// assertRoom asserts that the transport has room in memory for bodies of exactly the given number of bytes. The limiter
// must grant no request meanwhile.
func assertRoom(t *testing.T, transport *httpclient.Transport, bytes int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	all := &counted{Reader: strings.NewReader(strings.Repeat("a", bytes))}
	first := send(transport, unreplayable(newMessage(t), all, int64(bytes)).WithContext(ctx))
	synctest.Wait()
	assert.Equal(t, bytes, all.read, "there must be room for all these bytes")
	more := &counted{Reader: strings.NewReader("a")}
	second := send(transport, unreplayable(newMessage(t), more, 1).WithContext(ctx))
	synctest.Wait()
	// The transport reads only the first byte of a body that it does not keep, so it does not reach the end of this body.
	assert.False(t, more.ended, "there must be no room for one more byte")
	cancel()
	assert.ErrorIs(t, first.wait().err, context.Canceled)
	assert.ErrorIs(t, second.wait().err, context.Canceled)
}

// However a request ends, the memory of its body must be given back to the budget exactly once, so that other bodies
// can use it.
func TestTheRoomOfABodyIsGivenBackOnce(t *testing.T) {
	const bound = 1000
	full := func() io.Reader { return strings.NewReader(strings.Repeat("a", bound)) }
	ok, broken := answer(http.StatusOK, ""), errors.New("disk is gone")
	panicking := httpclient.WithHooks(httpclient.Hooks{
		Request: func(context.Context, httpclient.RequestEvent) { panic("the hook") },
	})
	type story struct {
		first   responder
		content io.Reader
		length  int64
		options []httpclient.Option
		shut    bool
	}
	inBubbles(t, map[string]story{
		"success":                 {first: ok, content: full(), length: bound},
		"of unknown length":       {first: ok, content: full(), length: -1},
		"repeated":                {first: answer(http.StatusBadGateway, ""), content: full(), length: bound},
		"refused":                 {first: refuse("user", "1"), content: full(), length: bound},
		"refused for long":        {first: refuse("user", "4000"), content: full(), length: bound},
		"an error":                {first: fail(errors.New("no network")), content: full(), length: bound},
		"too long":                {first: ok, content: io.MultiReader(full(), full()), length: -1},
		"shorter than its length": {first: ok, content: strings.NewReader("a"), length: bound},
		"longer than its length":  {first: ok, content: full(), length: bound / 2},
		"cannot be read":          {first: ok, content: io.MultiReader(full(), iotest.ErrReader(broken)), length: -1},
		"panics":                  {first: ok, content: panics{}, length: bound},
		"a hook that panics":      {first: ok, content: full(), length: bound, options: []httpclient.Option{panicking}},
		"cancelled, read":         {first: ok, length: bound}, // the body is a pipe that stops halfway
		"cancelled, waiting":      {first: ok, content: full(), length: bound, shut: true},
		"cancelled, sent":         {first: silence, content: full(), length: bound},
	}, func(t *testing.T, c story) {
		limiter := new(gate)
		limiter.shut.Store(c.shut)
		transport := httpclient.NewTransport(append(c.options, allBodies(bound),
			httpclient.WithLimiter(limiter), httpclient.WithBase(newScript(c.first, ok)))...)
		defer transport.Close()
		ctx := within(t, 10*time.Second)
		r := unreplayable(newRequest(t, http.MethodPut, channel+"/pins/2", ""), c.content, c.length).WithContext(ctx)
		if c.content == nil {
			r.Body, _ = io.Pipe()
		}
		func() {
			defer func() { _ = recover() }()
			if response, err := transport.RoundTrip(r); err == nil {
				response.Body.Close()
				response.Body.Close()
			}
		}()
		limiter.shut.Store(true)
		assertRoom(t, transport, bound)
	})
}

// A body does not fit into the memory that is left, so it is not kept. The memory that is left must remain free for
// smaller bodies.
func TestABodyThatDoesNotFitTakesNoRoom(t *testing.T) {
	bubble(t, func(t *testing.T) {
		limiter := new(gate)
		limiter.shut.Store(true)
		transport := newTransport(t, newScript(), allBodies(1000), httpclient.WithLimiter(limiter))
		r := unreplayable(newMessage(t), io.LimitReader(endless{}, 1001), 1001).WithContext(within(t, time.Minute))
		large := send(transport, r)
		synctest.Wait()
		assertRoom(t, transport, 1000)
		assert.ErrorIs(t, large.wait().err, context.DeadlineExceeded)
	})
}

type panics struct{}

func (panics) Read([]byte) (int, error) { panic("the body") }

// If a body of unknown length is read into memory, it must be sent with a Content-Length. Otherwise net/http would send
// it in chunks, which takes a few more bytes, and some servers refuse chunked uploads.
func TestABodyThatIsKeptIsSentWithItsLength(t *testing.T) {
	t.Parallel()
	type received struct {
		length           int64
		transferEncoding []string
		content          string
		trailer          string
	}
	var got received
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		content, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		got = received{r.ContentLength, r.TransferEncoding, string(content), r.Trailer.Get("X-Sum")}
	}))
	defer server.Close()
	below := new(http.Transport)
	defer below.CloseIdleConnections()
	transport := newTransport(t, below, anyHost...)
	for name, c := range map[string]struct {
		content string
		trailer http.Header
		want    received
	}{
		"some":           {"hello", nil, received{5, nil, "hello", ""}},
		"nothing":        {"", nil, received{0, nil, "", ""}},
		"with a trailer": {"hello", http.Header{"X-Sum": {"1"}}, received{-1, []string{"chunked"}, "hello", "1"}},
	} {
		for _, length := range []int64{0, -1} {
			r, err := http.NewRequest(http.MethodPost, server.URL+messages, struct{ io.Reader }{strings.NewReader(c.content)})
			require.NoError(t, err)
			r.ContentLength, r.Trailer = length, c.trailer
			response := roundTrip(t, transport, r)
			require.NoError(t, response.Body.Close())
			assert.Equal(t, c.want, got, name)
			assert.Equal(t, length, r.ContentLength, "the caller's request must not change")
		}
	}
}

// The base transport keeps a request, and thus its body, until the response has been read. Until then the memory of the
// body must count against the bound.
func TestTheBodiesOfRequestsWhoseResponsesAreOpenAreWithinTheBound(t *testing.T) {
	t.Parallel()
	for name, finish := range map[string]func(*http.Response){
		"read":   func(r *http.Response) { _, _ = io.Copy(io.Discard, r.Body) },
		"closed": func(r *http.Response) { r.Body.Close() },
		"both": func(r *http.Response) {
			_, _ = io.Copy(io.Discard, r.Body)
			r.Body.Close()
		},
	} {
		for _, timeout := range []time.Duration{-1, time.Minute} {
			inBubble(t, fmt.Sprintf("%s, with a timeout of %v", name, timeout), func(t *testing.T) {
				limiter := new(gate)
				transport := newTransport(t, newScript(answer(http.StatusBadGateway, "down"), answer(http.StatusOK, "{}")),
					allBodies(1000), httpclient.WithLimiter(limiter), httpclient.WithAttempts(httpclient.Attempts{Timeout: timeout}))
				r := unreplayable(newRequest(t, http.MethodPut, channel+"/pins/2", ""), io.LimitReader(endless{}, 600), -1)
				response := roundTrip(t, transport, r)
				assert.Equal(t, http.StatusOK, response.StatusCode)
				limiter.shut.Store(true)
				assertRoom(t, transport, 400)
				finish(response)
				assertRoom(t, transport, 1000)
			})
		}
	}
}
