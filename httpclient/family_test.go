package httpclient_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// reactionRoutes are three routes of one family in a channel.
func reactionRoutes(t *testing.T, channel int) []*http.Request {
	path := fmt.Sprintf("/api/v10/channels/%d/messages/5/reactions", channel)
	return []*http.Request{
		newRequest(t, http.MethodPut, path+"/x/@me", ""), newRequest(t, http.MethodDelete, path+"/x/@me", ""),
		newRequest(t, http.MethodDelete, path, ""),
	}
}

func TestRoutesOfAFamilyUsedForTheFirstTimeAtOnceAreNotRefused(t *testing.T) {
	t.Parallel()
	const pause = 250 * time.Millisecond
	shared := []discordsim.Rule{{Path: "/channels/{id}/messages/{id}/reactions/**", Quota: discordsim.Fixed(1, pause), Hash: "reactions"}}
	apart := []discordsim.Rule{
		{Method: "PUT", Path: "/channels/{id}/messages/{id}/reactions/**", Quota: discordsim.Fixed(1, pause), Hash: "adding"},
		{Path: "/channels/{id}/messages/{id}/reactions/**", Quota: discordsim.Fixed(1, pause), Hash: "removing"},
	}
	failing := func(fault discordsim.Fault) []discordsim.Rule {
		rules := []discordsim.Rule{shared[0]}
		fault.Nth = []int{1}
		rules[0].Faults = []discordsim.Fault{fault}
		return rules
	}
	for name, c := range map[string]struct {
		rules                         []discordsim.Rule
		channels, credentials, rounds int
		most                          time.Duration
		refused                       int
	}{
		"one channel":       {shared, 1, 1, 1, 600 * time.Millisecond, 0},
		"ten channels":      {shared, 10, 1, 1, 600 * time.Millisecond, 0},
		"three credentials": {shared, 2, 3, 1, 600 * time.Millisecond, 0},
		"many requests":     {shared, 3, 1, 10, 7600 * time.Millisecond, 0},
		// The third route is tried by the hint of the first one, while its own bucket is used up by the second.
		"two hashes": {apart, 1, 1, 1, 600 * time.Millisecond, 1},
		// In each of three channels either route may try its own bucket first where the other one's has been hinted at.
		"two hashes, many": {apart, 3, 2, 10, 5300 * time.Millisecond, 6},
		// The first request was counted, and no response says so.
		"a first server error": {failing(discordsim.Fault{Status: 503}), 2, 1, 2, 4 * time.Second, 1},
		"a first cut":          {failing(discordsim.Fault{Connection: discordsim.ConnectionLostAfter}), 2, 1, 2, 4 * time.Second, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := newDiscord(t, discordsim.Config{Rules: c.rules, Global: discordsim.Unlimited()})
				transport := newTransport(t, server.RoundTripper(), httpclient.WithRetries(3))
				start := time.Now()
				var calls []*call
				for range c.rounds {
					for channel := range c.channels {
						for credential := range c.credentials {
							for _, r := range reactionRoutes(t, channel+1) {
								calls = append(calls, send(transport, as(r, fmt.Sprint("Bot ", credential))))
								synctest.Wait()
							}
						}
					}
				}
				assertStatus(t, http.StatusOK, calls...)
				assert.LessOrEqual(t, server.Report().Refused.Total(), c.refused)
				assert.Less(t, time.Since(start), c.most)
			})
		})
	}
}
