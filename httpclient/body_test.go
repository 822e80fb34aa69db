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
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// unreplayable gives the request a body that only says how long it is, if that.
func unreplayable(r *http.Request, body io.Reader, length int64) *http.Request {
	r.Body, r.GetBody, r.ContentLength = io.NopCloser(body), nil, length
	return r
}

func TestA429IsWaitedForAndRepeatedWithTheSameBody(t *testing.T) {
	t.Parallel()
	content := strings.Repeat("0123456789", 100)
	for name, c := range map[string]struct {
		change func(*http.Request)
		want   string
	}{
		"by GetBody":                {func(*http.Request) {}, content},
		"by GetBody, however large": {func(r *http.Request) { r.ContentLength = 1 << 40 }, content},
		"kept in memory":            {func(r *http.Request) { unreplayable(r, strings.NewReader(content), 1000) }, content},
		"of unknown length":         {func(r *http.Request) { unreplayable(r, strings.NewReader(content), -1) }, content},
		"read in small pieces":      {func(r *http.Request) { unreplayable(r, iotest.OneByteReader(strings.NewReader(content)), -1) }, content},
		"empty, of unknown length":  {func(r *http.Request) { unreplayable(r, strings.NewReader(""), -1) }, ""},
		"none":                      {func(r *http.Request) { r.Body, r.GetBody, r.ContentLength = nil, nil, 0 }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				below := newScript(refuse("user", "1.5"), refuse("shared", "2.25"), answer(http.StatusOK, "done"))
				transport := newTransport(t, below, httpclient.WithMaxBufferedBody(1000)) // exactly as long as the body
				r := newRequest(t, http.MethodPost, messages, content)
				c.change(r)
				length := r.ContentLength
				if length < 0 { // it is known once the body has been read
					length = int64(len(c.want))
				}
				sent := send(transport, r).wait()
				assertStatus(t, http.StatusOK, sent)
				assert.Equal(t, "done", sent.body)
				assertTook(t, 3750*time.Millisecond, sent.took)

				attempts := below.requests()
				require.Len(t, attempts, 3)
				for i, a := range attempts {
					assert.Equal(t, c.want, a.body, "attempt %d", i)
					assert.Equal(t, length, a.request.ContentLength, "attempt %d", i)
				}
				assertTook(t, 1500*time.Millisecond, attempts[1].at.Sub(attempts[0].at))
				assertTook(t, 2250*time.Millisecond, attempts[2].at.Sub(attempts[1].at))
			})
		})
	}
}

func TestABodyThatCannotBeKeptIsSentOnce(t *testing.T) {
	t.Parallel()
	content := strings.Repeat("0123456789", 100)
	for name, c := range map[string]struct{ maxBufferedBody, length int64 }{
		"known to be too long":   {999, 1000},
		"found to be too long":   {999, -1},
		"a byte in memory":       {1, -1},
		"nothing kept":           {0, -1},
		"nothing kept, negative": {-5, 1000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				below := newScript(refuse("user", "1"), answer(http.StatusOK, ""))
				var log bytes.Buffer
				transport := newTransport(t, below, httpclient.WithMaxBufferedBody(c.maxBufferedBody), httpclient.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
				var bodies ledger
				r := unreplayable(newMessage(t), strings.NewReader(content), c.length)
				r.Body = bodies.open(r.Body)
				sent := send(transport, r).wait()
				assertStatus(t, http.StatusTooManyRequests, sent)
				assert.Zero(t, sent.took, "there is nothing to wait for")
				assert.JSONEq(t, `{"message":"You are being rate limited.","retry_after":1,"global":false}`, sent.body)
				bodies.assertClosed(t)
				require.Len(t, below.requests(), 1)
				assert.Equal(t, content, below.requests()[0].body)
				assert.Contains(t, log.String(), `level=WARN msg="request failed"`)
				assert.Contains(t, log.String(), `reason="its body can be sent only once"`)

				// What it said is obeyed by the next one all the same.
				next := send(transport, newMessage(t))
				assertStatus(t, http.StatusOK, next)
				assertTook(t, time.Second, next.took)
			})
		})
	}
}

