package proxy_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	stdlog "log"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/discordtest"
	"github.com/ratelight/ratelight/httpclient/proxy"
)

const (
	token    = "Bot MTIzNDU2Nzg5.canary-token.canary-signature" // the token of the bot 123456789
	messages = "/api/v10/channels/1/messages"
)

// world is a client, a proxy and a fake Discord, with in-memory connections and in virtual time.
type world struct {
	t       *testing.T
	discord *discordtest.Server
	handler *proxy.Handler
	server  *http.Server
	network *network
	client  *http.Client
}

// play runs a test in a bubble, in parallel with others.
func play(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}

// playIn runs a subtest in a bubble, in parallel with others.
func playIn(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { play(t, test) })
}

// playEach runs a test in a bubble for each row of a table, in parallel with others.
func playEach[R any](t *testing.T, rows map[string]R, test func(t *testing.T, row R)) {
	t.Helper()
	t.Parallel()
	for name, row := range rows {
		playIn(t, name, func(t *testing.T) { test(t, row) })
	}
}

func newWorld(t *testing.T, rules []discordtest.Rule, options ...proxy.Option) *world {
	t.Helper()
	discord := discordtest.NewServer(t, rules...)
	options = append([]proxy.Option{proxy.WithTransport(httpclient.WithBase(discord.Client().Transport))}, options...)
	w := serve(t, options...)
	w.discord = discord
	return w
}

// usedUp returns a world in which one message may be sent in a period, and this message has been sent.
func usedUp(t *testing.T, period time.Duration, options ...proxy.Option) *world {
	t.Helper()
	w := newWorld(t, []discordtest.Rule{discordtest.Window("POST /channels/{id}/messages", 1, period).Bucket("messages")},
		options...)
	w.send("POST", messages, "{}")
	return w
}

// newWorldOf returns a world in which a handler takes the place of Discord.
func newWorldOf(t *testing.T, upstream http.HandlerFunc, options ...proxy.Option) *world {
	t.Helper()
	far := newNetwork()
	server := far.serve(t, upstream)
	base := far.transport()
	base.DisableCompression = true
	t.Cleanup(func() {
		base.CloseIdleConnections()
		_ = server.Close()
		time.Sleep(time.Second) // net/http keeps the connection for less than a second if it has not read all of a request
	})
	return serve(t,
		append([]proxy.Option{proxy.WithUpstream("http://discord.com"), proxy.WithTransport(httpclient.WithBase(base))},
			options...)...)
}

func serve(t *testing.T, options ...proxy.Option) *world {
	t.Helper()
	handler, err := proxy.New(options...)
	require.NoError(t, err)
	w := &world{t: t, handler: handler, network: newNetwork()}
	w.server = w.network.serve(t, handler)
	transport := w.network.transport()
	w.client = &http.Client{Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		assert.NoError(t, w.server.Close())
		synctest.Wait()
		stats := handler.Transport().Manager().Stats()
		assert.Zero(t, stats.Waiting, "waiting")
		assert.Zero(t, stats.InFlight, "in flight")
		assert.NoError(t, handler.Close())
	})
	return w
}

// network is a listener with in-memory connections to one server.
type network struct {
	connections chan net.Conn
	closed      chan struct{}
}

func newNetwork() *network {
	return &network{connections: make(chan net.Conn), closed: make(chan struct{})}
}

func (n *network) serve(t *testing.T, handler http.Handler) *http.Server {
	server := &http.Server{Handler: handler, ErrorLog: stdlog.New(io.Discard, "", 0)}
	go func() { _ = server.Serve(n) }() // Serve returns when the server is closed
	synctest.Wait()
	return server
}

func (n *network) Accept() (net.Conn, error) {
	select {
	case conn := <-n.connections:
		return conn, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

func (n *network) Close() error {
	select {
	case <-n.closed:
	default:
		close(n.closed)
	}
	return nil
}

func (n *network) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080} }

