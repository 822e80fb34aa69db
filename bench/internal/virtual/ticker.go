package virtual

import (
	"errors"
	"time"

	"github.com/jonboulle/clockwork"
)

// NewTicker returns a ticker for a goroutine that does nothing but take ticks, with Chan in its loop:
//
//	for {
//		select {
//		case <-ticker.Chan():
//			work()
//		case <-stop:
//			return
//		}
//	}
//
// Next waits until such a goroutine has taken the tick, has done its work and asks for the next one. So it works as if it
// were the simulation's own goroutine, and not beside it. NewTicker panics if d is not positive, like that of package time.
func (c *Clock) NewTicker(d time.Duration) clockwork.Ticker {
	if d <= 0 {
		panic(errors.New("virtual: non-positive interval for NewTicker"))
	}
	t := &ticker{every: d, ticks: make(chan time.Time), asks: make(chan struct{}, 1)}
	t.timer = timer{clock: c, place: notSet, ticker: true, ring: t.tick}
	t.timer.set(d)
	return t
}

type ticker struct {
	timer timer
	every time.Duration
	ticks chan time.Time
	asks  chan struct{} // holds something when Chan has been called since the last tick
}

func (t *ticker) Chan() <-chan time.Time {
	select {
	case t.asks <- struct{}{}:
	default:
	}
	return t.ticks
}

func (t *ticker) tick() {
	t.timer.set(t.every)
	<-t.asks
	t.ticks <- t.timer.clock.Now()
	<-t.asks
	t.asks <- struct{}{}
}

func (t *ticker) Stop() { t.timer.stop() }

func (t *ticker) Reset(d time.Duration) {
	t.every = d
	t.timer.Reset(d)
}
