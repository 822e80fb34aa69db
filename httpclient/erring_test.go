package httpclient_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// Errors without limits of a route that is not known prove nothing, and hold up only what may be counted with them.
func TestErrorsWithoutLimitsHoldUpNoOtherChannel(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusForbidden, http.StatusNotFound} {
		for name, path := range map[string]string{"channels": "/api/v10/channels/%d/messages", "follow-ups": "/api/v10/webhooks/1/aW50ZXJhY3Rpb246%d"} {
			t.Run(fmt.Sprint(name, status), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					transport := newTransport(t, roundTripper(func(r *http.Request) (*http.Response, error) {
						time.Sleep(100 * time.Millisecond)
						return answer(status, "{}")(r)
					}))
					start := time.Now()
					var calls []*call
					for i := range 20 {
						calls = append(calls, send(transport, newRequest(t, http.MethodPost, fmt.Sprintf(path, 1000+i), "{}")))
					}
					assertStatus(t, status, calls...)
					assert.Less(t, time.Since(start), 210*time.Millisecond, "one first, and then the others together")
				})
			})
		}
	}
}
