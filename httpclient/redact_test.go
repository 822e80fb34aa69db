package httpclient_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/ratelimits"
)

// assertRedacted asserts that neither the error nor any error that it wraps shows a secret.
func assertRedacted(t *testing.T, err error) {
	t.Helper()
	assertNoSecretIn(t, err)
	assertNoSecret(t, err.Error())
	encoded, _ := json.Marshal(err)
	assertNoSecret(t, string(encoded))
	switch x := err.(type) {
	case interface{ Unwrap() error }:
		if inner := x.Unwrap(); inner != nil {
			assertRedacted(t, inner)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range x.Unwrap() {
			assertRedacted(t, inner)
		}
	}
}

// isA reports whether err is or wraps an error of type E.
func isA[E error](err error) bool {
	var target E
	return errors.As(err, &target)
}

// The errors that http.Client returns contain the whole address, and with it the token of a webhook. Redact must remove
// the token.
func TestRedactedErrorsOfAClientContainNoToken(t *testing.T) {
	t.Parallel()
	lost := lostConnection()
	for name, c := range map[string]struct {
		answer responder
		want   func(error) bool
		is     error
	}{
		"too long": {answer: refuse("user", "4000"), want: isA[*ratelimits.TooLongError]},
		"edge":     {answer: answer(http.StatusTooManyRequests, "<html>"), want: isA[*ratelimits.EdgeError]},
		"lost":     {answer: fail(lost), is: lost},
		"end":      {answer: fail(io.ErrUnexpectedEOF), is: io.ErrUnexpectedEOF},
		"no network": {
			answer: fail(&net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}), want: isA[*net.OpError],
			is: os.ErrDeadlineExceeded,
		},
		"a transport whose error has the URL": {answer: func(r *http.Request) (*http.Response, error) {
			return nil, fmt.Errorf("sending %s: %w", r.URL, &url.Error{Op: "Dial", URL: r.URL.String(), Err: io.ErrClosedPipe})
		}, is: io.ErrClosedPipe},
		"a bad redirect": {answer: answer(http.StatusFound, "", "Location: https://discord.com:x/webhooks/1/"+webhookSecret)},
	} {
		for kind := range secretRequests(t) {
			inBubble(t, name+", "+kind, func(t *testing.T) {
				transport := newTransport(t, newScript(c.answer))
				r := secretRequests(t)[kind]
				r.URL.User = url.UserPassword("user-SeCrEt", "password-SeCrEt")
				r.URL.RawQuery = "wait=true&signature=SeCrEt"
				_, err := (&http.Client{Transport: transport}).Do(r)
				require.Error(t, err)
				redacted := httpclient.Redact(err)
				assertRedacted(t, redacted)
				assert.Contains(t, redacted.Error(), "discord.com", "the host must still be shown")
				if c.want != nil {
					assert.True(t, c.want(redacted))
				}
				if c.is != nil {
					assert.ErrorIs(t, redacted, c.is)
				}
				var before, after *url.Error
				require.ErrorAs(t, err, &before)
				require.ErrorAs(t, redacted, &after)
				assert.Equal(t, before.Op, after.Op)
				assert.Equal(t, before.Timeout(), after.Timeout())
				assertRedacted(t, after)
				assert.Equal(t, redacted.Error(), httpclient.Redact(redacted).Error(), "again")
			})
		}
	}
}

func TestRedactKeepsWhatIsNoSecret(t *testing.T) {
	t.Parallel()
	require.NoError(t, httpclient.Redact(nil))
	plain := []error{
		io.EOF, fmt.Errorf("a: %w", io.EOF), errors.Join(io.EOF, context.Canceled),
		&ratelimits.EdgeError{Route: "POST /webhooks/{webhook_id}/{webhook_token}"},
		&url.Error{Op: "Get", URL: "https://discord.com/api/v10/channels/1234567890123456789/messages", Err: io.EOF},
		&url.Error{Op: "Get", URL: "https://discord.com/api/v10/guilds/1/scheduled-events", Err: io.EOF},
		&url.Error{Op: "Get", URL: "/guilds/1234567890123456/scheduled-events", Err: io.EOF},
		errors.New("POST /webhooks/{webhook_id}/{webhook_token}/slack failed"), errors.New("POST /webhooks/1/…/slack"),
		errors.New("/webhooks/1"),
		errors.New("see https://discord.com/developers/docs, or http://localhost:8080."),
		&url.Error{Op: "Get", URL: "", Err: errors.New("http: nil Request.URL")},
	}
	for _, err := range plain {
		assert.True(t, httpclient.Redact(err) == err, "%v", err) //nolint:errorlint // the very same error
	}
}

