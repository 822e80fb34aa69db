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

// outdatedWorld is a compatible server whose first answer in each window may still show the one before, and whose
// refusals may extend the window.
type outdatedWorld struct {
	quota   discordsim.Quota
	jitter  time.Duration
	honest  bool // the first answer shows its own window
	foreign int  // requests by others, at three moments
}

const outdatedTrip = 100 * time.Millisecond

// send returns how long twenty windows full of requests take, and how many of them were refused.
func (w outdatedWorld) send(t *testing.T) (took time.Duration, refused int) {
	faults := []discordsim.Fault{discordsim.WithoutScope()}
	if !w.honest {
		faults = append(faults, discordsim.StaleFirst())
	}
	config := discordsim.Config{
		Seed: 1, Rules: []discordsim.Rule{{Path: "**", Quota: w.quota, Faults: faults}}, Global: discordsim.Unlimited(),
		Latency: discordsim.Latency{RoundTrip: outdatedTrip, Jitter: w.jitter},
	}
	if w.foreign > 0 {
		config.Foreign = []discordsim.ForeignUse{{
			Request: discordsim.Request{Method: http.MethodPost, Path: "/channels/1/messages", Authorization: authorization},
			At:      []time.Duration{12 * time.Second, 31 * time.Second, 52 * time.Second}, Count: w.foreign,
		}}
	}
	server := newDiscord(t, config)
	transport, start := newTransport(t, server.RoundTripper(), httpclient.WithMaxRateLimit(time.Hour)), time.Now()
	var calls []*call
	for range 20 * w.quota.Limit {
		calls = append(calls, send(transport, newMessage(t)))
	}
	assertStatus(t, http.StatusOK, calls...)
	return time.Since(start), server.Report().Refused.Total()
}

func (w outdatedWorld) String() string {
	return fmt.Sprintf("%d per %v, aligned %v, extended by %v, jitter %v, %d by others",
		w.quota.Limit, w.quota.Period, w.quota.Aligned, w.quota.Extend, w.jitter, w.foreign)
}

// outdatedWorlds are all worlds of a number of foreign requests.
func outdatedWorlds(foreign int, quotas ...discordsim.Quota) (all []outdatedWorld) {
	for _, quota := range quotas {
		for _, jitter := range []time.Duration{0, 10 * time.Millisecond, 90 * time.Millisecond} {
			all = append(all, outdatedWorld{quota: quota, jitter: jitter, foreign: foreign})
		}
	}
	return all
}

func TestAnswerThatShowsTheWindowBeforeCostsNeitherRefusalsNorTime(t *testing.T) {
	const period = 5 * time.Second
	for _, w := range outdatedWorlds(0,
		discordsim.Fixed(10, period), discordsim.Extending(10, period, period), discordsim.Aligned(10, period, 0),
		discordsim.Fixed(2, period), discordsim.Extending(2, period, period),
	) {
		t.Run(w.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				took, refused := w.send(t)
				assert.Zero(t, refused, "refused")
				plan, err := discordsim.Certain(discordsim.Conditions{RoundTrip: outdatedTrip, Global: discordsim.Unlimited()},
					discordsim.Work{Quota: w.quota, Count: 20 * w.quota.Limit, Route: "messages"})
				require.NoError(t, err)
				assert.LessOrEqual(t, took, plan.Makespan+outdatedTrip+20*slack) // one round trip more until the limit is known
			})
		})
	}
}

// Others fill the bucket, and each refusal extends the block: whoever has been refused must not wait longer for that
// than where the first answers are right.
func TestRefusalsOfAServerThatShowsTheWindowBeforeCostOnlyTheirBlocks(t *testing.T) {
	const period = 5 * time.Second
	for _, foreign := range []int{1, 5, 10} {
		for _, w := range outdatedWorlds(foreign, discordsim.Extending(10, period, period)) {
			t.Run(w.String(), func(t *testing.T) {
				var took, honest time.Duration
				var refused, refusedByHonest int
				synctest.Test(t, func(t *testing.T) { took, refused = w.send(t) })
				w.honest = true
				synctest.Test(t, func(t *testing.T) { honest, refusedByHonest = w.send(t) })
				assert.LessOrEqual(t, refused, refusedByHonest+1) // the moments at which others come lie elsewhere in its windows
				assert.LessOrEqual(t, took, honest+period+20*slack)
			})
		}
	}
}
