package httpclient_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// A lost connection is the caller's to judge, as a request that was perhaps processed must not be repeated blindly. The next
// requests go as if nothing had been, and what may have been counted stays counted.
func TestALostConnectionIsAnErrorAndNothingElseStops(t *testing.T) {
	t.Parallel()
	before := discordsim.Fault{Connection: discordsim.ConnectionLostBefore}
	after := discordsim.Fault{Connection: discordsim.ConnectionLostAfter}
	for name, c := range map[string]struct {
		fault discordsim.Fault
		nth   []int
	}{
		"the first request of all, before it was counted":  {before, []int{1}},
		"the first request of all, after it was counted":   {after, []int{1}},
		"before it was counted":                            {before, []int{3}},
		"after it was counted":                             {after, []int{3}},
		"twice in a row, and then the one after the reset": {after, []int{3, 4, 6}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c.fault.Nth = c.nth
				server := newDiscord(t, everything(discordsim.Fixed(5, time.Second), c.fault))
				// Real HTTP over connections in memory, so that they really break.
				below := &http.Transport{DialContext: server.DialContext}
				transport := newTransport(t, below)
				t.Cleanup(below.CloseIdleConnections)
				client := &http.Client{Transport: transport}

				lost := 0
				for range 12 {
					response, err := client.Do(newMessage(t))
					if err != nil {
						lost++
						continue
					}
					require.NoError(t, response.Body.Close())
					assert.Equal(t, http.StatusOK, response.StatusCode)
				}
				assert.Equal(t, len(c.nth), lost)
				assert.EqualValues(t, len(c.nth), transport.Manager().Stats().Lost)
				assert.Zero(t, server.Report().Refused.Total())
				assertNothingHeld(t, transport)
			})
		})
	}
}

func TestThoseInTheQueueGoOnAfterALostConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := newDiscord(t, everything(discordsim.Fixed(2, time.Second), discordsim.Fault{
			Nth: []int{1, 2, 4}, Connection: discordsim.ConnectionLostAfter,
		}))
		transport := newTransport(t, server.RoundTripper())
		start := time.Now()
		var calls []*call
		for range 10 {
			calls = append(calls, send(transport, newMessage(t)))
		}
		answered := 0
		for _, c := range calls {
			if c.wait(); c.err == nil {
				answered++
			}
		}
		assert.Equal(t, 7, answered)
		assert.Less(t, time.Since(start), 10*time.Second)
		assert.Zero(t, server.Report().Avoidable.Total())
	})
}
