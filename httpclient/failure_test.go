package httpclient_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// attempts counts the requests that reach the base transport.
func attempts(below http.RoundTripper, count *atomic.Int32) http.RoundTripper {
	return responder(func(r *http.Request) (*http.Response, error) {
		count.Add(1)
		return below.RoundTrip(r)
	})
}

func TestAnErrorThatWillNotPassIsReturnedAtOnceAndAsItIs(t *testing.T) {
	t.Parallel()
	_, badURL := url.Parse(strings.TrimSuffix("http://[::1]", "]"))
	_, badPort := net.ResolveTCPAddr("tcp", "discord.com:99999")
	for name, err := range map[string]error{
		"a certificate that cannot be verified": &tls.CertificateVerificationError{Err: errors.New("my own check")},
		"an unknown authority":                  x509.UnknownAuthorityError{},
		"the certificate of another host":       x509.HostnameError{Certificate: new(x509.Certificate), Host: "discord.com"},
		"a certificate that has expired":        x509.CertificateInvalidError{Reason: x509.Expired},
		"a certificate with a broken rule":      x509.ConstraintViolationError{},
		"a certificate with an unknown rule":    x509.UnhandledCriticalExtension{},
		"a certificate with a weak signature":   x509.InsecureAlgorithmError(x509.MD5WithRSA),
		"no authorities":                        x509.SystemRootsError{},
		"encrypted names that are refused":      &tls.ECHRejectionError{},
		"no TLS":                                tls.RecordHeaderError{Msg: "not TLS", Conn: new(net.TCPConn)},
		"no TLS, as http.Client says it":        http.ErrSchemeMismatch,
		"through a proxy":                       &net.OpError{Op: "proxyconnect", Net: "tcp", Err: x509.SystemRootsError{}},
		"an invalid address":                    badURL,
		"an invalid port":                       &net.OpError{Op: "dial", Net: "tcp", Err: badPort},
		"an unknown network":                    &net.OpError{Op: "dial", Net: "tpc", Err: net.UnknownNetworkError("tpc")},
		"an address that cannot be parsed":      &net.ParseError{Type: "IP address", Text: "1.2.3"},
		"what is not supported":                 http.ErrNotSupported,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Error(t, err)
			synctest.Test(t, func(t *testing.T) {
				for _, wrapped := range []error{err, &url.Error{Op: "Get", URL: "https://discord.com", Err: err}} {
					below := newScript(fail(wrapped))
					c := send(newTransport(t, below), getChannel(t)).wait()
					assert.Equal(t, wrapped, c.err)
					assert.Len(t, below.requests(), 1)
					assert.Zero(t, c.took)
				}
			})
		})
	}
}

// The transport must repeat a request after a temporary error. When a network comes up or goes down, resolvers say "no
// such host" for a while, although Discord's hosts exist. A damaged TLS record means that the connection is broken.
func TestAnErrorThatMayPassIsRepeated(t *testing.T) {
	inBubbles(t, map[string]error{
		"no such host": &net.OpError{
			Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "discord.com", IsNotFound: true},
		},
		"a damaged record": tls.RecordHeaderError{Msg: "oversized record"},
		"a proxy's alert":  &net.OpError{Op: "remote error", Err: errors.New("tls: internal error")},
		"a timeout":        &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "i/o timeout", IsTimeout: true}},
	}, func(t *testing.T, err error) {
		below := newScript(fail(err), answer(http.StatusOK, "done"))
		assertStatus(t, http.StatusOK, send(newTransport(t, below), getChannel(t)))
		assert.Len(t, below.requests(), 2)
	})
}

// net/http rejects these requests with the given error texts. The transport must return the error at once, and must not
// use up a permit.
func TestARequestThatCannotBeSentIsRefusedAtOnceAndTakesNothing(t *testing.T) {
	type story struct {
		change func(*http.Request)
		text   string
	}
	inBubbles(t, map[string]story{
		"a header's value":        {func(r *http.Request) { r.Header.Set("X-A", "a\nb") }, "invalid header field value"},
		"a header's empty name":   {func(r *http.Request) { r.Header[""] = []string{"a"} }, "invalid header field name"},
		"a header's name":         {func(r *http.Request) { r.Header["X A"] = []string{"a"} }, "invalid header field name"},
		"a header's foreign name": {func(r *http.Request) { r.Header["X-Ä"] = []string{"a"} }, "invalid header field name"},
		"a trailer":               {func(r *http.Request) { r.Trailer = http.Header{"X-A": {"\x7f"}} }, "invalid trailer"},
		"no header at all":        {func(r *http.Request) { r.Header = nil }, "nil Request.Header"},
		"a scheme":                {func(r *http.Request) { r.URL.Scheme = "ftp" }, "unsupported protocol scheme"},
		"no scheme":               {func(r *http.Request) { r.URL.Scheme = "" }, "unsupported protocol scheme"},
		"no host":                 {func(r *http.Request) { r.URL.Host = "" }, "no Host in request URL"},
		"a line break in the URL": {func(r *http.Request) { r.URL.RawQuery = "a\nb" }, "control character in Request.URL"},
		"a length without a body": {func(r *http.Request) { r.ContentLength = 5 }, "with nil Body"},
	}, func(t *testing.T, c story) {
		server := newDiscord(t, everything(discordsim.Fixed(1, time.Hour)))
		below := &http.Transport{DialContext: server.DialContext}
		defer below.CloseIdleConnections()
		var count atomic.Int32
		transport := newTransport(t, attempts(below, &count))
		for range 3 {
			r := getChannel(t)
			c.change(r)
			sent := send(transport, r).wait()
			assert.ErrorContains(t, sent.err, c.text)
			assert.Zero(t, sent.took)
		}
		assert.EqualValues(t, 3, count.Load())
		assertStatus(t, http.StatusOK, send(transport, getChannel(t)))
		for range 2 { // after these requests the bucket is known and used up
			r := getChannel(t)
			r.Method = http.MethodPut
			c.change(r)
			send(transport, r).wait()
		}
		assert.Zero(t, transport.Manager().Stats().Lost, "a request that cannot be sent must not take a permit")
	})
}