func TestRedactHidesSecretsOfURLs(t *testing.T) {
	t.Parallel()
	const api = "https://discord.com/api"
	at := func(address string) error { return &url.Error{Op: "Post", URL: address, Err: io.EOF} }
	for want, err := range map[string]error{
		`Post "https://discord.com/api/v10/webhooks/1/…": EOF`:        at(api + "/v10/webhooks/1/SeCrEt"),
		`Post "https://discord.com/api/v10/webhooks/2/…?…": EOF`:      at(api + "/v10/webhooks/2/SeCrEt?wait=true#SeCrEt"),
		`Post "https://discord.com/api/webhooks/3/…/messages/4": EOF`: at(api + "/webhooks/3/SeCrEt/messages/4"),
		`Post "https://discord.com/api/v10/interactions/5/…/callback": EOF`: at(
			"https://user:SeCrEt@discord.com/api/v10/interactions/5/" + replySecret + "/callback"),
		`Post "http://localhost:8080/discord/%77ebhooks/6/…": EOF`: at("http://localhost:8080/discord/%77ebhooks/6/%53eCrEt"),
		`Post "http://[::1]:8080/WEBHOOKS/7/…": EOF`:               at("http://SeCrEt@[::1]:8080/WEBHOOKS/7/SeCrEt"),
		`Post "/webhooks/8/…": unsupported protocol scheme ""`: &url.Error{
			Op: "Post", URL: "/webhooks/8/SeCrEt", Err: errors.New(`unsupported protocol scheme ""`),
		},
		`Post "https://cdn.discordapp.com/attachments/1/2/a.png?…": EOF`: at(
			"https://cdn.discordapp.com/attachments/1/2/a.png?ex=SeCrEt&hm=SeCrEt"),
		`Post "https://…": EOF`:                             at("https://user:pass/SeCrEt@discord.com:x/"),
		`Post "discord.com:…": EOF`:                         at("discord.com:SeCrEt/%zz"),
		`Post "mailto:…": EOF`:                              at("mailto:SeCrEt@discord.com"),
		`Post "https://discord.com/a/…": EOF`:               at("https://discord.com/a/" + webhookSecret),
		`Post "http://proxy:8080/…/api/v10/users/@me": EOF`: at("http://proxy:8080/SeCrEt-16-letter/api/v10/users/@me"),
		`Post "http://proxy:8080/…/users/1": EOF`:           at("http://proxy:8080/0123456789012345/users/1"),
		`Post "http://proxy:8080/…/applications/1/role-connections": EOF`: at(
			"http://proxy:8080/SeCrEt-20-letters-xx/applications/1/role-connections"),
		`request: Post "https://discord.com/webhooks/9/…": EOF`: fmt.Errorf("request: %w",
			at("https://discord.com/webhooks/9/SeCrEt")),
		`see https://discord.com/webhooks/10/…?…, "http://a/?…"`: errors.New(
			`see https://discord.com/webhooks/10/SeCrEt?SeCrEt, "http://a/?SeCrEt"`),
		`at /api/v10/webhooks/14/…/slack, /interactions/15/…: EOF`: fmt.Errorf(
			"at /api/v10/webhooks/14/SeCrEt/slack, /interactions/15/SeCrEt: %w", io.EOF),
		"a\nPost \"https://discord.com/webhooks/11/…\": EOF": errors.Join(errors.New("a"),
			at("https://discord.com/webhooks/11/SeCrEt")),
		`Post "https://discord.com/webhooks/12/…": … was refused`: &url.Error{
			Op: "Post", URL: "https://discord.com/webhooks/12/" + webhookSecret, Err: errors.New(webhookSecret + " was refused"),
		},
		`… of Post "https://discord.com/webhooks/13/…": EOF`: fmt.Errorf("%s of %w", webhookSecret,
			&url.Error{Op: "Post", URL: "https://discord.com/webhooks/13/" + webhookSecret, Err: io.EOF}),
	} {
		redacted := httpclient.Redact(err)
		assert.Equal(t, want, redacted.Error())
		assertRedacted(t, redacted)
		assert.Equal(t, errors.Is(err, io.EOF), errors.Is(redacted, io.EOF), want)
		assert.Equal(t, isA[*url.Error](err), isA[*url.Error](redacted), want)
		assert.Equal(t, want, httpclient.Redact(redacted).Error(), "again")
	}
}

