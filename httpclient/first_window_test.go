package httpclient_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// TestFirstWindowIsUsedWhateverTheOrderOfItsAnswers sends to some routes of one bucket at once, whose answers cross.
// The first ones may be errors without limits, which were not counted.
func TestFirstWindowIsUsedWhateverTheOrderOfItsAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ routes, errors int }{{1, 0}, {2, 0}, {3, 0}, {4, 0}, {2, 1}, {2, 2}, {4, 1}} {
		for seed := range uint64(60) {
			t.Run(fmt.Sprintf("%d routes, %d errors/%d", c.routes, c.errors, seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					assert.Equal(t, 5, sentInFirstWindow(t, seed, c.routes, c.errors))
				})
			})
		}
	}
}

// sentInFirstWindow returns how many of more than enough requests were let through in the first window of a bucket of
// five.
func sentInFirstWindow(t *testing.T, seed uint64, routes, errors int) (sent int) {
	failed, start := discordsim.NoHeaders(), time.Now()
	failed.Status, failed.Uncounted = http.StatusNotFound, true
	failed.When = func(c discordsim.Call) bool { return c.N <= errors }
	server := newDiscord(t, discordsim.Config{
		Seed: seed, Global: discordsim.Unlimited(), Latency: discordsim.Latency{RoundTrip: 100 * time.Millisecond, Jitter: 90 * time.Millisecond},
		Rules: []discordsim.Rule{{Path: "**", Hash: "one", Quota: discordsim.Fixed(5, 5*time.Second), Faults: []discordsim.Fault{failed}}},
		Observe: func(e discordsim.Event) {
			if e.Status == http.StatusOK && e.At.Sub(start) < 4*time.Second {
				sent++
			}
		},
	})
	transport := newTransport(t, server.RoundTripper())
	paths := []string{"messages", "webhooks", "invites", "pins"}
	var calls []*call
	for i := range 12 {
		calls = append(calls, send(transport, newRequest(t, http.MethodGet, "/api/v10/channels/1/"+paths[i%routes], "")))
	}
	for _, c := range calls {
		assert.NoError(t, c.wait().err)
	}
	if errors == 0 { // else one of a route that is not known yet may be one too many
		assert.Zero(t, server.Report().Refused.Total(), "refused")
	}
	return sent
}