// The base transport may have a registered protocol for a scheme other than http and https. Requests with such a scheme
// must be repeated like other requests.
func TestARequestOfARegisteredSchemeIsRepeated(t *testing.T) {
	bubble(t, func(t *testing.T) {
		registered := newScript(fail(io.ErrUnexpectedEOF), answer(http.StatusOK, "done"))
		below := new(http.Transport)
		below.RegisterProtocol("unix", registered)
		r := getChannel(t)
		r.URL.Scheme = "unix"
		assertStatus(t, http.StatusOK, send(newTransport(t, below), r))
		assert.Len(t, registered.requests(), 2)
	})
}

func TestAServerThatIsNotTrustedIsAskedOnce(t *testing.T) {
	t.Parallel()
	unknown, plain := httptest.NewUnstartedServer(http.NotFoundHandler()), httptest.NewServer(http.NotFoundHandler())
	unknown.Config.ErrorLog = log.New(io.Discard, "", 0)
	unknown.StartTLS()
	for _, server := range []*httptest.Server{unknown, plain} {
		defer server.Close()
		var count atomic.Int32
		transport := newTransport(t, attempts(new(http.Transport), &count), anyHost...)
		_, err := transport.RoundTrip(to(t, "https://"+server.Listener.Addr().String(), newMessage(t)))
		assert.True(t, isA[*tls.CertificateVerificationError](err) || isA[tls.RecordHeaderError](err), "%v", err)
		assert.EqualValues(t, 1, count.Load())
		assert.Zero(t, transport.Manager().Stats().Lost, "nothing was sent")
	}
}

// HTTP/2 does not allow some headers that HTTP/1 allows. A request with such a header must fail without a retry.
func TestAHeaderThatHTTP2DoesNotKnowIsRefusedOnce(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	for name, change := range map[string]func(*http.Request){
		"upgrade":           func(r *http.Request) { r.Header.Set("Upgrade", "websocket") },
		"transfer encoding": func(r *http.Request) { r.Header.Set("Transfer-Encoding", "gzip") },
		"connection":        func(r *http.Request) { r.Header.Set("Connection", "upgrade") },
		"too many":          func(r *http.Request) { r.Header.Set("X-A", strings.Repeat("a", 2<<20)) },
	} {
		t.Run(name, func(t *testing.T) {
			var count atomic.Int32
			transport := newTransport(t, attempts(server.Client().Transport, &count), anyHost...)
			get := func(change func(*http.Request)) *call {
				r := getChannel(t)
				r.URL.Scheme, r.URL.Host = "https", server.Listener.Addr().String()
				change(r)
				return send(transport, r).wait()
			}
			assertStatus(t, http.StatusNotFound, get(func(*http.Request) {})) // the response shows that the server uses HTTP/2
			assert.ErrorContains(t, get(change).err, "http2: ")
			assert.EqualValues(t, 2, count.Load())
			assert.Zero(t, transport.Manager().Stats().Lost)
		})
	}
}

// follower is a base transport that follows redirects itself.
type follower struct{ client *http.Client }

func (f follower) RoundTrip(r *http.Request) (*http.Response, error) { return f.client.Do(r) }

func TestATransportBelowThatWasRedirectedTooOftenIsNotAskedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := newScript(answer(http.StatusFound, "", "Location: "+channel))
		c := send(newTransport(t, follower{&http.Client{Transport: below}}), getChannel(t)).wait()
		assert.ErrorContains(t, c.err, "stopped after 10 redirects")
		assert.Len(t, below.requests(), 10)
		assert.Zero(t, c.took)
	})
}

// misfit returns a request whose body is always longer or shorter than its Content-Length.
func misfit(t *testing.T, content string, opened *atomic.Int32) *http.Request {
	t.Helper()
	r := unreplayable(newRequest(t, http.MethodPut, "/api/v10/guilds/1/bans/2", ""), strings.NewReader(content), 10)
	r.GetBody = func() (io.ReadCloser, error) {
		opened.Add(1)
		return io.NopCloser(strings.NewReader(content)), nil
	}
	return r
}

func TestABodyOfAnotherLengthThanItsRequestSaysIsNotSentAgain(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{"shorter": "12345", "longer": "12345678901234567890"} {
		inBubble(t, name, func(t *testing.T) {
			var opened atomic.Int32
			c := send(newTransport(t, newServer(t, swallow)), misfit(t, content, &opened)).wait()
			assert.ErrorContains(t, c.err, "http: ContentLength=10 with Body length")
			assert.Zero(t, opened.Load(), "GetBody was called, so the body was sent again")
			assert.Zero(t, c.took)
		})
	}
}

func TestABodyThatIsLongerThanItsRequestSaysIsNotSentAgainOverHTTP2(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(swallow))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	var opened atomic.Int32
	r := misfit(t, "12345678901234567890", &opened)
	r.URL.Scheme, r.URL.Host = "https", server.Listener.Addr().String()
	c := send(newTransport(t, server.Client().Transport, anyHost...), r).wait()
	assert.ErrorContains(t, c.err, "request body larger than specified content length")
	assert.Zero(t, opened.Load(), "GetBody was called, so the body was sent again")
}
