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

// A bucket that opens late draws hardly any 429s, each of which counts here, excused or not; and it is used nearly as
// fast as it can be. A punctual one costs nothing.
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

// The seconds of the global limit may open late as well.
func TestAGlobalLimitThatOpensLateIsHardlyEverMetClosed(t *testing.T) {
	t.Parallel()
	punctual, late := discordsim.Fixed(50, time.Second), 200*time.Millisecond
	for name, c := range map[string]struct {
		global            discordsim.Quota
		openings, refused int           // at which 429s came at most, and these
		second            time.Duration // how long one lasts at most
	}{
		"punctual":       {punctual, 0, 0, time.Second},
		"late":           {punctual.Late(late, 0), 3, 10, time.Second + late},
		"late at random": {punctual.Late(0, late), 4, 12, time.Second + late},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				config := everything(discordsim.Unlimited())
				config.Global, config.Seed = c.global, 1
				config.Latency = discordsim.Latency{RoundTrip: 60 * time.Millisecond, Jitter: 40 * time.Millisecond}
				server := newDiscord(t, config)
				transport := newTransport(t, server.RoundTripper(), httpclient.WithMaxRateLimit(time.Hour))
				start := time.Now()
				var calls []*call
				for range 100 * 50 {
					calls = append(calls, send(transport, newMessage(t)))
				}
				assertStatus(t, http.StatusOK, calls...)
				report := server.Report()
				assert.LessOrEqual(t, report.LateOpenings, c.openings)
				assert.LessOrEqual(t, report.Refused.Total(), c.refused)
				assert.Zero(t, report.Avoidable.Total())
				longest := config.Latency.RoundTrip + config.Latency.Jitter
				assert.Less(t, time.Since(start), 100*(c.second+longest))
			})
		})
	}
}

// A bucket that was late and is punctual again is used as fast as before, and so on.
func TestABucketBecomesLateAndPunctualAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const period = 2 * time.Second
		config := everything(discordsim.Fixed(5, period))
		config.Rules[0].Changes = []discordsim.Change{
			{At: time.Minute, Quota: discordsim.Fixed(5, period).Late(300*time.Millisecond, 0)},
			{At: 4 * time.Minute, Quota: discordsim.Fixed(5, period)},
		}
		server := newDiscord(t, config)
		transport := newTransport(t, server.RoundTripper(), unlimitedBot(), httpclient.WithMaxRateLimit(time.Hour))
		took := func(windows int) time.Duration {
			start := time.Now()
			var calls []*call
			for range 5 * windows {
				calls = append(calls, send(transport, newMessage(t)))
			}
			assertStatus(t, http.StatusOK, calls...)
			return time.Since(start)
		}
		took(29)
		assert.Zero(t, server.Report().Refused.Total())
		took(300) // until long after the second change
		refused := server.Report().Refused.Total()
		assert.LessOrEqual(t, refused, 5+1, "all of the first opening that was late, and one that tried it again")
		assert.LessOrEqual(t, server.Report().LateOpenings, 2)
		time.Sleep(2 * period)
		assert.Less(t, took(50), 49*(period+slack))
		assert.Equal(t, refused, server.Report().Refused.Total())
		assert.Zero(t, server.Report().Avoidable.Total())
	})
}
