package spectacles_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/redissim"
)

func TestDuringAnOutageNothingIsGranted(t *testing.T) {
	for name, fail := range map[string]func(e *redissim.Server, away bool){
		"down": (*redissim.Server).SetDown, "frozen": (*redissim.Server).SetFrozen,
	} {
		eachWorld(t, name, func(t *testing.T, w *world) {
			p := w.process()
			p.learn()
			fail(w.engine, true)
			before := w.engine.Total()
			start := time.Now()
			permit, ok := p.within(20 * time.Second)
			require.False(t, ok, permit)
			granted := p.join()
			time.Sleep(time.Minute - time.Since(start))
			assert.NoError(t, p.bucket.Err())
			assert.InDelta(t, time.Minute, p.bucket.Predict(p.now(), 0).Wait, float64(2*time.Second), "requests may give up")
			calls := w.engine.Total() - before
			assert.Greater(t, calls, 30)
			assert.Less(t, calls, 80)
			fail(w.engine, false)
			start = time.Now()
			<-granted
			assert.LessOrEqual(t, time.Since(start), 1600*time.Millisecond)
			assert.Less(t, p.bucket.Predict(p.now(), 0).Wait, 2*time.Second)
		})
	}
}

func TestCloseTakesASecondAtMostDuringAnOutage(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.process()
		p.learn()
		w.engine.SetFrozen(true)
		p.join()
		p.session.Global("", 50, nil).Hold(p.now(), time.Hour)
		time.Sleep(10 * time.Second)
		p.report(p.bucket.Adopt(p.now(), p.now()), headers(1, time.Second, 0))
		start := time.Now()
		p.session.Close()
		assert.LessOrEqual(t, time.Since(start), time.Second)
		calls := w.engine.Total()
		p.join()
		time.Sleep(time.Minute)
		assert.Equal(t, calls, w.engine.Total())
		w.engine.SetFrozen(false)
	})
}

func TestOutcomesAreReportedAfterAnOutage(t *testing.T) {
	inWorld(t, func(w *world) {
		p, other := w.two()
		permit := p.mustAcquire()
		w.engine.SetDown(true)
		p.report(permit, headers(0, 10*time.Second, 0))
		time.Sleep(5 * time.Second)
		w.engine.SetDown(false)
		start := time.Now()
		other.mustAcquire()
		assert.InDelta(t, 5*time.Second, time.Since(start), float64(300*time.Millisecond), "the time of the outage counts")
	})
}

// A loss of state must cost at most one 429 for each request in flight.
func TestLossOfStateCostsFew429s(t *testing.T) {
	t.Parallel()
	inWorldOf(t, discordsim.Config{Latency: usual, Seed: 5}, func(w *world) {
		w.processes(3, 5)
		for range 8 {
			time.Sleep(5300 * time.Millisecond)
			w.engine.Flush()
		}
		time.Sleep(5 * time.Second)
		report := w.end()
		t.Log(report.Accepted, report.Refused.Total())
		assert.LessOrEqual(t, report.Refused.Total(), 5*8)
		assert.Greater(t, report.Accepted, 180)
	})
}

func TestClockThatIsSetBackStopsNoProcess(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.process()
		p.learned()
		p.answer(p.burst(5), time.Second, 0)
		w.work.Go(func() {
			for w.context.Err() == nil {
				w.engine.Redis.SetTime(time.Now().Add(-time.Hour))
				time.Sleep(10 * time.Millisecond)
			}
		})
		_, ok := p.within(2100 * time.Millisecond) // the wait grows by the time since the last call
		assert.True(t, ok)
	})
}