func TestWithoutReplayOneByteOfABodyIsReadBeforeItIsSent(t *testing.T) {
	t.Parallel()
	for _, maxBufferedBody := range []int64{0, -5} {
		t.Run(strconv.FormatInt(maxBufferedBody, 10), func(t *testing.T) {
			t.Parallel()
			text := &counted{Reader: strings.NewReader("hello")}
			transport := newTransport(t, roundTripper(func(r *http.Request) (*http.Response, error) {
				assert.Equal(t, 1, text.read, "which shows that its source gives something")
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

func TestABodyThatCannotBeReadIsAnErrorAndNothingIsSent(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk is gone")
	below := newScript(answer(http.StatusOK, ""))
	transport := newTransport(t, below)
	var bodies ledger
	r := newMessage(t)
	r.GetBody, r.Body = nil, bodies.open(io.MultiReader(strings.NewReader("some"), iotest.ErrReader(broken)))
	_, err := transport.RoundTrip(r)
	require.ErrorIs(t, err, broken)
	bodies.assertClosed(t)
	assert.Empty(t, below.requests())
	assertStatus(t, http.StatusOK, send(transport, newMessage(t)))
}

func TestABodyThatCannotBeHadAgainIsAnErrorAndTheNextRequestGoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
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
		assert.Zero(t, first.took, "it waited for what it cannot send")
		assertStatus(t, http.StatusOK, second)
		assertTook(t, time.Second, second.took)
		assert.Len(t, below.requests(), 2)
		assert.Zero(t, transport.Manager().Stats().Lost, "what was never sent is not lost")
	})
}

// The bucket's only permit is taken by somebody else each time before it is the turn of the first of the queue, who
// must stay first for all that.
func TestARefusedRequestKeepsItsPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		foreign := discordsim.Request{Method: http.MethodPost, Path: messages, Authorization: authorization}
		server := newDiscord(t, discordsim.Config{
			Default: &discordsim.Rule{Path: "**", Quota: discordsim.Fixed(1, time.Second)},
			Foreign: []discordsim.ForeignUse{{Request: foreign, At: []time.Duration{0, 1050 * time.Millisecond, 5 * time.Second}}},
			FullLog: true,
		})
		transport := newTransport(t, server.RoundTripper())
		time.Sleep(time.Millisecond)
		var calls []*call
		for i := range 6 {
			r := newMessage(t)
			r.Header.Set(discordsim.SequenceHeader, strconv.Itoa(i+1))
			calls = append(calls, send(transport, r))
			synctest.Wait()
		}
		assertStatus(t, http.StatusOK, calls...)
		report := server.Report()
		assert.NotZero(t, report.Refused.User)
		assert.Zero(t, report.Avoidable.Total())
		assert.Equal(t, 6, report.Accepted)
		var order []int64
		for _, e := range server.Events() {
			if e.Accepted > 0 {
				order = append(order, e.Sequence)
			}
		}
		assert.Equal(t, []int64{1, 2, 3, 4, 5, 6}, order)
	})
}

// counted counts how much of it was read.
type counted struct {
	io.Reader
	read  int
	ended bool // its end has been read
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.read += n
	c.ended = c.ended || err == io.EOF
	return n, err
}

func TestOfAnEndless429OnlyTheBeginningIsRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
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

func TestALong429IsReturnedWhole(t *testing.T) {
	t.Parallel()
	var bodies ledger
	content := bytes.Repeat([]byte("long "), 100_000)
	huge := answerWith(http.StatusTooManyRequests, func() io.ReadCloser { return bodies.open(bytes.NewReader(content)) },
		"X-RateLimit-Scope: user", "Retry-After: 1")
	transport := newTransport(t, newScript(huge), httpclient.WithMaxBufferedBody(0))
	sent := send(transport, unreplayable(newMessage(t), strings.NewReader("{}"), -1)).wait()
	assertStatus(t, http.StatusTooManyRequests, sent)
	assert.Equal(t, string(content), sent.body)
	bodies.assertClosed(t)
}

func TestA429ThatBreaksOffIsRepeatedAsItsHeadersSay(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]error{"truncated": io.ErrUnexpectedEOF, "connection lost": errors.New("connection reset by peer")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var bodies ledger
				half := answerWith(http.StatusTooManyRequests, func() io.ReadCloser {
					return bodies.open(io.MultiReader(strings.NewReader(`{"message":"You are`), iotest.ErrReader(broken)))
				}, "X-RateLimit-Scope: user", "Retry-After: 3")
				below := newScript(half, answer(http.StatusOK, "done"))
				transport := newTransport(t, below)
				sent := send(transport, newMessage(t))
				assertStatus(t, http.StatusOK, sent)
				assertTook(t, 3*time.Second, sent.took)
				assert.Len(t, below.requests(), 2)
				bodies.assertClosed(t)
			})
		})
	}
}

// The headers of a 429 are there and its body never comes. After some seconds the headers have to do.
func TestA429WhoseBodyNeverComesIsRepeatedAllTheSame(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		silent := answerWith(http.StatusTooManyRequests, func() io.ReadCloser {
			reader, _ := io.Pipe()
			return reader
		}, "X-RateLimit-Scope: user", "Retry-After: 30")
		below := newScript(silent, answer(http.StatusOK, "done"))
		transport := newTransport(t, below)
		sent := send(transport, newMessage(t)).wait()
		assertStatus(t, http.StatusOK, sent)
		assertTook(t, 30*time.Second, sent.took) // it counts from the headers
		assert.Len(t, below.requests(), 2)
	})
}
