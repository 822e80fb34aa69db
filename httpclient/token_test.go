package httpclient_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// Discord counts requests to a route with a token in its path for the token, with and without the bot's Authorization.
func TestATokenIsLimitedOnceWithAndWithoutTheBotsAuthorization(t *testing.T) {
	t.Parallel()
	for name, token := range map[string]string{"webhook": "token", "interaction": "aW50ZXJhY3Rpb246MTIz"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const limit, requests = 5, 40
				server := newDiscord(t, everything(discordsim.Fixed(limit, 2*time.Second)))
				transport := newTransport(t, server.RoundTripper())
				start := time.Now()
				var calls []*call
				for i := range requests {
					r := newRequest(t, http.MethodPost, "/api/v10/webhooks/77/"+token, `{"content":"hello"}`)
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
