package httpclient_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/internal/discordsim"
)

const (
	authorization = "Bot token"
	messages      = "/api/v10/channels/1/messages"
	// slack is how much longer than required a wait may take in virtual time, because round trips take time and headers
	// are rounded.
	slack = 50 * time.Millisecond
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

// within returns a context that ends after d, or when the test ends if that is earlier.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// errorAs asserts that err is or wraps an error of type E, and returns the error of this type.
func errorAs[E error](t *testing.T, err error) (found E) {
	t.Helper()
	require.ErrorAs(t, err, &found)
	return found
}

// newManager returns a manager that has been started. It is closed when the test ends.
func newManager(t *testing.T, options ...buckets.Option) *buckets.RESTBucketManager {
	t.Helper()
	manager := buckets.NewRESTBucketManager(options...)
	require.NoError(t, manager.Start())
	t.Cleanup(func() { assert.NoError(t, manager.Close()) })
	return manager
}

// newTransport returns a transport that is closed when the test ends. If a request still waits or is in flight at that
// time, the test fails.
func newTransport(t *testing.T, base http.RoundTripper, options ...httpclient.Option) *httpclient.Transport {
	t.Helper()
	transport := httpclient.NewTransport(append([]httpclient.Option{httpclient.WithBase(base)}, options...)...)
	t.Cleanup(func() {
		assertNothingHeld(t, transport)
		assert.NoError(t, transport.Close())
	})
	return transport
}

// eachBody sets the largest size of a body that is kept in memory. The bound for all bodies keeps its default.
func eachBody(bytes int64) httpclient.Option {
	return httpclient.WithBufferedBodies(bytes, httpclient.DefaultMaxBufferedTotal)
}

// allBodies bounds the memory of all bodies. The largest size of each body keeps its default.
func allBodies(bytes int64) httpclient.Option {
	return httpclient.WithBufferedBodies(httpclient.DefaultMaxBufferedBody, bytes)
}

// noRetries turns off retries. noTimeout turns off the timeout of attempts.
var (
	noRetries = httpclient.WithAttempts(httpclient.Attempts{Retries: httpclient.NoRetries})
	noTimeout = httpclient.WithAttempts(httpclient.Attempts{Timeout: -1})
)

// anyHost makes the transport limit all hosts as if they were Discord's.
var anyHost = []httpclient.Option{httpclient.WithHosts(func(string) (string, bool) { return "", true })}

// assertNothingHeld asserts that no request waits or is in flight, neither in total nor in any bucket.
func assertNothingHeld(t *testing.T, transport *httpclient.Transport) {
	t.Helper()
	if transport.Manager() == nil {
		return // the limiter is of another type
	}
	stats := transport.Manager().Stats()
	assert.Zero(t, stats.Waiting, "waiting")
	assert.Zero(t, stats.InFlight, "in flight")
	for b := range transport.Manager().Buckets() {
		assert.Zero(t, b.Waiting, "waiting in %s", b.Hash)
		assert.Zero(t, b.InFlight, "in flight in %s", b.Hash)
	}
}

// newDiscord returns a simulated Discord. The round trip takes 10 ms unless the config says otherwise.
func newDiscord(t *testing.T, config discordsim.Config) *discordsim.Server {
	t.Helper()
	config.Latency.RoundTrip = cmp.Or(config.Latency.RoundTrip, 10*time.Millisecond)
	server, err := discordsim.New(config)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, server.Close()) })
	return server
}

