package httpclient_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

const (
	botSecret     = "MTk4NjIyNDgzNDcxOTI1MjQ4.Bot-SeCrEt"
	webhookSecret = "WeBhOoK-SeCrEt_0123456789"
	replySecret   = "aW50ZXJhY3Rpb246InTeRaCtIoN-SeCrEt"
	secretRetry   = 4000 // seconds, more than the default maximum
)

// secretRequests returns requests with a token in each place where a token can be.
func secretRequests(t *testing.T) map[string]*http.Request {
	t.Helper()
	requests := map[string]*http.Request{
		"bot": newRequest(t, http.MethodPost, messages, `{"content":"hello"}`),
		"webhook": newRequest(t, http.MethodPost, "/api/v10/webhooks/1/"+webhookSecret+"?wait=true",
			`{"content":"hello"}`),
		"webhook/2": newRequest(t, http.MethodPatch, "/api/v10/webhooks/1/"+webhookSecret+"/messages/2",
			`{"content":"hello"}`),
		"interaction": newRequest(t, http.MethodPost, "/api/v10/interactions/1/"+replySecret+"/callback", `{"type":1}`),
		"follow-up":   newRequest(t, http.MethodPost, "/api/v10/webhooks/1/"+replySecret, `{"content":"hello"}`),
		"unknown":     newRequest(t, http.MethodPost, "/api/v10/webhooks/1/"+webhookSecret+"/"+webhookSecret+"/nobody", `{}`),
	}
	for _, r := range requests {
		r.Header.Set("Authorization", "Bot "+botSecret)
	}
	return requests
}

// assertNoSecret asserts that a text contains no token and no part of one.
func assertNoSecret(t *testing.T, text string) {
	t.Helper()
	for _, secret := range []string{"SeCrEt", botSecret[:12], webhookSecret[:7], replySecret[16:24]} {
		assert.NotContains(t, text, secret)
		assert.NotContains(t, text, url.QueryEscape(secret))
	}
}

// assertNoSecretIn prints values in all ways in which a program may log them. It asserts that no token appears.
func assertNoSecretIn(t *testing.T, values ...any) {
	t.Helper()
	for _, value := range values {
		for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
			assertNoSecret(t, fmt.Sprintf(format, value))
		}
	}
}

func TestNoErrorContainsAToken(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer  responder
		options []buckets.Option
		change  func(*http.Request)
		again   bool  // the second request gets the error
		want    error // the type of the error, nil: any
		is      error
	}{
		"too long": {answer: refuse("user", fmt.Sprint(secretRetry)), want: (*ratelimits.TooLongError)(nil)},
		"shared":   {answer: refuse("shared", fmt.Sprint(secretRetry)), want: (*ratelimits.TooLongError)(nil)},
		"global":   {answer: refuse("global", fmt.Sprint(secretRetry)), want: (*ratelimits.TooLongError)(nil)},
		"hidden": {
			answer: refusal429(`{"retry_after":4000}`, limitHeaders(roomLeft, "X-RateLimit-Scope: user")...),
			want:   (*ratelimits.TooLongError)(nil),
		},
		"edge": {answer: answer(http.StatusTooManyRequests, "<html>"), want: (*ratelimits.EdgeError)(nil)},
		"edge, a time": {answer: answer(http.StatusTooManyRequests, "<html>", "Retry-After: 4000"),
			want: (*ratelimits.TooLongError)(nil)},
		"path": {
			answer: answer(http.StatusOK, ""),
			change: func(r *http.Request) { r.URL.Path, r.URL.RawPath = r.URL.Path+"/../"+webhookSecret, "" },
			want:   (*routes.PathError)(nil), is: routes.ErrDotSegment,
		},
		"encoding": {
			answer: answer(http.StatusOK, ""),
			change: func(r *http.Request) { r.URL.Path, r.URL.RawPath = r.URL.Path+"\x01"+webhookSecret, "" },
			want:   (*routes.PathError)(nil), is: routes.ErrControlCharacter,
		},
		"method": {
			answer: answer(http.StatusOK, ""), change: func(r *http.Request) { r.Method = "BR EW" },
			want: (*routes.PathError)(nil), is: routes.ErrMethod,
		},
		"body": {
			answer: answer(http.StatusOK, ""), change: func(r *http.Request) {
				r.GetBody, r.Body = nil, io.NopCloser(iotest.ErrReader(io.ErrUnexpectedEOF))
			}, is: io.ErrUnexpectedEOF,
		},
		"queue full": {
			answer: refuse("user", "100"), options: []buckets.Option{buckets.WithMaxWaiting(1)}, again: true,
			want: (*ratelimits.QueueFullError)(nil),
		},
	} {
		for kind := range secretRequests(t) {
			inBubble(t, name+", "+kind, func(t *testing.T) {
				transport := newTransport(t, newScript(c.answer), httpclient.WithBuckets(c.options...))
				r := secretRequests(t)[kind]
				if c.again {
					waiting := send(transport, r)
					synctest.Wait()
					defer waiting.wait()
					defer transport.Close()
					r = secretRequests(t)[kind]
				}
				if c.change != nil {
					c.change(r)
				}
				_, err := transport.RoundTrip(r)
				require.Error(t, err)
				if c.want != nil {
					require.IsType(t, c.want, err)
				}
				if c.is != nil {
					require.ErrorIs(t, err, c.is)
				}
				for ; err != nil; err = errors.Unwrap(err) {
					assertNoSecretIn(t, err)
					assertNoSecret(t, err.Error())
				}
				synctest.Wait() // fmt reads fields without locks, so no other goroutine may run
				assertNoSecretIn(t, transport, transport.Manager(), transport.Manager().Stats())
			})
		}
	}
}

