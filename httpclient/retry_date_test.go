package httpclient_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/ratelimits"
)

// A server that names the time of the next attempt by its own clock, whatever ours says, is asked again when that has
// come.
func TestRetryAfterAsADateIsObeyed(t *testing.T) {
	t.Parallel()
	const (
		date  = "Date: Tue, 02 Aug 2016 21:23:43 GMT"
		soon  = "Retry-After: Tue, 02 Aug 2016 21:23:46 GMT"
		later = "Retry-After: Tue, 02 Aug 2016 21:24:03 GMT"
	)
	for name, c := range map[string]struct {
		answer func(*http.Request) (*http.Response, error)
		wait   time.Duration
	}{
		"429": {answer(http.StatusTooManyRequests, "{}", "X-RateLimit-Scope: user", date, soon), 4 * time.Second},
		"page of 1015": {
			answer(http.StatusTooManyRequests, "<html>", "Content-Type: text/html", date, later), 21 * time.Second,
		},
		"server error": {answer(http.StatusServiceUnavailable, "", date, soon), 4 * time.Second},
	} {
		inBubble(t, name, func(t *testing.T) {
			script := newScript(c.answer, answer(http.StatusOK, "{}"))
			transport, start := newTransport(t, script), time.Now()
			sent := send(transport, newRequest(t, http.MethodGet, "/api/v10/channels/1/messages", "")).wait()
			if edge := (*ratelimits.EdgeError)(nil); errors.As(sent.err, &edge) {
				sent = send(transport, newRequest(t, http.MethodGet, "/api/v10/channels/1/messages", "")).wait()
			}
			require.NoError(t, sent.err)
			assert.InDelta(t, c.wait.Seconds(), time.Since(start).Seconds(), 0.1)
			assert.Len(t, script.requests(), 2)
		})
	}
}
