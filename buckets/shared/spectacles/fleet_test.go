package spectacles_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/memoryengine"
)

// fleet is several processes with 10 callers each on one bucket of 5 requests a second.
type fleet struct {
	ours, seeds int
	corrected   bool
	latency     discordsim.Latency
	seconds     int
}

// run returns the sent requests as a share of the certain ideal, the number of 429s, and the calls.
func (f fleet) run(t *testing.T) (share float64, refused int, calls float64) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, discordsim.Config{
			Default: &discordsim.Rule{Path: "**", Quota: discordsim.Fixed(5, time.Second)}, Latency: f.latency, Seed: 1,
		})
		chance := rand.New(rand.NewPCG(1, 1))
		trip := func() time.Duration {
			return 100*time.Microsecond + time.Duration(chance.Int64N(int64(400*time.Microsecond)))
		}
		w.engine.Decide(func(string) memoryengine.Fate { return memoryengine.Fate{Before: trip(), After: trip()} })
		var processes []*process
		for range f.ours {
			p := w.process()
			p.callers(10)
			processes = append(processes, p)
		}
		for range f.seeds {
			w.seed(f.corrected).callers(10)
		}
		time.Sleep(time.Duration(f.seconds) * time.Second)
		report := w.discord.Report()
		w.cancel()
		w.work.Wait()
		for _, p := range processes {
			p.session.Close()
		}
		w.close()
		share = float64(report.Accepted) / (5 * float64(f.seconds) / (time.Second + 20*time.Millisecond).Seconds())
		refused, calls = report.Refused.Total(), float64(w.engine.Total())/float64(report.Accepted)
	})
	t.Logf("%+v: %.3f of the certain ideal, %d refused, %.1f calls per success", f, share, refused, calls)
	return share, refused, calls
}

var usual = spread(10*time.Millisecond, 40*time.Millisecond)

func TestFourOfOursAreNearTheIdeal(t *testing.T) {
	long(t)
	t.Parallel()
	share, refused, _ := fleet{ours: 4, latency: usual, seconds: 60}.run(t)
	assert.GreaterOrEqual(t, share, 0.95)
	assert.Zero(t, refused)
}

func TestWithCorrectedClientsNothingIsRefused(t *testing.T) {
	long(t)
	t.Parallel()
	share, refused, _ := fleet{ours: 2, seeds: 2, corrected: true, latency: usual, seconds: 60}.run(t)
	assert.GreaterOrEqual(t, share, 0.88)
	assert.Zero(t, refused)
}

// slow is the usual latency, but one request in 20 takes in longer to Discord and out longer back.
func slow(in, out time.Duration) discordsim.Latency {
	return discordsim.Latency{Draw: func(r *rand.Rand) (time.Duration, time.Duration) {
		draw := func() time.Duration { return 10*time.Millisecond + time.Duration(r.Int64N(int64(30*time.Millisecond))) }
		if r.IntN(20) > 0 {
			return draw(), draw()
		}
		return draw() + in, draw() + out
	}}
}

func TestSlowResponsesAreWaitedFor(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]fleet{
		"answers":                {ours: 4, latency: slow(0, 2500*time.Millisecond)},
		"requests":               {ours: 4, latency: slow(2500*time.Millisecond, 0)},
		"answers, beside others": {ours: 2, seeds: 2, corrected: true, latency: slow(0, 2500*time.Millisecond)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f.seconds = 60
			share, refused, _ := f.run(t)
			assert.Greater(t, share, 0.75)
			assert.Zero(t, refused)
		})
	}
}

func TestWithClientsToTheLetterOnlyTheirFlawIsRefused(t *testing.T) {
	long(t)
	t.Parallel()
	share, refused, _ := fleet{ours: 2, seeds: 2, latency: usual, seconds: 60}.run(t)
	assert.GreaterOrEqual(t, share, 0.85)
	assert.Positive(t, refused, "the flaw is gone: the document's comparison is worth no warning any more")
}
