package virtual_test

import (
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/bench/internal/virtual"
)

var start = time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC)

func TestTimeJumpsToWhatIsDueNext(t *testing.T) {
	t.Parallel()
	c := virtual.New(start)
	var happened []string
	note := func(name string) func() {
		return func() { happened = append(happened, c.Elapsed().String()+" "+name) }
	}
	c.AfterFunc(3*time.Second, note("third"))
	c.AfterFunc(time.Hour, note("last"))
	c.AfterFunc(time.Second, func() {
		note("first")()
		c.AfterFunc(time.Second, note("second"))
		c.AfterFunc(-time.Second, note("at once"))
	})
	assert.Empty(t, happened, "nothing happens outside Next")
	for c.Next() {
	}
	assert.Equal(t, []string{"1s first", "1s at once", "2s second", "3s third", "1h0m0s last"}, happened)
	assert.Equal(t, 5, c.Rung())
	assert.Equal(t, start.Add(time.Hour), c.Now())
	assert.Equal(t, 30*time.Minute, c.Since(start.Add(30*time.Minute)))
	assert.Equal(t, time.Minute, c.Until(start.Add(61*time.Minute)))
}

func TestWhatIsDueTogetherKeepsItsOrder(t *testing.T) {
	t.Parallel()
	c := virtual.New(start)
	var order []int
	for i := range 100 {
		c.AfterFunc(time.Second, func() { order = append(order, i) })
	}
	for c.Next() {
	}
	for i := range order {
		assert.Equal(t, i, order[i])
	}
	assert.Len(t, order, 100)
}

func TestTimersCanBeStoppedAndSetAgain(t *testing.T) {
	t.Parallel()
	c := virtual.New(start)
	var rang []time.Duration
	ring := func() { rang = append(rang, c.Elapsed()) }
	stopped := c.AfterFunc(time.Second, ring)
	moved := c.AfterFunc(time.Second, ring)
	assert.True(t, stopped.Stop())
	assert.False(t, stopped.Stop(), "it was stopped already")
	assert.True(t, moved.Reset(5*time.Second))
	assert.False(t, stopped.Reset(2*time.Second), "it was not set")
	for c.Next() {
	}
	assert.False(t, moved.Stop(), "it has rung")
	assert.Equal(t, []time.Duration{2 * time.Second, 5 * time.Second}, rang)
}

func TestTimersSendTheTime(t *testing.T) {
	t.Parallel()
	c := virtual.New(start)
	timer, after := c.NewTimer(time.Second), c.After(2*time.Second)
	for c.Next() {
	}
	assert.Equal(t, start.Add(time.Second), <-timer.Chan())
	assert.Equal(t, start.Add(2*time.Second), <-after)
	for range 2 {
		timer.Reset(time.Second)
		c.Next()
	}
	assert.Equal(t, start.Add(3*time.Second), <-timer.Chan(), "the second one found no room")
}

// follow takes ticks as the garbage collector of the buckets does.
func follow(ticker clockwork.Ticker, work func()) (end func()) {
	stop, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		defer ticker.Stop()
		for {
			select {
			case <-stop:
				return
			case <-ticker.Chan():
				work()
			}
		}
	}()
	return func() {
		close(stop)
		<-gone
	}
}

// With the race detector: what the ticker's goroutine does and what the simulation does never happen side by side.
func TestTickIsOverBeforeTimeGoesOn(t *testing.T) {
	t.Parallel()
	c := virtual.New(start)
	var happened []string
	note := func(name string) { happened = append(happened, c.Elapsed().String()+" "+name) }
	end := follow(c.NewTicker(2*time.Second), func() { note("tick") })
	defer end()
	for i := range 3 {
		c.AfterFunc(time.Duration(2*i+1)*time.Second, func() { note("timer") })
	}
	for c.Next() {
	}
	assert.Equal(t, []string{"1s timer", "2s tick", "3s timer", "4s tick", "5s timer"}, happened, "ticks alone do not count")
}

func TestTickersCanBeStoppedAndSetAgain(t *testing.T) {
	t.Parallel()
	c := virtual.New(start)
	var ticks []time.Duration
	ticker := c.NewTicker(time.Second)
	end := follow(ticker, func() { ticks = append(ticks, c.Elapsed()) })
	c.AfterFunc(time.Second, func() { ticker.Reset(10 * time.Second) })
	c.AfterFunc(25*time.Second, end)
	c.AfterFunc(time.Hour, func() {})
	for c.Next() {
	}
	assert.Equal(t, []time.Duration{time.Second, 11 * time.Second, 21 * time.Second}, ticks)
	assert.Panics(t, func() { c.NewTicker(0) })
}
