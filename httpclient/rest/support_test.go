package rest_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/rest"
)

const (
	clientToken     = "MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.client-SeCrEt"
	clientMessages  = "/channels/1/messages"
	clientJSON      = "application/json"
	clientSearch    = "/guilds/1/messages/search?content=hello"
	clientUnindexed = `{"message":"Index not yet available. Try again later","code":110000,"retry_after":2}`
)

// bubble runs a test in virtual time, in parallel with others.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}

// inBubble runs a subtest in virtual time, in parallel with others.
func inBubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { bubble(t, test) })
}

// inBubbles runs a test in virtual time for each row of a table, in parallel with others.
func inBubbles[R any](t *testing.T, rows map[string]R, test func(t *testing.T, row R)) {
	t.Helper()
	t.Parallel()
	for name, row := range rows {
		inBubble(t, name, func(t *testing.T) { test(t, row) })
	}
}

// errorAs asserts that err is or wraps an error of type E, and returns the error of this type.
func errorAs[E error](t *testing.T, err error) (found E) {
	t.Helper()
	require.ErrorAs(t, err, &found)
	return found
}

// newManager returns a manager that has been started. It is closed when the test ends.
func newManager(t *testing.T) *buckets.RESTBucketManager {
	t.Helper()
	manager := buckets.NewRESTBucketManager()
	require.NoError(t, manager.Start())
	t.Cleanup(func() { assert.NoError(t, manager.Close()) })
	return manager
}

// arrived is a request that a Client has sent.
type arrived struct {
	*http.Request
	body string
}

// wire is the base transport of a Client. It records the requests, and gives one response after another. When the
// responses are used up, it repeats the last response.
type wire struct {
	responses []func() *http.Response

	mu       sync.Mutex
	requests []arrived
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	a := arrived{Request: r}
	if r.Body != nil {
		defer r.Body.Close()
		content, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		a.body = string(content)
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	w.mu.Lock()
	response := w.responses[min(len(w.requests), len(w.responses)-1)]()
	w.requests = append(w.requests, a)
	w.mu.Unlock()
	response.Request = r
	return response, nil
}

func (w *wire) sent() []arrived {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.requests[:len(w.requests):len(w.requests)]
}

// only asserts that one request was sent, and returns it.
func (w *wire) only(t *testing.T) arrived {
	t.Helper()
	require.Len(t, w.sent(), 1)
	return w.sent()[0]
}

// replies returns a wire that gives the given responses.
func replies(responses ...func() *http.Response) *wire { return &wire{responses: responses} }

// reply returns a function that makes responses. Header lines have the form "Name: value".
func reply(status int, contentType, body string, lines ...string) func() *http.Response {
	return func() *http.Response {
		header := make(http.Header)
		if contentType != "" {
			header.Set("Content-Type", contentType)
		}
		for _, line := range lines {
			name, value, _ := strings.Cut(line, ": ")
			header.Set(name, value)
		}
		return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(body)),
			ContentLength: -1}
	}
}

// fine returns a wire that answers every request with an empty object.
func fine() *wire { return replies(reply(http.StatusOK, clientJSON, "{}")) }

// refused returns a function that makes 429s of scope user, with retry_after in the body.
func refused(seconds string) func() *http.Response {
	return reply(http.StatusTooManyRequests, clientJSON,
		`{"message":"You are being rate limited.","retry_after":`+seconds+`}`,
		"X-RateLimit-Scope: user", "Retry-After: 1", "Via: 1.1 google")
}

// over returns an option that makes a client send through the given base transport.
func over(below http.RoundTripper) rest.Option { return rest.WithTransport(httpclient.WithBase(below)) }

// newClient returns a client that sends through the given base transport. The client is closed when the test ends. If a
// request still waits or is in flight at that time, the test fails.
func newClient(t *testing.T, below http.RoundTripper, options ...rest.Option) *rest.Client {
	t.Helper()
	client := rest.New(clientToken, append([]rest.Option{over(below)}, options...)...)
	t.Cleanup(func() {
		stats := client.Transport().Manager().Stats()
		assert.Zero(t, stats.Waiting, "waiting")
		assert.Zero(t, stats.InFlight, "in flight")
		assert.NoError(t, client.Close())
	})
	return client
}

// sent calls DoJSON, and returns the request that the client sent.
func sent(t *testing.T, client []rest.Option, method, path string, in any, options ...rest.RequestOption) arrived {
	t.Helper()
	below := fine()
	c := rest.New(clientToken, append([]rest.Option{over(below)}, client...)...)
	require.NoError(t, c.DoJSON(t.Context(), method, path, in, nil, options...))
	require.NoError(t, c.Close())
	return below.only(t)
}

// listener is a limiter that grants all requests at once, and records their servers, routes and major parameters.
type listener struct {
	buckets.Unlimited
	requests []string
}

func (l *listener) AcquireRequest(ctx context.Context, r *buckets.Request) (buckets.Lease, error) {
	l.requests = append(l.requests, fmt.Sprint(r.Server, " ", r.Route.Route(), " of ", r.Route.Major().ID))
	return l.Unlimited.AcquireRequest(ctx, r)
}

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // the tests cause warnings on purpose
	goleak.VerifyTestMain(m)
}
