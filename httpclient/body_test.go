package httpclient_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient"
)

// unreplayable gives the request a body that cannot be read again. A length of -1 means unknown.
func unreplayable(r *http.Request, body io.Reader, length int64) *http.Request {
	r.Body, r.GetBody, r.ContentLength = io.NopCloser(body), nil, length
	return r
}

func TestABodyThatCannotBeKeptIsSentOnce(t *testing.T) {
	content := strings.Repeat("0123456789", 100)
	type story struct {
		option httpclient.Option
		length int64
	}
	inBubbles(t, map[string]story{
		"known to be too long":   {httpclient.WithMaxBufferedBody(999), 1000},
		"found to be too long":   {httpclient.WithMaxBufferedBody(999), -1},
		"a byte in memory":       {httpclient.WithMaxBufferedBody(1), -1},
		"nothing kept":           {httpclient.WithMaxBufferedBody(0), -1},
		"nothing kept, negative": {httpclient.WithMaxBufferedBody(-5), 1000},
		"known to have no room":  {httpclient.WithMaxBufferedTotal(999), 1000},
		"found to have no room":  {httpclient.WithMaxBufferedTotal(999), -1},
	}, func(t *testing.T, c story) {
		below := newScript(refuse("user", "1"), answer(http.StatusOK, ""))
		var log bytes.Buffer
		transport := newTransport(t, below, c.option, httpclient.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		r := unreplayable(newMessage(t), strings.NewReader(content), c.length)
		bodies := track(r)
		sent := send(transport, r).wait()
		assertStatus(t, http.StatusTooManyRequests, sent)
		assert.Zero(t, sent.took, "the 429 is returned at once")
		assert.JSONEq(t, `{"message":"You are being rate limited.","retry_after":1,"global":false}`, sent.body)
		bodies.assertClosed(t)
		require.Len(t, below.requests(), 1)
		assert.Equal(t, content, below.requests()[0].body)
		assert.Contains(t, log.String(), `level=WARN msg="request failed"`)
		assert.Contains(t, log.String(), `reason="its body can be sent only once"`)

		// The 429 was returned, but the next request waits as it asked.
		next := send(transport, newMessage(t))
		assertStatus(t, http.StatusOK, next)
		assertTook(t, time.Second, next.took)
	})
}

func TestWithoutReplayOneByteOfABodyIsReadBeforeItIsSent(t *testing.T) {
	t.Parallel()
	for _, maxBufferedBody := range []int64{0, -5} {
		t.Run(strconv.FormatInt(maxBufferedBody, 10), func(t *testing.T) {
			t.Parallel()
			text := &counted{Reader: strings.NewReader("hello")}
			transport := newTransport(t, responder(func(r *http.Request) (*http.Response, error) {
				assert.Equal(t, 1, text.read, "one byte is read to see that the source gives any")
				defer r.Body.Close()
				content, err := io.ReadAll(r.Body)
				assert.NoError(t, err)
				return answer(http.StatusOK, string(content))(r)
			}), httpclient.WithMaxBufferedBody(maxBufferedBody))
			sent := send(transport, unreplayable(newMessage(t), text, -1))
			assertStatus(t, http.StatusOK, sent)
			assert.Equal(t, "hello", sent.body)
		})
	}
}

func TestABodyThatCannotBeHadAgainIsAnErrorAndTheNextRequestGoes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := newScript(refuse("user", "1"), answer(http.StatusOK, ""))
		transport := newTransport(t, below)
		broken := errors.New("the file was removed")
		r := newMessage(t)
		getBody := r.GetBody
		r.GetBody = func() (io.ReadCloser, error) {
			if len(below.requests()) > 0 {
				return nil, broken
			}
			return getBody()
		}
		first := send(transport, r)
		synctest.Wait()
		second := send(transport, newMessage(t))
		assert.ErrorIs(t, first.wait().err, broken)
		assert.Zero(t, first.took, "the request waited although it cannot be sent")
		assertStatus(t, http.StatusOK, second)
		assertTook(t, time.Second, second.took)
		assert.Len(t, below.requests(), 2)
		assert.Zero(t, transport.Manager().Stats().Lost, "a request that was never sent does not count as lost")
	})
}

// counted counts the bytes that were read.
type counted struct {
	io.Reader
	read  int
	ended bool // Read has returned io.EOF
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.read += n
	c.ended = c.ended || err == io.EOF
	return n, err
}

func TestOfAnEndless429OnlyTheBeginningIsRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const bound = 64 << 10
		var bodies ledger
		text := &counted{Reader: io.LimitReader(endless{}, 1<<30)}
		huge := answerWith(http.StatusTooManyRequests, func() io.ReadCloser { return bodies.open(text) },
			"X-RateLimit-Scope: user", "Retry-After: 2")
		transport := newTransport(t, newScript(huge, answer(http.StatusOK, "done")))
		sent := send(transport, newMessage(t))
		assertStatus(t, http.StatusOK, sent)
		assertTook(t, 2*time.Second, sent.took)
		bodies.assertClosed(t)
		assert.LessOrEqual(t, text.read, bound)
	})
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}