func TestDeadlinesCancellationsAndClosingContainNoToken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		transport := newTransport(t, newScript(refuse("user", "100")))
		deadline, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		cancelled, cancel := context.WithCancel(t.Context())
		var calls []*call
		for _, r := range secretRequests(t) {
			calls = append(calls, send(transport, r.WithContext(deadline)),
				send(transport, secretRequests(t)["bot"].WithContext(cancelled)))
		}
		waiting := send(transport, secretRequests(t)["webhook"])
		synctest.Wait()
		cancel()
		synctest.Wait()
		require.NoError(t, transport.Close())
		for _, c := range append(calls, waiting) {
			require.Error(t, c.wait().err)
			assertNoSecretIn(t, c.err)
		}
		assert.ErrorIs(t, waiting.err, buckets.ErrClosed)
	})
}

// The errors of a base transport may contain the address and the headers. If a server sends a text that is not an HTTP
// response, net/http quotes the text in the error, and the text may contain the request. If a URL has an opaque part,
// net/http sends that part. In none of these cases may a hook or a log line show a token.
func TestHooksAndLogsShowNoToken(t *testing.T) {
	requests := secretRequests(t)
	for _, r := range requests {
		r.URL.RawQuery = "signature=SeCrEt"
	}
	for _, opaque := range []string{
		webhook, webhook + "?wait=true", "//discord.com" + webhook, "https://discord.com" + webhook,
	} {
		r := newRequest(t, http.MethodPost, webhook, "{}")
		r.URL = &url.URL{Scheme: "https", Host: "discord.com", Opaque: opaque}
		requests["opaque "+opaque] = as(r, bad)
	}
	inBubbles(t, requests, func(t *testing.T, r *http.Request) {
		var events []any
		var log bytes.Buffer
		broken := errors.New("broken")
		transport := newTransport(t, responder(func(r *http.Request) (*http.Response, error) {
			return nil,
				fmt.Errorf("%s with %v: malformed HTTP response %q: %w", r.URL, r.Header, r.Method+" "+r.URL.RequestURI(), broken)
		}), httpclient.WithAttempts(httpclient.Attempts{Retries: 1}), debugging(&log), httpclient.WithHooks(httpclient.Hooks{
			Request:  func(_ context.Context, e httpclient.RequestEvent) { events = append(events, e, &e) },
			Response: func(_ context.Context, e httpclient.ResponseEvent) { events = append(events, e, &e, e.Err) },
			Done:     func(_ context.Context, e httpclient.DoneEvent) { events = append(events, e, &e, e.Err) },
		}))
		_, err := transport.RoundTrip(r)
		require.ErrorIs(t, err, broken)
		seen := events[len(events)-1].(error)
		require.ErrorIs(t, seen, broken)
		assertRedacted(t, seen)
		assertNoSecretIn(t, events...)
		assert.Contains(t, log.String(), "malformed HTTP response")
		assertNoSecret(t, log.String())
	})
	assertRedacted(t, httpclient.Redact(&url.Error{
		Op: "Post", URL: "https:api/webhooks/1/" + webhookSecret, Err: errors.New("no way for " + webhookSecret),
	}))
}
