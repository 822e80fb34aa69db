package spectacles_test

import (
	"testing"
	"testing/synctest"
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
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				p := w.process()
				defer p.session.Close()
				p.learn()
				fail(w.engine, true)
				before := w.engine.Total()
				start := time.Now()
				permit, ok := p.within(20 * time.Second)
				require.False(t, ok, permit)
				granted := p.join().granted
				time.Sleep(time.Minute - time.Since(start))
				assert.NoError(t, p.bucket.Err())
				assert.InDelta(t, time.Minute, p.bucket.Predict(p.now(), 0).Wait, float64(2*time.Second), "so that whoever waits may give up")
				calls := w.engine.Total() - before
				assert.Greater(t, calls, 30)
				assert.Less(t, calls, 80)
				fail(w.engine, false)
				start = time.Now()
				<-granted
				assert.LessOrEqual(t, time.Since(start), 1600*time.Millisecond)
				assert.Less(t, p.bucket.Predict(p.now(), 0).Wait, 2*time.Second)
			})
		})
	}
}

func TestClosingEndsAllEvenIfNobodyAnswers(t *testing.T) {
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
		p.join() // too late
		time.Sleep(time.Minute)
		assert.Equal(t, calls, w.engine.Total())
		w.engine.SetFrozen(false)
	})
}

func TestOutcomesAreToldAfterAnOutage(t *testing.T) {
	inWorld(t, func(w *world) {
		p, other := w.process(), w.process()
		defer p.session.Close()
		defer other.session.Close()
		permit, ok := p.within(time.Microsecond)
		require.True(t, ok)
		w.engine.SetDown(true)
		p.report(permit, headers(0, 10*time.Second, 0))
		time.Sleep(5 * time.Second)
		w.engine.SetDown(false)
		start := time.Now()
		_, ok = other.within(20 * time.Second)
		require.True(t, ok)
		assert.InDelta(t, 5*time.Second, time.Since(start), float64(300*time.Millisecond), "the time that has passed counts")
	})
}

// When the engine loses its state, at most one request too many is sent for each request that was in flight.
func TestAnEmptiedEngineIsLearntAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, discordsim.Config{
			Default: &discordsim.Rule{Path: "**", Quota: discordsim.Fixed(5, time.Second)}, Latency: usual, Seed: 5,
		})
		defer w.close()
		for range 3 {
			p := w.process()
			defer p.session.Close()
			p.callers(5)
		}
		for range 8 {
			time.Sleep(5300 * time.Millisecond)
			w.engine.Flush()
		}
		time.Sleep(5 * time.Second)
		report := w.discord.Report()
		w.cancel()
		w.work.Wait()
		t.Log(report.Accepted, report.Refused.Total())
		assert.LessOrEqual(t, report.Refused.Total(), 5*8)
		assert.Greater(t, report.Accepted, 180)
	})
}

func TestAnEngineWhoseClockGoesBackHangsNobody(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.process()
		defer p.session.Close()
		p.learn()
		time.Sleep(1100 * time.Millisecond)
		for i, permit := range p.burst(5) {
			p.report(permit, headers(4-i, time.Second, 0))
		}
		synctest.Wait()
		w.work.Go(func() {
			for w.context.Err() == nil {
				w.engine.Redis.SetTime(time.Now().Add(-time.Hour))
				time.Sleep(10 * time.Millisecond)
			}
		})
		_, ok := p.within(2100 * time.Millisecond) // the time since the last call is waited for again
		assert.True(t, ok)
	})
}
