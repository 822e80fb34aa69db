package httpclient_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/httpclient"
)

// net/http repeats in its error what a server has answered that is no response. That may be the request.
func TestAQueryThatAServerSendsBackReachesNoLogAndNoHook(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log bytes.Buffer
		echo := func(r *http.Request) (*http.Response, error) {
			return nil, fmt.Errorf("net/http: malformed HTTP response %q", r.Method+" "+r.URL.RequestURI())
		}
		hooks := httpclient.Hooks{
			Response: func(_ context.Context, e httpclient.ResponseEvent) { fmt.Fprintln(&log, e.Err) },
			Done:     func(_ context.Context, e httpclient.DoneEvent) { fmt.Fprintln(&log, e.Err) },
		}
		transport := newTransport(t, newScript(echo), httpclient.WithHooks(hooks),
			httpclient.WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))))
		r := getChannel(t)
		r.URL.RawQuery = "signature=SeCrEt"
		assert.Error(t, send(transport, r).wait().err)
		assert.Contains(t, log.String(), "malformed HTTP response")
		assertNoSecret(t, log.String())
	})
}
