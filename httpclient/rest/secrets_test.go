package rest_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient/rest"
	"github.com/ratelight/ratelight/ratelimits"
)

const (
	clientWebhookToken = "WeBhOoK-SeCrEt_0123456789"
	clientWebhook      = "/webhooks/1/" + clientWebhookToken
)

// assertHidden prints values in all the ways that may reach a log, and asserts that no token shows.
func assertHidden(t *testing.T, values ...any) {
	t.Helper()
	for _, value := range values {
		var log bytes.Buffer
		slog.New(slog.NewTextHandler(&log, nil)).Info("", "value", value)
		slog.New(slog.NewJSONHandler(&log, nil)).Info("", "value", value)
		encoded, _ := json.Marshal(value)
		texts := []string{log.String(), string(encoded)}
		for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
			texts = append(texts, fmt.Sprintf(format, value))
		}
		for _, text := range texts {
			for _, secret := range []string{"SeCrEt", clientToken[:12], clientWebhookToken[:7], fmt.Sprintf("%x", "SeCrEt")} {
				assert.NotContains(t, text, secret)
			}
		}
	}
}

func TestClientIsPrintedWithoutItsToken(t *testing.T) {
	t.Parallel()
	for _, token := range []string{clientToken, "Bot " + clientToken, "Bearer " + clientToken} {
		client := rest.New(token, over(fine()))
		require.NoError(t, client.DoJSON(t.Context(), "GET", "/gateway", nil, nil))
		require.NoError(t, client.DoJSON(t.Context(), "POST", clientWebhook, 1, nil))
		assertHidden(t, client, *client, struct{ c *rest.Client }{client}, struct{ c rest.Client }{*client},
			client.Transport())
		require.NoError(t, client.Close())
	}
}

// isA reports whether the chain of err contains an error of type E.
func isA[E error](err error) bool {
	var target E
	return errors.As(err, &target)
}

func TestNoErrorOfAClientContainsAToken(t *testing.T) {
	t.Parallel()
	leak := func(r *http.Request) error {
		return &url.Error{Op: "Post", URL: r.URL.String(),
			Err: fmt.Errorf("%s with %s: %w", r.URL, r.Header, context.DeadlineExceeded)}
	}
	tokens := `"` + clientToken + ` and ` + clientWebhookToken + `"`
	answers := func(f func() *http.Response) http.RoundTripper { return replies(f) }
	for name, c := range map[string]struct {
		method  string // empty: POST
		below   http.RoundTripper
		options []rest.Option
		want    func(error) bool // nil: any
		is      error            // nil: any
	}{
		"a transport whose error has the URL": {
			below: roundTripperFunc(func(r *http.Request) (*http.Response, error) { return nil, leak(r) }),
			is:    context.DeadlineExceeded,
		},
		"a wrapped error with the URL": {
			below: roundTripperFunc(func(r *http.Request) (*http.Response, error) { return nil, fmt.Errorf("x: %w", leak(r)) }),
			is:    context.DeadlineExceeded,
		},
		"API error": {below: answers(reply(404, clientJSON, `{"code":10015,"message":`+tokens+`}`)), want: isA[*rest.APIError]},
		"field errors": {below: answers(reply(400, clientJSON,
			`{"message":"m","errors":{`+tokens+`:{"_errors":[{"code":`+tokens+`,"message":`+tokens+`}]}}}`)),
			want: isA[*rest.APIError]},
		"page":     {below: answers(reply(502, "text/html", `<html>`+tokens)), want: isA[*rest.APIError]},
		"too long": {below: answers(refused("4000")), want: isA[*ratelimits.TooLongError]},
		"edge":     {below: answers(reply(429, "text/html", "<html>")), want: isA[*ratelimits.EdgeError]},
		"too large": {
			below: answers(reply(200, clientJSON, tokens)), options: []rest.Option{rest.WithMaxResponse(1)},
			want: isA[*rest.ResponseTooLargeError],
		},
		"not JSON": {below: answers(reply(200, "text/html", tokens)), want: isA[*rest.DecodeError]},
		"garbage":  {below: answers(reply(200, clientJSON, tokens[1:])), want: isA[*rest.DecodeError]},
		"not ready": {
			method: "PUT", below: answers(reply(202, clientJSON, `{"retry_after":4000}`)), want: isA[*ratelimits.TooLongError],
		},
		"bad redirect": {below: answers(reply(302, "", "", "Location: https://discord.com:x/"+clientWebhookToken))},
		"redirect": {
			below: answers(reply(302, "", "", "Location: https://example.com/"+clientWebhookToken)), want: isA[*rest.APIError],
		},
		"dots in a redirect": {below: answers(reply(307, "", "", "Location: /../../"+clientWebhookToken+"/%2e%2e/"))},
	} {
		for kind, path := range map[string]string{
			"webhook": clientWebhook, "encoded": "/webhooks/1/WeBhOoK%2DSeCrEt%5F0123456789",
		} {
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				client := newClient(t, c.below, c.options...)
				var out struct{}
				err := client.DoJSON(t.Context(), cmp.Or(c.method, "POST"), path, map[string]int{"a": 1}, &out,
					rest.Header("Authorization", "Bot "+clientToken))
				require.Error(t, err)
				if c.is != nil {
					require.ErrorIs(t, err, c.is)
				}
				if c.want != nil {
					require.True(t, c.want(err), "%T: %v", err, err)
				}
				for ; err != nil; err = errors.Unwrap(err) {
					assertHidden(t, err)
					assert.NotContains(t, err.Error(), "SeCrEt")
				}
			})
		}
	}
}

// The path of a base URL may contain the secret of a proxy.
func TestNoErrorOfAClientContainsTheSecretOfItsBaseURL(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const secret = "SeCrEt-16-letter"
		client := newClient(t, roundTripperFunc(func(r *http.Request) (*http.Response, error) {
			return nil, fmt.Errorf("malformed HTTP response %q", r.Method+" "+r.URL.RequestURI())
		}), rest.WithBaseURL("http://proxy:8080/"+secret+"/api/v10"))
		for _, path := range []string{"http://elsewhere/users/@me", "/users/@me", "/users/@me?signature=SeCrEt"} {
			_, err := client.Do(t.Context(), "GET", path, nil)
			require.Error(t, err)
			assertHidden(t, err)
		}
	})
}
