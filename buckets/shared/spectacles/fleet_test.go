package spectacles_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/memoryengine"
)

// fleet is a number of processes of this package (ours) and of the specification (seeds). Each process has ten callers.
// All of them use one bucket of five requests a second.
type fleet struct {
	ours, seeds int
	corrected   bool
	latency     discordsim.Latency
}

// run runs the fleet for a minute. The result share is the number of accepted requests divided by the number that the
// ideal client, which never risks a 429, would have sent. The result refused is the number of 429s.
func (f fleet) run(t *testing.T) (share float64, refused int) {
	inWorldOf(t, discordsim.Config{Latency: f.latency, Seed: 1}, func(w *world) {
		chance := rand.New(rand.NewPCG(1, 1))
		trip := func() time.Duration {
			return 100*time.Microsecond + time.Duration(chance.Int64N(int64(400*time.Microsecond)))
		}
		w.engine.Decide(func(string) memoryengine.Fate { return memoryengine.Fate{Before: trip(), After: trip()} })
		w.processes(f.ours, 10)
		for range f.seeds {
			w.seed(f.corrected).callers(10)
		}
		time.Sleep(time.Minute)
		report := w.end()
		share = float64(report.Accepted) / (5 * 60 / (time.Second + 20*time.Millisecond).Seconds())
		refused = report.Refused.Total()
	})
	t.Logf("%+v: %.3f of the ideal, %d refused", f, share, refused)
	return share, refused
}

var usual = spread(10*time.Millisecond, 40*time.Millisecond)

// slow returns the latency usual, except that one request in 20 takes longer: by in on the way to Discord, and by out
// on the way back.
func slow(in, out time.Duration) discordsim.Latency {
	return discordsim.Latency{Draw: func(r *rand.Rand) (time.Duration, time.Duration) {
		draw := func() time.Duration { return 10*time.Millisecond + time.Duration(r.Int64N(int64(30*time.Millisecond))) }
		if r.IntN(20) > 0 {
			return draw(), draw()
		}
		return draw() + in, draw() + out
	}}
}

// A fleet must send nearly as many requests as the ideal client. It must get no 429s, except if some of its clients
// follow the specification to the letter, because the specification causes 429s.
func TestFleetIsNearTheIdeal(t *testing.T) {
	long(t)
	t.Parallel()
	const late = 2500 * time.Millisecond
	for name, c := range map[string]struct {
		fleet   fleet
		share   float64 // least result of run
		refused bool
	}{
		"four of this package":         {fleet{ours: 4, latency: usual}, 0.95, false},
		"beside corrected clients":     {fleet{ours: 2, seeds: 2, corrected: true, latency: usual}, 0.88, false},
		"beside clients to the letter": {fleet{ours: 2, seeds: 2, latency: usual}, 0.85, true},
		"late responses":               {fleet{ours: 4, latency: slow(0, late)}, 0.75, false},
		"late requests":                {fleet{ours: 4, latency: slow(late, 0)}, 0.75, false},
		"late responses beside other clients": {
			fleet{ours: 2, seeds: 2, corrected: true, latency: slow(0, late)}, 0.75, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			share, refused := c.fleet.run(t)
			assert.GreaterOrEqual(t, share, c.share)
			if c.refused {
				assert.Positive(t, refused, "the flaw is gone, so no warning about these clients is needed")
			} else {
				assert.Zero(t, refused)
			}
		})
	}
}
