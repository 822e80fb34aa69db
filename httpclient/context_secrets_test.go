package httpclient_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
)

// printedEverywhere returns what fmt, slog and encoding/json print for a value.
func printedEverywhere(value any) string {
	var out bytes.Buffer
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&out, format+"\n", value)
		fmt.Fprintf(&out, format+"\n", []any{value})
	}
	for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(handler).Info("text", "value", value)
	}
	text, err := json.Marshal(value)
	return fmt.Sprint(out.String(), string(text), err)
}

// printedInside adds what fmt prints for the value in an unexported field, where fmt cannot call its methods.
func printedInside(value any) string {
	text := printedEverywhere(value)
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		text += fmt.Sprintf(format+"\n", struct{ v any }{value})
	}
	return text
}

// printingLimiter records how its arguments print, also after Done of the context has been called.
type printingLimiter struct{ text []string }

func (l *printingLimiter) AcquireRequest(ctx context.Context, r *buckets.Request) (buckets.Lease, error) {
	l.text = append(l.text, printedInside(ctx))
	ctx.Done()
	derived, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, c := range []context.Context{ctx, derived, buckets.ContextWithMaxWait(ctx, time.Second)} {
		l.text = append(l.text, printedInside(c))
	}
	lease := buckets.NewLease(&watcher{})
	l.text = append(l.text, printedEverywhere(lease))
	return lease, nil
}

// A limiter or a hook may log the context of a request. No token may appear there.
func TestNoContextIsPrintedWithAToken(t *testing.T) {
	t.Parallel()
	for kind := range secretRequests(t) {
		inBubble(t, kind, func(t *testing.T) {
			for _, with := range []func(context.Context) context.Context{
				func(ctx context.Context) context.Context { return ctx },
				func(context.Context) context.Context { return context.Background() },
				func(ctx context.Context) context.Context {
					ctx = httpclient.ContextWithAttemptTimeout(httpclient.ContextWithUnsafeRetries(ctx), time.Minute)
					ctx = buckets.ContextWithMaxWait(buckets.ContextWithPriority(ctx), time.Minute)
					return buckets.ContextWithGroup(ctx, "guild")
				},
			} {
				limiter := &printingLimiter{}
				see := func(value any) { limiter.text = append(limiter.text, printedInside(value)) }
				base := responder(func(r *http.Request) (*http.Response, error) {
					see(r.Context())
					return answer(http.StatusOK, "{}")(r)
				})
				hooks := httpclient.Hooks{
					Request:  func(ctx context.Context, e httpclient.RequestEvent) { see(ctx); see(e) },
					Response: func(ctx context.Context, e httpclient.ResponseEvent) { see(ctx); see(e) },
					Done:     func(ctx context.Context, e httpclient.DoneEvent) { see(ctx); see(e) },
				}
				transport := httpclient.NewTransport(
					httpclient.WithLimiter(limiter), httpclient.WithBase(base), httpclient.WithHooks(hooks),
				)
				r := secretRequests(t)[kind]
				response := roundTrip(t, transport, r.WithContext(with(t.Context())))
				limiter.text = append(limiter.text, printedEverywhere(response.Body))
				require.NoError(t, response.Body.Close())
				require.NoError(t, transport.Close())
				require.NotEmpty(t, limiter.text)
				for _, text := range limiter.text {
					assertNoSecret(t, text)
				}
			}
		})
	}
}

// The state key is in memory as long as the transport and its manager. Printing them must not show it.
func TestNothingIsPrintedWithTheStateKey(t *testing.T) {
	t.Parallel()
	const secret = "a state key that nobody may see"
	transport := newTransport(t, newScript(), httpclient.WithStateKey([]byte(secret)))
	bytes := strings.Trim(fmt.Sprint([]byte(secret)), "[]")
	for _, value := range []any{transport, transport.Manager(), httpclient.WithStateKey([]byte(secret))} {
		text := printedInside(value)
		assert.NotContains(t, text, secret)
		assert.NotContains(t, text, bytes)
		assert.NotContains(t, text, fmt.Sprintf("%x", secret))
	}
}
