package httpclient_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// lateCase is a bucket that opens later than announced, or not, and what that may cost.
type lateCase struct {
	name     string
	quota    discordsim.Quota
	requests int
	refused  int     // 429s at most
	slower   float64 // than a client that knows of each opening how late it is, as a factor
}

// lateCases have the lateness of real buckets, as it was measured: 0.3 s of 5 s, and 0.2 s of the 0.25 s of reactions.
func lateCases() (all []lateCase) {
	const ms = time.Millisecond
	for kind, of := range map[string]func(int, time.Duration) discordsim.Quota{
		"fixed": discordsim.Fixed, "sliding": discordsim.Sliding, "sliding, next": discordsim.SlidingNext, "leaky": discordsim.Leaky,
	} {
		one, five, reactions := of(1, 5*time.Second), of(5, 5*time.Second), of(1, 250*ms)
		all = append(all,
			lateCase{kind + ", one late by 0.3 s", one.Late(300*ms, 0), 40, 3, 1.03},
			lateCase{kind + ", five late by 0.3 s", five.Late(300*ms, 0), 200, 3, 1.03},
			lateCase{kind + ", reactions", reactions.Late(200*ms, 0), 100, 4, 1.03},
			lateCase{kind + ", one late by up to 0.35 s", one.Late(0, 350*ms), 100, 6, 1.04},
			lateCase{kind + ", one, punctual", one, 40, 0, 1.001},
		)
		punctual, random := lateCase{kind + ", five, punctual", five, 200, 0, 1.001}, kind == "fixed" || kind == "leaky"
		if kind == "sliding, next" { // its places are not named
			punctual.slower = 1.02
		}
		if all = append(all, punctual); random { // in a log each place is late by itself
			all = append(all, lateCase{kind + ", five late by up to 0.35 s", five.Late(0, 350*ms), 500, 6, 1.04})
		}
	}
	return all
}

// A bucket that opens late draws hardly any 429s, each of which counts here, excused or not; and it is used nearly as fast
// as it can be. A punctual one costs nothing.
func TestABucketThatOpensLateIsHardlyEverMetClosed(t *testing.T) {
	t.Parallel()
	for name, latency := range map[string]discordsim.Latency{
		"20 ms": discordsim.RoundTrip(20 * time.Millisecond), "100 ms": discordsim.RoundTrip(100 * time.Millisecond),
		"20 to 100 ms": {RoundTrip: 60 * time.Millisecond, Jitter: 40 * time.Millisecond},
	} {
		for _, c := range lateCases() {
			t.Run(c.name+", "+name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { c.test(t, latency) })
			})
		}
	}
}

func (c *lateCase) test(t *testing.T, latency discordsim.Latency) {
	config := everything(c.quota)
	config.Latency, config.Seed = latency, 1
	server := newDiscord(t, config)
	transport := newTransport(t, server.RoundTripper(), unlimitedBot(), httpclient.WithMaxRateLimit(time.Hour))
	start := time.Now()
	var calls []*call
	for range c.requests {
		calls = append(calls, send(transport, newMessage(t)))
	}
	assertStatus(t, http.StatusOK, calls...)
	took := time.Since(start)
	ideal, err := discordsim.Certain( // with the longest round trip, as nobody knows how long the next one takes
		discordsim.Conditions{RoundTrip: latency.RoundTrip + latency.Jitter, Global: discordsim.Unlimited(), Seed: config.Seed},
		discordsim.Work{Quota: c.quota, Count: c.requests, Route: "messages", Major: "1"},
	)
	require.NoError(t, err)
	report := server.Report()
	assert.LessOrEqual(t, report.Refused.Total(), c.refused)
	assert.Zero(t, report.Avoidable.Total())
	assert.LessOrEqual(t, took, time.Duration(c.slower*float64(ideal.Makespan)))
}
