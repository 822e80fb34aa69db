package httpclient_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// Discord counts requests to a route with a token in its path for the token, with and without the bot's Authorization.
func TestATokenIsLimitedOnceWithAndWithoutTheBotsAuthorization(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		token   string
		options []httpclient.Option
	}{
		"webhook":     {"token", []httpclient.Option{httpclient.WithAuthorizationAlways()}},
		"interaction": {"aW50ZXJhY3Rpb246MTIz", []httpclient.Option{httpclient.WithAuthorizationAlways()}},
		"withheld":    {"token", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const limit, requests = 5, 40
				server := newDiscord(t, everything(discordsim.Fixed(limit, 2*time.Second)))
				transport := newTransport(t, server.RoundTripper(), c.options...)
				start := time.Now()
				var calls []*call
				for i := range requests {
					r := newRequest(t, http.MethodPost, "/api/v10/webhooks/77/"+c.token, `{"content":"hello"}`)
					switch i % 3 {
					case 0:
						r.Header.Del("Authorization")
					case 1:
						r.Header.Set("Authorization", "Bot another")
					}
					calls = append(calls, send(transport, r))
				}
				assertStatus(t, http.StatusOK, calls...)
				assert.Zero(t, server.Report().Refused.Total())
				assert.Len(t, server.Report().Buckets, 1)
				assert.InDelta(t, (requests/limit-1)*2, time.Since(start).Seconds(), 0.5)
			})
		})
	}
}
