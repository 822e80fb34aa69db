package httpclient_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/internal/discordsim"
)

func TestCallbacksOfDifferentInteractionsGoTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := newDiscord(t, discordsim.Config{Rules: []discordsim.Rule{{Path: "/interactions/**", Status: http.StatusNoContent}}})
		transport := newTransport(t, server.RoundTripper())
		var calls []*call
		for i := range 100 { // more than the global limit lets through in a second
			calls = append(calls, send(transport, newCallback(t, i)))
		}
		assertStatus(t, http.StatusNoContent, calls...)
		for _, c := range calls {
			assert.Less(t, c.took, slack)
		}
		assert.Equal(t, 100, server.Report().MaxInFlight)
	})
}

// Whatever becomes of one callback, the others do not wait for it.
func TestACallbackInTroubleDoesNotHoldTheOthers(t *testing.T) {
	t.Parallel()
	first := []int{1}
	for name, c := range map[string]struct {
		fault  discordsim.Fault
		rule   discordsim.Rule
		status int
		took   time.Duration
	}{
		"not found":   {fault: discordsim.Fault{Nth: first, Status: http.StatusNotFound}, status: http.StatusNotFound},
		"slow":        {fault: discordsim.Fault{Nth: first, Delay: 10 * time.Second}, status: http.StatusOK, took: 10 * time.Second},
		"outage":      {fault: discordsim.Fault{Nth: first, Status: http.StatusBadGateway}, status: http.StatusBadGateway},
		"slow outage": {fault: discordsim.Fault{Nth: first, Status: http.StatusGatewayTimeout, Delay: 12 * time.Second}, status: http.StatusGatewayTimeout, took: 12 * time.Second},
		"refused": {
			fault: discordsim.Fault{Nth: first, Edit: func(_ discordsim.Call, response *discordsim.Response) {
				response.Status, response.Body = http.StatusTooManyRequests, []byte(`{"retry_after":3}`)
				response.Header.Set("X-RateLimit-Scope", "shared")
			}},
			status: http.StatusOK, took: 3 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := newDiscord(t, discordsim.Config{Rules: []discordsim.Rule{{Path: "/interactions/**", Faults: []discordsim.Fault{c.fault}}}})
				transport := newTransport(t, server.RoundTripper())
				troubled := send(transport, newCallback(t, 0))
				time.Sleep(2 * time.Millisecond)
				for i := range 20 {
					if i == 10 {
						time.Sleep(100 * time.Millisecond) // when the trouble is known
					}
					other := send(transport, newCallback(t, i+1))
					assertStatus(t, http.StatusOK, other)
					assert.Less(t, other.took, slack)
				}
				assertStatus(t, c.status, troubled)
				assertTook(t, c.took, troubled.took)
			})
		})
	}
}

// The same interaction is answered once; what follows it goes to a bucket of its own.
func TestFollowUpsAreCountedPerInteraction(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := newDiscord(t, discordsim.Config{Rules: []discordsim.Rule{
			{Path: "/webhooks/{id}/{token}/**", Quota: discordsim.Fixed(1, 5*time.Second), Hash: "followup"},
		}})
		transport := newTransport(t, server.RoundTripper())
		followUp := func(token string) *call {
			r := newRequest(t, http.MethodPost, "/api/v10/webhooks/1/aW50ZXJhY3Rpb246"+token, `{"content":"hello"}`)
			r.Header.Del("Authorization")
			return send(transport, r)
		}
		assertStatus(t, http.StatusOK, followUp("a"))
		others := []*call{followUp("b"), followUp("c")}
		again := followUp("a")
		assertStatus(t, http.StatusOK, others...)
		for _, c := range others {
			assert.Less(t, c.took, slack)
		}
		assertStatus(t, http.StatusOK, again)
		assertTook(t, 5*time.Second, again.took)
		assert.Zero(t, server.Report().Refused.Total())
	})
}
