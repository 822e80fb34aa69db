package fleet

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// ahead returns by how much the wall clock is ahead of the bubble's time.
func (c *clock) ahead() time.Duration { return c.Now().Round(0).Sub(time.Now().Round(0)) }

func TestClockThatStoodStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock()
		origin := c.Now()
		var mu sync.Mutex
		var fired []time.Duration
		note := func() {
			mu.Lock()
			defer mu.Unlock()
			fired = append(fired, c.Since(origin))
		}
		c.AfterFunc(10*time.Second, note)
		c.AfterFunc(2*time.Second, note)
		stopped := c.AfterFunc(10*time.Second, note)
		ticker := c.NewTicker(4 * time.Second)
		time.Sleep(3 * time.Second)
		c.freeze(true)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Empty(t, ticker.Chan())
		assert.True(t, stopped.Stop())
		assert.False(t, stopped.Stop())
		c.AfterFunc(time.Second, note)
		c.thaw()
		assert.Equal(t, 3*time.Second, c.Since(origin))
		assert.Equal(t, time.Minute+3*time.Second, c.Now().Round(0).Sub(origin.Round(0)), "the wall clock went on")
		assert.Zero(t, c.ahead())
		c.Sleep(8 * time.Second)
		synctest.Wait()
		mu.Lock()
		assert.Equal(t, []time.Duration{2 * time.Second, 4 * time.Second, 10 * time.Second}, fired)
		mu.Unlock()
		assert.Equal(t, 4*time.Second, (<-ticker.Chan()).Sub(origin))
		c.Sleep(2 * time.Second)
		assert.Equal(t, 12*time.Second, (<-ticker.Chan()).Sub(origin))
		ticker.Stop()

		c.freeze(false)
		late := c.NewTimer(time.Second)
		time.Sleep(time.Hour)
		c.thaw()
		synctest.Wait()
		assert.Len(t, late.Chan(), 1, "the timer is due")
		assert.Equal(t, time.Hour+13*time.Second, c.Since(origin))

		c.step(-time.Minute)
		assert.Equal(t, -time.Minute, c.ahead())
		assert.Equal(t, time.Hour+13*time.Second, c.Since(origin), "the monotonic time must not step")
	})
}