func (n *network) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case n.connections <- server:
		return client, nil
	case <-n.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (n *network) transport() *http.Transport {
	return &http.Transport{DialContext: n.dial, DialTLSContext: n.dial, DisableCompression: true}
}

func newRequest(t *testing.T, method, path, body string) *http.Request {
	t.Helper()
	var content io.Reader
	if body != "" {
		content = strings.NewReader(body)
	}
	r, err := http.NewRequest(method, "http://proxy"+path, content)
	require.NoError(t, err)
	r.Header.Set("Authorization", token)
	r.Header.Set("User-Agent", "DiscordBot (https://example.com, 1)")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

// response is the response to a request, with its body read, or the error of the request.
type response struct {
	*http.Response
	text string
	took time.Duration
	err  error
}

// error decodes the body as an error of Discord.
func (r response) error(t *testing.T) (e struct {
	Message    string
	Code       *int
	RetryAfter *float64 `json:"retry_after"`
	Global     *bool
}) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(r.text), &e), "%q", r.text)
	return e
}

func (w *world) do(r *http.Request) response {
	w.t.Helper()
	got := w.try(r)
	require.NoError(w.t, got.err)
	return got
}

func (w *world) try(r *http.Request) (got response) {
	start := time.Now()
	if got.Response, got.err = w.client.Do(r); got.err != nil {
		return got
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	got.text, got.err, got.took = string(text), err, time.Since(start)
	return got
}

func (w *world) send(method, path, body string) response {
	w.t.Helper()
	return w.do(newRequest(w.t, method, path, body))
}

// start sends a request in the background, and returns a channel for the response.
func (w *world) start(r *http.Request) <-chan response {
	done := make(chan response, 1)
	go func() { done <- w.try(r) }()
	return done
}

// rawPost returns the bytes of a POST of a message, with additional header lines.
func rawPost(body string, header ...string) string {
	lines := append([]string{"POST " + messages + " HTTP/1.1", "Host: proxy", "Authorization: " + token}, header...)
	return strings.Join(lines, "\r\n") + "\r\n\r\n" + body
}

// raw sends bytes over a new connection, and returns the connection and the response.
func (w *world) raw(text string) (net.Conn, *http.Response) {
	w.t.Helper()
	conn, err := w.network.dial(w.t.Context(), "", "")
	require.NoError(w.t, err)
	w.t.Cleanup(func() { conn.Close() })
	go func() { _, _ = io.WriteString(conn, text) }()
	got, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(w.t, err)
	return conn, got
}

// paths returns method, path and query of each request that the fake Discord got.
func (w *world) paths() (paths []string) {
	for _, r := range w.discord.Requests() {
		path := r.Method + " " + r.Path
		if r.Query != "" {
			path += "?" + r.Query
		}
		paths = append(paths, path)
	}
	return paths
}

// assertOwn asserts that a response is the proxy's own, that it has the given status and reason, and that the status is
// neither 401 nor 403.
func assertOwn(t *testing.T, got response, status int, reason string) {
	t.Helper()
	assert.Equal(t, status, got.StatusCode)
	assert.Equal(t, reason, got.Header.Get("X-Ratelight-Proxy"))
	assert.Equal(t, "1.1 ratelight", got.Header.Get("Via"))
	assert.Equal(t, "application/json", got.Header.Get("Content-Type"))
	assert.NotContains(t, []int{401, 403}, got.StatusCode)
	if e := got.error(t); assert.NotNil(t, e.Code) {
		assert.NotEmpty(t, e.Message)
	}
}

// withCancel returns the request with a context that can be cancelled.
func withCancel(r *http.Request) (*http.Request, context.CancelFunc) {
	ctx, cancel := context.WithCancel(r.Context())
	return r.WithContext(ctx), cancel
}

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // the tests cause warnings on purpose
	goleak.VerifyTestMain(m)
}
