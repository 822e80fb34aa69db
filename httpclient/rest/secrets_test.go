package rest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
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

// assertHidden prints values in all ways in which a program may log them, and asserts that no token appears.
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

func isA[E error](err error) bool { return errors.As(err, new(E)) }

// quoting is a base transport whose errors quote the request.
type quoting struct{ format string }

func (q quoting) RoundTrip(r *http.Request) (*http.Response, error) {
	quoted := fmt.Errorf("%s %s with %s: %w", r.Method, r.URL.RequestURI(), r.Header, context.DeadlineExceeded)
	return nil, fmt.Errorf(q.format, &url.Error{Op: "Post", URL: r.URL.String(), Err: quoted})
}

func TestNoErrorOfAClientContainsAToken(t *testing.T) {
	tokens := `"` + clientToken + ` and ` + clientWebhookToken + `"`
	field := `{"message":"m","errors":{` + tokens + `:{"_errors":[{"code":` + tokens + `,"message":` + tokens + `}]}}}`
	answering := func(status int, contentType, body string, lines ...string) http.RoundTripper {
		return replies(reply(status, contentType, body, lines...))
	}
	spaces := strings.Repeat(" ", 1000)
	const moved = "Location: https://"
	isDeadline := func(err error) bool { return errors.Is(err, context.DeadlineExceeded) }
	anyError := func(error) bool { return true }
	type story struct {
		below http.RoundTripper
		want  func(error) bool
	}
	inBubbles(t, map[string]story{
		"an error with the URL": {quoting{"%w"}, isDeadline},
		"a wrapped one":         {quoting{"x: %w"}, isDeadline},
		"API error":             {answering(404, clientJSON, `{"code":10015,"message":`+tokens+`}`), isA[*rest.APIError]},
		"field errors":          {answering(400, clientJSON, field), isA[*rest.APIError]},
		"page":                  {answering(502, "text/html", `<html>`+tokens), isA[*rest.APIError]},
		"too long":              {replies(refused("4000")), isA[*ratelimits.TooLongError]},
		"edge":                  {answering(429, "text/html", "<html>"), isA[*ratelimits.EdgeError]},
		"too large":             {answering(200, clientJSON, tokens+spaces), isA[*rest.ResponseTooLargeError]},
		"not JSON":              {answering(200, "text/html", tokens), isA[*rest.DecodeError]},
		"garbage":               {answering(200, clientJSON, tokens[1:]), isA[*rest.DecodeError]},
		"not ready":             {answering(202, clientJSON, `{"retry_after":4000}`), isA[*ratelimits.TooLongError]},
		"bad redirect":          {answering(302, "", "", moved+"discord.com:x/"+clientWebhookToken), anyError},
		"redirect":              {answering(302, "", "", moved+"example.com/"+clientWebhookToken), isA[*rest.APIError]},
		"dots in a redirect":    {answering(307, "", "", "Location: /../../"+clientWebhookToken+"/%2e%2e/"), anyError},
	}, func(t *testing.T, c story) {
		for _, path := range []string{
			clientWebhook, "/webhooks/1/WeBhOoK%2DSeCrEt%5F0123456789", clientWebhook + "?signature=SeCrEt",
		} {
			// The path of a base URL may contain the secret of a proxy.
			for _, base := range []string{"", "http://proxy:8080/SeCrEt-16-letter/api/v10"} {
				client := newClient(t, c.below, rest.WithMaxResponse(500), rest.WithBaseURL(base))
				err := client.DoJSON(t.Context(), "PUT", path, 1, &struct{}{}, rest.Header("Authorization", "Bot "+clientToken))
				require.Error(t, err)
				if base == "" {
					require.True(t, c.want(err), "%T: %v", err, err)
				}
				for ; err != nil; err = errors.Unwrap(err) {
					assertHidden(t, err)
					assert.NotContains(t, err.Error(), "SeCrEt")
				}
			}
		}
	})
}
