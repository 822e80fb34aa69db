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
)

// TestServerThatSendsResetAloneRefusesNothing sends 300 requests at once to servers that send Reset and Date only. Each
// period may last longer by as much as those are rounded, and no longer.
func TestServerThatSendsResetAloneRefusesNothing(t *testing.T) {
	for name, dialect := range map[string]struct {
		fault    discordsim.Fault
		rounding time.Duration
	}{
		"milliseconds":          {discordsim.ResetAlone(), time.Second},
		"whole seconds, raised": {discordsim.WholeReset(true), 3 * time.Second},
		"whole seconds, cut":    {discordsim.WholeReset(false), 2 * time.Second},
	} {
		for _, quota := range []discordsim.Quota{
			discordsim.Fixed(5, 5*time.Second), discordsim.Aligned(10, 2*time.Second, 0), discordsim.Fixed(30, time.Minute),
			discordsim.Sliding(10, 10*time.Second), discordsim.Leaky(10, 10*time.Second),
		} {
			for skew := range 4 {
				t.Run(fmt.Sprintf("%s/%v %d per %v/%d", name, quota.Kind, quota.Limit, quota.Period, skew), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						took, certain := sendToResetAlone(t, quota, dialect.fault, time.Duration(skew)*275*time.Millisecond)
						assert.LessOrEqual(t, took, certain+time.Duration(300/quota.Limit)*(dialect.rounding+slack))
					})
				})
			}
		}
	}
}

// sendToResetAlone returns how long 300 requests take, and how long they would take a client that knows the server.
func sendToResetAlone(
	t *testing.T, quota discordsim.Quota, dialect discordsim.Fault, skew time.Duration,
) (took, certain time.Duration) {
	trip := 40 * time.Millisecond
	server := newDiscord(t, discordsim.Config{
		Rules:  []discordsim.Rule{{Path: "**", Quota: quota, Faults: []discordsim.Fault{dialect}}},
		Global: discordsim.Unlimited(), Latency: discordsim.Latency{RoundTrip: trip, Jitter: 10 * time.Millisecond}, ClockSkew: skew,
	})
	transport, start := newTransport(t, server.RoundTripper(), httpclient.WithMaxRateLimit(time.Hour)), time.Now()
	var calls []*call
	for range 300 {
		calls = append(calls, send(transport, newMessage(t)))
	}
	assertStatus(t, http.StatusOK, calls...)
	took = time.Since(start)
	assert.Zero(t, server.Report().Refused.Total(), "refused")
	plan, err := discordsim.Certain(discordsim.Conditions{RoundTrip: trip, Global: discordsim.Unlimited()},
		discordsim.Work{Quota: quota, Count: 300, Route: "messages"})
	require.NoError(t, err)
	return took, plan.Makespan
}
