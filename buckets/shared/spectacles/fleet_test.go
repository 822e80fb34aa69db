package spectacles_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// fleet is several processes with 10 callers each on one bucket of 5 requests a second.
type fleet struct {
	ours, seeds int
	corrected   bool
	latency     discordsim.Latency
	seconds     int
}

// run returns how much of what is certainly possible was sent, and how many 429s there were.
func (f fleet) run(t *testing.T) (share float64, refused int, calls float64) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, discordsim.Config{
			Default: &discordsim.Rule{Path: "**", Quota: discordsim.Fixed(5, time.Second)}, Latency: f.latency, Seed: 1,
		})
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
	t.Parallel()
	share, refused, _ := fleet{ours: 4, latency: usual, seconds: 60}.run(t)
	assert.GreaterOrEqual(t, share, 0.95)
	assert.Zero(t, refused)
}

func TestWithCorrectedClientsNothingIsRefused(t *testing.T) {
	t.Parallel()
	share, refused, _ := fleet{ours: 2, seeds: 2, corrected: true, latency: usual, seconds: 60}.run(t)
	assert.GreaterOrEqual(t, share, 0.88)
	assert.Zero(t, refused)
}

func TestWithClientsToTheLetterOnlyTheirFlawIsRefused(t *testing.T) {
	t.Parallel()
	share, refused, _ := fleet{ours: 2, seeds: 2, latency: usual, seconds: 60}.run(t)
	assert.GreaterOrEqual(t, share, 0.85)
	assert.Positive(t, refused, "the flaw is gone: the document's comparison is worth no warning any more")
}
