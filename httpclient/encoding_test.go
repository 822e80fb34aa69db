package httpclient_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient"
)

// encodings are what servers use when a request has an Accept-Encoding. net/http decodes gzip only if it has added that
// header itself.
var encodings = []struct {
	header string
	writer func(io.Writer) io.WriteCloser
}{
	{"gzip", func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }},
	{" X-GZIP", func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }},
	{"deflate", func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) }},
	{"Deflate", func(w io.Writer) io.WriteCloser { // raw deflate, without the zlib frame
		raw, err := flate.NewWriter(w, flate.BestSpeed)
		if err != nil {
			panic(err)
		}
		return raw
	}},
	{"identity", func(w io.Writer) io.WriteCloser { return unencoded{w} }},
}

type unencoded struct{ io.Writer }

func (unencoded) Close() error { return nil }

// inEncodings runs a test for each encoding. encoded returns an answer with an encoded body, and that body.
func inEncodings(t *testing.T, test func(t *testing.T,
	encoded func(status int, text string, header ...string) (responder, string))) {
	t.Helper()
	for _, e := range encodings {
		inBubble(t, e.header, func(t *testing.T) {
			test(t, func(status int, text string, header ...string) (responder, string) {
				var b bytes.Buffer
				w := e.writer(&b)
				_, err := io.WriteString(w, text)
				require.NoError(t, err)
				require.NoError(t, w.Close())
				return answer(status, b.String(),
					append(header, "Content-Type: application/json", "Content-Encoding: "+e.header)...), b.String()
			})
		})
	}
}

func TestA401CountsWhenItsBodyIsEncoded(t *testing.T) {
	t.Parallel()
	inEncodings(t, func(t *testing.T, encoded func(int, string, ...string) (responder, string)) {
		refusing, raw := encoded(http.StatusUnauthorized, `{"message":"401: Unauthorized","code":0}`)
		below := newScript(refusing)
		transport := newTransport(t, below)
		first := send(transport, getting(t, "/users/@me"))
		assertStatus(t, http.StatusUnauthorized, first)
		assert.Equal(t, raw, first.body, "the caller gets the encoded body")
		assertStopped(t, transport, below, getting(t, "/users/@me"),
			httpclient.CredentialError{Route: "GET /users/@me", Status: 401, RetryAfter: 10 * time.Minute})
	})
}

func TestAnEncodedPageOfAProxyStopsNothing(t *testing.T) {
	t.Parallel()
	for _, page := range []string{"<html>", strings.Repeat("<p>", 1<<20), "{" + strings.Repeat(" ", 1<<20)} {
		inEncodings(t, func(t *testing.T, encoded func(int, string, ...string) (responder, string)) {
			refusing, raw := encoded(http.StatusUnauthorized, page)
			transport := newTransport(t, newScript(refusing))
			for range 2 {
				c := send(transport, posting(t, 1))
				assertStatus(t, http.StatusUnauthorized, c)
				assert.True(t, raw == c.body)
			}
		})
	}
}

func TestTheBodyOfA429CountsWhenItIsEncoded(t *testing.T) {
	t.Parallel()
	inEncodings(t, func(t *testing.T, encoded func(int, string, ...string) (responder, string)) {
		// A compatible server, whose 429 has neither scope nor bucket.
		refusing, _ := encoded(http.StatusTooManyRequests,
			`{"message":"You are being rate limited.","retry_after":0.3,"global":false}`, "Retry-After: 1")
		transport := newTransport(t, newScript(refusing, answer(http.StatusOK, "{}")))
		first := send(transport, posting(t, 1))
		time.Sleep(10 * time.Millisecond)
		second := send(transport, getting(t, "/guilds/1/roles")).wait()
		assertStatus(t, http.StatusOK, first, second)
		assert.Less(t, second.took, 100*time.Millisecond,
			"another route waited, so the 429 was taken for a refusal by the edge")
		assert.Less(t, first.took, 400*time.Millisecond, "the precise wait is in the body")
	})
}

func TestAnEncoded429ThatIsReturnedIsAsItCame(t *testing.T) {
	t.Parallel()
	inEncodings(t, func(t *testing.T, encoded func(int, string, ...string) (responder, string)) {
		refusing, raw := encoded(http.StatusTooManyRequests, `{"retry_after":9}`, "Retry-After: 9", "X-RateLimit-Scope: user")
		transport := newTransport(t, newScript(refusing), httpclient.WithMaxBufferedBody(0)) // its body can be sent only once
		r := newMessage(t)
		r.GetBody = nil
		c := send(transport, r)
		assertStatus(t, http.StatusTooManyRequests, c)
		assert.Equal(t, raw, c.body)
	})
}

// If the body's encoding is not known, status and headers decide.
func TestAnErrorInAnEncodingThatIsNotKnownIsJudgedByItsHeader(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const raw = "\x8b\x00\x80{}\x03"
		header := []string{"Content-Type: application/json", "Content-Encoding: br", "Via: 1.1 google"}
		below := newScript(answer(http.StatusUnauthorized, raw, header...), answer(http.StatusNotFound, raw, header...),
			answer(http.StatusTooManyRequests, raw, append(header, "Retry-After: 2")...), answer(http.StatusOK, "{}"))
		transport := newTransport(t, below)
		first := send(transport, getting(t, "/users/@me"))
		assertStatus(t, http.StatusUnauthorized, first)
		assert.Equal(t, raw, first.body)
		assert.Equal(t, 401, lookup(t, transport, http.MethodGet, "/api/v10/users/@me").Status)
		assertStatus(t, http.StatusNotFound, send(transport, as(newRequest(t, http.MethodPost, webhook, ""), "")))

		refused := send(transport, posting(t, 1))
		assertStatus(t, http.StatusOK, refused)
		assert.InDelta(t, 2*time.Second, refused.took, float64(slack))
		assertStatus(t, http.StatusOK, send(transport, as(newRequest(t, http.MethodPost, webhook, ""), "")))
	})
}
