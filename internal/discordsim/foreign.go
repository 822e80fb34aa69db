package discordsim

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// ForeignUse is another client of the same limits: another process with the same token, or another application under
// the same shared limit. Its requests are not judged. If Request has no Address, the requests come from the address
// "elsewhere".
type ForeignUse struct {
	Request Request
	// Count is how many requests are sent at each moment; 0 means one.
	Count int
	// At lists moments at which requests are sent, as times since the world began.
	At []time.Duration
	// Every, if not 0, is the interval at which requests are sent. The first are sent at From, and the last before Until.
	// If Until is 0, there is no end.
	Every       time.Duration
	From, Until time.Duration
}

func (f ForeignUse) validate() error {
	switch {
	case f.Request.Method == "" || f.Request.Path == "":
		return fmt.Errorf("%w: foreign use without a method or a path", ErrConfig)
	case f.Count < 0 || f.Every < 0 || f.From < 0 || f.Until < 0:
		return fmt.Errorf("%w: foreign use with a negative number", ErrConfig)
	case len(f.At) == 0 && f.Every == 0:
		return fmt.Errorf("%w: foreign use at no time", ErrConfig)
	}
	return nil
}

// consumer is a ForeignUse in progress.
type consumer struct {
	ForeignUse
	at   []time.Duration // remaining moments of At, in order
	beat time.Duration   // the next moment that Every gives
}

func newConsumer(use ForeignUse) *consumer {
	return &consumer{ForeignUse: use, at: slices.Sorted(slices.Values(use.At)), beat: use.From}
}

// next returns the moment of the next requests; ok is false if there are no more.
func (c *consumer) next() (moment time.Duration, ok bool) {
	if c.Every > 0 && (c.Until == 0 || c.beat < c.Until) {
		moment, ok = c.beat, true
	}
	if len(c.at) > 0 && (!ok || c.at[0] < moment) {
		moment, ok = c.at[0], true
	}
	return moment, ok
}

// consumed removes the moment that the method next returned.
func (c *consumer) consumed(moment time.Duration) {
	if len(c.at) > 0 && c.at[0] == moment {
		c.at = c.at[1:]
		return
	}
	c.beat += c.Every
}

// runForeign sends all foreign requests that are due, in order of time.
func (w *World) runForeign(now time.Time) {
	for {
		var first *consumer
		var moment time.Duration
		for _, c := range w.foreign {
			if m, ok := c.next(); ok && (first == nil || m < moment) {
				first, moment = c, m
			}
		}
		if first == nil || w.start.Add(moment).After(now) {
			return
		}
		first.consumed(moment)
		w.consume(w.start.Add(moment), first.Request, max(first.Count, 1))
	}
}

// Consume sends n foreign requests at the same moment and returns how many were accepted.
func (w *World) Consume(now time.Time, request Request, n int) int {
	return w.consume(w.advance(now), request, n)
}

func (w *World) consume(now time.Time, request Request, n int) (taken int) {
	request.Address = cmp.Or(request.Address, "elsewhere")
	for range n {
		x := w.begin(now, request, Foreign)
		if !w.globalRefuses(x) && !w.routeRefuses(x) {
			taken++
		}
	}
	w.report.Foreign += taken
	return taken
}