// newRequest returns a request with the bot's Authorization. If body is empty, the request has none.
func newRequest(t *testing.T, method, path, body string) *http.Request {
	t.Helper()
	var content io.Reader
	if body != "" {
		content = strings.NewReader(body)
	}
	r, err := http.NewRequest(method, discordsim.BaseURL+path, content)
	require.NoError(t, err)
	r.Header.Set("Authorization", authorization)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

func newMessage(t *testing.T) *http.Request {
	t.Helper()
	return newRequest(t, http.MethodPost, messages, `{"content":"hello"}`)
}

// roundTrip sends a request, which must get a response.
func roundTrip(t *testing.T, transport http.RoundTripper, r *http.Request) *http.Response {
	t.Helper()
	response, err := transport.RoundTrip(r)
	require.NoError(t, err)
	return response
}

// call is a request that is sent by a goroutine of its own, and the outcome of the request.
type call struct {
	done   chan struct{}
	status int
	body   string
	err    error
	took   time.Duration
}

// send sends a request in the background.
func send(transport http.RoundTripper, r *http.Request) *call {
	c := &call{done: make(chan struct{})}
	start := time.Now()
	go func() {
		defer close(c.done)
		response, err := transport.RoundTrip(r)
		c.took, c.err = time.Since(start), err
		if err != nil {
			return
		}
		defer response.Body.Close()
		content, err := io.ReadAll(response.Body)
		c.status, c.body, c.err = response.StatusCode, string(content), err
	}()
	return c
}

// wait waits for the outcome.
func (c *call) wait() *call {
	<-c.done
	return c
}

// over reports whether the request has ended.
func (c *call) over() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// assertStatus waits for all calls and asserts that their responses have the given status.
func assertStatus(t *testing.T, status int, calls ...*call) {
	t.Helper()
	for i, c := range calls {
		c.wait()
		if assert.NoError(t, c.err, "request %d", i) {
			assert.Equal(t, status, c.status, "request %d", i)
		}
	}
}

// assertTook asserts that a wait took at least the required time (want), and at most slack longer than that.
func assertTook(t *testing.T, want, took time.Duration) {
	t.Helper()
	assert.GreaterOrEqual(t, took, want)
	assert.LessOrEqual(t, took, want+slack)
}

// responder is a function that is used as a base transport.
type responder func(*http.Request) (*http.Response, error)

func (f responder) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// script is a base transport that gives one answer after another, and records the requests. The last answer is given to
// all further requests.
type script struct {
	answers []responder
	takes   time.Duration

	mu   sync.Mutex
	sent []sent
}

// sent is a request that a script got.
type sent struct {
	request *http.Request
	body    string
	at      time.Time
}

func newScript(answers ...responder) *script {
	return &script{answers: answers}
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	at, content := time.Now(), ""
	if r.Body != nil {
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		content = string(text)
	}
	s.mu.Lock()
	answer := s.answers[min(len(s.sent), len(s.answers)-1)]
	s.sent = append(s.sent, sent{r, content, at})
	s.mu.Unlock()
	if s.takes > 0 {
		select {
		case <-time.After(s.takes):
		case <-r.Context().Done():
			return nil, context.Cause(r.Context())
		}
	}
	return answer(r)
}

func answers(list ...responder) []responder { return list }

// requests returns the requests that were sent.
func (s *script) requests() []sent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sent)
}

// answer returns a response with the given status, body and header lines.
func answer(status int, body string, header ...string) responder {
	return answerWith(status, func() io.ReadCloser { return io.NopCloser(strings.NewReader(body)) }, header...)
}

func answerWith(status int, body func() io.ReadCloser, header ...string) responder {
	return func(r *http.Request) (*http.Response, error) {
		h := make(http.Header)
		for _, line := range header {
			name, value, _ := strings.Cut(line, ": ")
			h.Set(name, value)
		}
		return &http.Response{StatusCode: status, Header: h, Body: body(), ContentLength: -1, Request: r}, nil
	}
}

// stalling is a body whose content arrives after a delay. A blocked Read returns when the body is closed or the body's
// context ends.
type stalling struct {
	io.Reader
	delay           time.Duration
	context, closed context.Context
	close           context.CancelFunc
}

func stall(delay time.Duration, content io.Reader) *stalling {
	closed, close := context.WithCancel(context.Background())
	return &stalling{content, delay, context.Background(), closed, close}
}

var errClosedBody = errors.New("read on closed body")

func (s *stalling) Read(p []byte) (int, error) {
	if s.delay == 0 { // the content has arrived
		return s.Reader.Read(p)
	}
	timer := time.NewTimer(s.delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		s.delay = 0
		return s.Reader.Read(p)
	case <-s.context.Done():
		return 0, s.context.Err()
	case <-s.closed.Done():
		return 0, errClosedBody
	}
}

func (s *stalling) Close() error {
	s.close()
	return nil
}