// In a redacted error, errors.Is and errors.As must find the same errors as in the original.
func TestRedactedErrorsAreWhatTheyWere(t *testing.T) {
	t.Parallel()
	const address = "https://discord.com/webhooks/1/" + webhookSecret
	late := &url.Error{Op: "Post", URL: address, Err: &httpclient.AttemptTimeoutError{Route: address}}
	broken := fmt.Errorf("%s: %w", address, context.Canceled)
	err := fmt.Errorf("%s: %w", address,
		&httpclient.RetryError{Route: "POST /x", Err: errors.Join(broken, late), Reason: httpclient.ErrMaxRetryDuration})
	redacted := httpclient.Redact(err)
	assertRedacted(t, redacted)
	assert.True(t, strings.HasPrefix(redacted.Error(), "https://discord.com/webhooks/1/…: POST /x failed"), redacted)
	for _, target := range []error{context.Canceled, httpclient.ErrMaxRetryDuration, err, late, broken} {
		assert.ErrorIs(t, redacted, target)
	}
	assert.NotErrorIs(t, redacted, io.EOF)
	retry := errorAs[*httpclient.RetryError](t, redacted)
	assert.Equal(t, "POST /x", retry.Route)
	require.ErrorAs(t, redacted, new(*httpclient.AttemptTimeoutError))
	assert.False(t, isA[*httpclient.CredentialError](redacted))
	outer := errorAs[*url.Error](t, redacted)
	assertRedacted(t, outer)
	assert.True(t, outer.Timeout())

	var before, after interface{ Timeout() bool }
	require.ErrorAs(t, err, &before)
	require.ErrorAs(t, redacted, &after)
	assert.Equal(t, before.Timeout(), after.Timeout())
	assert.True(t, os.IsTimeout(httpclient.Redact(late)))
	assert.False(t, errors.As(httpclient.Redact(fmt.Errorf("%s: %w", address, io.EOF)), &after))
}

// list is an error that cannot be compared.
type list []string

func (l list) Error() string { return strings.Join(l, ", ") }

func TestErrorsThatCannotBeComparedAreRedactedToo(t *testing.T) {
	t.Parallel()
	err := &url.Error{Op: "Get", URL: "https://discord.com/a?b",
		Err: fmt.Errorf("all: %w", list{"https://discord.com/a?b", "c"})}
	redacted := httpclient.Redact(err)
	assert.Equal(t, `Get "https://discord.com/a?…": all: https://discord.com/a?…, c`, redacted.Error())
	assert.Equal(t, list{"c"}, httpclient.Redact(list{"c"}))
	var found list
	require.ErrorAs(t, redacted, &found)
	assert.NotErrorIs(t, redacted, list{"x"})
}

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

// printedInside returns the result of printedEverywhere, and what fmt prints for the value in an unexported field. For
// such a field, fmt cannot call methods of the value.
func printedInside(value any) string {
	text := printedEverywhere(value)
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		text += fmt.Sprintf(format+"\n", struct{ v any }{value})
	}
	return text
}

// printingLimiter is a limiter. It records what is printed for a lease, and for the context of a request before and
// after a call of Done.
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

// A limiter or a hook may log the context of a request. Even then, no token may appear in the log.
func TestNoContextIsPrintedWithAToken(t *testing.T) {
	t.Parallel()
	for kind := range secretRequests(t) {
		inBubble(t, kind, func(t *testing.T) {
			for _, with := range []func(context.Context) context.Context{
				func(ctx context.Context) context.Context { return ctx },
				func(context.Context) context.Context { return context.Background() },
				func(ctx context.Context) context.Context {
					ctx = httpclient.ContextWithAttempts(ctx, httpclient.Attempts{Timeout: time.Minute})
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

// The transport and its manager keep the state key in memory. If a program prints them, the key must not appear.
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
