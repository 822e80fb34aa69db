package httpclient_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
)

// newCallback is the answer to an interaction; the number makes it another one.
func newCallback(t *testing.T, i int) *http.Request {
	t.Helper()
	r := newRequest(t, http.MethodPost, fmt.Sprintf("/api/v10/interactions/%d/aW50ZXJhY3Rpb246MTp4%d/callback", i, i), `{"type":1}`)
	r.Header.Del("Authorization")
	return r
}

func TestARefusalOfTheEdgeWithoutATimeIsAnErrorAndHoldsEverything(t *testing.T) {
	t.Parallel()
	for name, page := range map[string]discordsim.Page{"HTML": discordsim.PageHTML, "JSON": discordsim.PageJSON} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := newDiscord(t, discordsim.Config{
					Edge: []discordsim.EdgeBan{{From: 0, Until: 500 * time.Millisecond, Page: page, Silent: true}},
				})
				transport := newTransport(t, server.RoundTripper())
				first := send(transport, newMessage(t)).wait()
				var edge *ratelimits.EdgeError
				require.ErrorAs(t, first.err, &edge)
				assert.Equal(t, "POST /channels/{channel_id}/messages", edge.Route)
				assert.Less(t, first.took, slack, "it was not repeated")
				assert.InDelta(t, 2, edge.Hold.Seconds(), 1)
				assert.Equal(t, edge.Hold, transport.Manager().EdgeWait(""))

				otherBot := newRequest(t, http.MethodGet, otherRoute, "")
				otherBot.Header.Set("Authorization", "Bot other")
				others := []*call{send(transport, newMessage(t)), send(transport, otherBot), send(transport, newCallback(t, 1))}
				assertStatus(t, http.StatusOK, others...)
				for _, c := range others {
					assertTook(t, edge.Hold, c.took)
				}
				assert.Equal(t, 1, server.Report().Refused.Edge)
			})
		})
	}
}

func TestARefusalOfTheEdgeWithATimeIsWaitedForByAll(t *testing.T) {
	t.Parallel()
	for name, page := range map[string]discordsim.Page{"HTML": discordsim.PageHTML, "JSON": discordsim.PageJSON} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := newDiscord(t, discordsim.Config{Edge: []discordsim.EdgeBan{{From: 0, Until: 20 * time.Second, Page: page}}})
				transport := newTransport(t, server.RoundTripper())
				calls := []*call{send(transport, newMessage(t))}
				time.Sleep(time.Second)
				for i := range 3 {
					calls = append(calls, send(transport, newCallback(t, i)), send(transport, newRequest(t, http.MethodGet, otherRoute, "")))
				}
				start := time.Now()
				assertStatus(t, http.StatusOK, calls...)
				assertTook(t, 19*time.Second, time.Since(start))
				assert.Equal(t, 1, server.Report().Refused.Edge, "nobody asked before the time was over")
			})
		})
	}
}

// The edge refuses a callback again and again and never says for how long. Whoever keeps on asking does so less and less
// often, and everybody else waits.
func TestCallbacksDoNotSpinAtTheEdge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := newDiscord(t, discordsim.Config{Edge: []discordsim.EdgeBan{{From: 0, Until: time.Hour, Silent: true}}})
		transport := newTransport(t, server.RoundTripper(), httpclient.WithMaxRateLimit(2*time.Hour))
		start, attempts := time.Now(), 0
		var last time.Duration
		for time.Since(start) < time.Hour {
			c := send(transport, newCallback(t, attempts)).wait()
			if attempts++; c.err == nil {
				break
			}
			require.Less(t, attempts, 100, "it spins")
			var edge *ratelimits.EdgeError
			require.ErrorAs(t, c.err, &edge)
			last = edge.Hold
		}
		assert.Equal(t, attempts, server.Report().Requests, "each was sent once")
		assert.Less(t, attempts, 20)
		assert.Greater(t, last, 5*time.Minute, "the hold did not grow")
		time.Sleep(10*time.Minute + time.Second)
		assertStatus(t, http.StatusOK, send(transport, newCallback(t, 0)))
	})
}

// After a refusal one request tries, and if it is refused too the others do not follow it.
func TestAfterTheEdgeRefusedOneRequestGoesFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := newDiscord(t, discordsim.Config{
			Edge: []discordsim.EdgeBan{{From: 0, Until: 10 * time.Second}, {From: 10 * time.Second, Until: 15 * time.Second}},
		})
		transport := newTransport(t, server.RoundTripper())
		calls := []*call{send(transport, newMessage(t))}
		time.Sleep(time.Second)
		for i := range 10 {
			calls = append(calls, send(transport, newCallback(t, i)))
		}
		assertStatus(t, http.StatusOK, calls...)
		assert.Equal(t, 2, server.Report().Refused.Edge)
		assert.Zero(t, server.Report().Avoidable.Total())
	})
}
