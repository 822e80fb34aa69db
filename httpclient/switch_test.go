package httpclient_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient"
)

// echo switches to a protocol that sends back everything it receives.
func echo(w http.ResponseWriter, _ *http.Request) {
	conn, both, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	fmt.Fprint(both, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n"+
		"X-RateLimit-Bucket: a\r\nX-RateLimit-Limit: 5\r\nX-RateLimit-Remaining: 4\r\nX-RateLimit-Reset-After: 1\r\n\r\n")
	_ = both.Flush()
	_, _ = io.Copy(conn, both)
}

func newUpgrade(t *testing.T) *http.Request {
	t.Helper()
	r := getChannel(t)
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "echo")
	return r
}

func assertEcho(t *testing.T, response *http.Response, line string) {
	t.Helper()
	require.Equal(t, http.StatusSwitchingProtocols, response.StatusCode)
	both, ok := response.Body.(io.ReadWriteCloser)
	require.True(t, ok, "the caller must be able to write to the body")
	_, err := io.WriteString(both, line+"\n")
	require.NoError(t, err)
	got, err := bufio.NewReader(both).ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, line+"\n", got)
}

func TestAConnectionThatWasSwitchedCanBeWrittenTo(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(echo))
	defer server.Close()
	for name, options := range map[string][]httpclient.Option{
		"by default": nil, "without a timeout": {noTimeout},
		"with hidden limits": {httpclient.WithoutRateLimitHeaders()},
	} {
		t.Run(name, func(t *testing.T) {
			r := newUpgrade(t)
			r.URL.Scheme, r.URL.Host = "http", server.Listener.Addr().String()
			response := roundTrip(t, newTransport(t, new(http.Transport), append(options, anyHost...)...), r)
			assertEcho(t, response, "hello")
			assert.Implements(t, (*interface{ CloseWrite() error })(nil), response.Body, "like the body of net/http")
			require.NoError(t, response.Body.Close())
		})
	}
}

func TestNoTimeoutCutsAConnectionThatWasSwitched(t *testing.T) {
	forEachParent(t, func(t *testing.T, parent context.Context) {
		transport := newTransport(t, newServer(t, echo))
		response := roundTrip(t, transport, newUpgrade(t).WithContext(parent))
		assertNothingHeld(t, transport)
		for range 3 {
			time.Sleep(5 * time.Minute)
			assertEcho(t, response, "hello")
		}
		require.NoError(t, response.Body.Close())
	})
}

// tied is a connection that a base transport returns as the body of a response. Reads of the connection fail when the
// context of the request has ended.
type tied struct {
	net.Conn
	context.Context
}

func (c tied) Read(p []byte) (int, error) {
	stop := context.AfterFunc(c.Context, func() { c.Conn.Close() })
	defer stop()
	return c.Conn.Read(p)
}

func TestWhatCanBeWrittenToIsReturnedAsItIs(t *testing.T) {
	for _, status := range []int{http.StatusSwitchingProtocols, http.StatusOK} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			forEachParent(t, func(t *testing.T, parent context.Context) {
				near, far := net.Pipe()
				var body tied
				transport := newTransport(t, responder(func(r *http.Request) (*http.Response, error) {
					body = tied{near, r.Context()}
					return answerWith(status, func() io.ReadCloser { return body })(r)
				}))
				response := roundTrip(t, transport, getChannel(t).WithContext(parent))
				assert.Equal(t, body, response.Body)
				go func() {
					time.Sleep(20 * time.Minute)
					_, _ = io.WriteString(far, "late")
				}()
				p := make([]byte, 4)
				_, err := io.ReadFull(response.Body, p)
				require.NoError(t, err)
				assert.Equal(t, "late", string(p))
				require.NoError(t, response.Body.Close())
				synctest.Wait()
			})
		})
	}
}
