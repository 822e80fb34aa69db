package tune

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestTimeJumpsToWhatIsDueNext(t *testing.T) {
	t.Parallel()
	c := &clock{}
	var happened []string
	note := func(name string) func() {
		return func() { happened = append(happened, c.now.String()+" "+name) }
	}
	c.AfterFunc(3*second, note("third"))
	c.AfterFunc(time.Hour, note("last"))
	c.AfterFunc(time.Hour, note("and after it"))
	c.AfterFunc(second, func() {
		note("first")()
		c.AfterFunc(second, note("second"))
		c.AfterFunc(-second, note("at once"))
	})
	assert.Empty(t, happened, "nothing happens outside next")
	for c.next() {
	}
	assert.Equal(t, []string{"1s first", "1s at once", "2s second", "3s third", "1h0m0s last", "1h0m0s and after it"}, happened)
	assert.Equal(t, beginning.Add(time.Hour), c.Now())
	assert.Equal(t, time.Hour, c.Since(beginning))
	assert.Equal(t, 30*time.Minute, c.Since(beginning.Add(30*time.Minute)))
}

func TestTimersCanBeStoppedAndSetAgain(t *testing.T) {
	t.Parallel()
	c := &clock{}
	var rang []time.Duration
	ring := func() { rang = append(rang, c.now) }
	stopped, moved := c.AfterFunc(second, ring), c.AfterFunc(second, ring)
	assert.True(t, stopped.Stop())
	assert.False(t, stopped.Stop(), "it was stopped already")
	assert.True(t, moved.Reset(5*second))
	assert.False(t, stopped.Reset(2*second), "it was not set")
	for c.next() {
	}
	assert.False(t, moved.Stop(), "it has rung")
	assert.Equal(t, []time.Duration{2 * second, 5 * second}, rang)
}

// With the race detector: what the ticker's goroutine does and what the replay does never happen side by side.
func TestTickIsOverBeforeTimeGoesOn(t *testing.T) {
	t.Parallel()
	c := &clock{}
	var happened []string
	note := func(name string) { happened = append(happened, c.now.String()+" "+name) }
	ticker, stop, gone := c.NewTicker(2*second), make(chan struct{}), make(chan struct{})
	go func() { // as the garbage collector of the buckets does
		defer close(gone)
		defer ticker.Stop()
		for {
			select {
			case <-stop:
				return
			case <-ticker.Chan():
				note("tick")
			}
		}
	}()
	for i := range 3 {
		c.AfterFunc(time.Duration(2*i+1)*second, func() { note("timer") })
	}
	for c.next() {
	}
	close(stop)
	<-gone
	assert.Equal(t, []string{"1s timer", "2s tick", "3s timer", "4s tick", "5s timer"}, happened, "ticks alone do not count")
}