// answerSlowly returns a response whose headers arrive at once and whose body arrives after the delay. If the request's
// context ends before that, reading the body fails.
func answerSlowly(status int, text string, delay time.Duration, header ...string) responder {
	return func(r *http.Request) (*http.Response, error) {
		body := stall(delay, strings.NewReader(text))
		body.context = r.Context()
		return answerWith(status, func() io.ReadCloser { return body }, header...)(r)
	}
}

// refuse returns a 429 of Discord's API with the given scope. The 429 asks the client to wait for the given number of
// seconds.
func refuse(scope, seconds string) responder {
	return answer(http.StatusTooManyRequests,
		`{"message":"You are being rate limited.","retry_after":`+seconds+`,"global":false}`,
		"X-RateLimit-Scope: "+scope, "Retry-After: "+seconds, "Via: 1.1 google", "Content-Type: application/json")
}

// usedUp returns a success. It says that a bucket with the given limit allows no more requests until its reset.
func usedUp(limit int, resetAfter time.Duration) responder {
	return answer(http.StatusOK, "{}", limitHeaders("X-RateLimit-Remaining: 0", fmt.Sprint("X-RateLimit-Limit: ", limit),
		fmt.Sprint("X-RateLimit-Reset-After: ", resetAfter.Seconds()))...)
}

// fail returns an error instead of a response.
func fail(err error) responder {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

// ledger counts bodies that were opened and closed.
type ledger struct{ opened, closed atomic.Int32 }

// open returns a body that the ledger counts as open until it is closed.
func (l *ledger) open(content io.Reader) io.ReadCloser {
	l.opened.Add(1)
	return &entered{Reader: content, close: sync.OnceFunc(func() { l.closed.Add(1) })}
}

// track makes a ledger count the body of a request.
func track(r *http.Request) *ledger {
	l := new(ledger)
	r.Body = l.open(r.Body)
	return l
}

func (l *ledger) assertClosed(t *testing.T) {
	t.Helper()
	assert.NotZero(t, l.opened.Load(), "no body was opened")
	assert.Equal(t, l.opened.Load(), l.closed.Load(), "not all bodies that were opened were closed")
}

type entered struct {
	io.Reader
	close func()
}

func (e *entered) Close() error {
	e.close()
	return nil
}

// pipes is a listener of in-memory connections, for a net/http server in virtual time. A write waits until the other
// side has read it.
type pipes struct {
	dialed chan net.Conn
	closed context.Context
	close  context.CancelFunc
}

// newServer starts a server in virtual time, and returns a transport whose connections all lead to it. The contexts of
// the server's requests end with the test.
func newServer(t *testing.T, handler http.HandlerFunc) *http.Transport {
	t.Helper()
	p := &pipes{dialed: make(chan net.Conn)}
	p.closed, p.close = context.WithCancel(context.Background())
	var serving sync.WaitGroup
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{
		Protocols:   protocols,
		BaseContext: func(net.Listener) context.Context { return p.closed },
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			serving.Add(1)
			defer serving.Done()
			handler(w, r)
		}),
	}
	serving.Go(func() { assert.ErrorIs(t, server.Serve(p), http.ErrServerClosed) })
	below := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		p.dialed <- server
		return client, nil
	}, ExpectContinueTimeout: time.Minute}
	t.Cleanup(func() {
		below.CloseIdleConnections()
		assert.NoError(t, server.Close())
		serving.Wait()
		time.Sleep(time.Second) // net/http keeps connections open for a short time
	})
	return below
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.dialed:
		return c, nil
	case <-p.closed.Done():
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.close(); return nil }
func (p *pipes) Addr() net.Addr { return new(net.TCPAddr) }

// everything is a simulated Discord with one limit for each channel and no global limit.
func everything(quota discordsim.Quota, faults ...discordsim.Fault) discordsim.Config {
	return discordsim.Config{
		Rules:   []discordsim.Rule{{Path: "**", Quota: quota, Hash: "messages", Faults: faults}},
		Global:  discordsim.Unlimited(),
		FullLog: true,
	}
}

// unlimitedBot turns off the global limit.
func unlimitedBot() httpclient.Option { return httpclient.WithBuckets(buckets.WithGlobalLimit(0)) }
