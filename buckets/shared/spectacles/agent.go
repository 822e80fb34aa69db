package spectacles

import (
	"errors"
	"strconv"
	"time"

	"github.com/ratelight/ratelight/buckets/shared"
)

const (
	// mostNames is the largest number of names in one call, and mostReports the largest number of reports.
	mostNames   = 100
	mostReports = 50
	// stuckPause is the pause before the next call after a foreign value was found.
	stuckPause = time.Second
	// longestWait is the longest time between two claims. It is short, because other clients may change the time at which
	// a counter expires.
	longestWait = 5 * time.Second
)

// step is one call for a bucket.
type step struct {
	script    *shared.Script
	arguments []string
	names     []string
	waiting   int // number of requests that waited when the call was made
	reports   int
}

// kick starts the goroutine work if a call is due, and otherwise sets the timer for the next call. If the bucket is
// closed and has nothing to report, kick removes the bucket. b.mu must be held.
func (b *bucket) kick(now time.Duration) {
	if b.busy {
		return
	}
	at, any := b.due(now)
	switch {
	case !any && b.closed:
		b.quiet()
		b.session.forget(b)
	case !any:
		b.quiet()
	case at > now:
		b.ringAt(now, at)
	default:
		b.quiet()
		b.busy = b.session.spawn(b.work)
	}
}

// due returns the time of the next call. any is false if no call is needed.
func (b *bucket) due(now time.Duration) (at time.Duration, any bool) {
	switch {
	case len(b.reports) > 0 || len(b.unsure) > 0:
		at = now
	case b.queued() > 0:
		at = b.claimAt
	default:
		return 0, false
	}
	_, retry := b.session.away(now)
	return max(at, retry, b.stuckTo), true
}

// ringAt sets the timer that calls kick. b.mu must be held.
func (b *bucket) ringAt(now, at time.Duration) {
	if b.timer != nil && b.rings == at {
		return
	}
	b.quiet()
	if b.session.over() {
		return
	}
	b.rings = at
	b.timer = b.session.clock.AfterFunc(at-now, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.kick(b.session.now())
	})
}

func (b *bucket) quiet() {
	if b.timer != nil {
		b.timer.Stop()
		b.timer = nil
	}
}

// work makes calls until none is due.
func (b *bucket) work() {
	for {
		b.mu.Lock()
		now := b.session.now()
		b.dropOld(now)
		at, any := b.due(now)
		if !any || at > now {
			b.busy = false
			b.kick(now)
			b.mu.Unlock()
			return
		}
		s := b.next(now)
		b.mu.Unlock()

		reply, err := b.session.call(s.script, b.keys, s.arguments...)

		b.mu.Lock()
		now = b.session.now()
		b.absorb(now, &s, reply, err)
		tell := b.changed
		if b.closed {
			tell = nil
		}
		closed := errors.Is(err, errClosed)
		b.busy = !closed
		b.mu.Unlock()
		if len(reply) > 7 && reply[7] > 0 {
			b.session.sawHold(now + millis(reply[7]))
		}
		if tell != nil && !closed {
			tell()
		}
		if closed {
			return
		}
	}
}

// dropOld removes reports that are no longer needed, because their requests and holds have expired on the server.
func (b *bucket) dropOld(now time.Duration) {
	lease := b.session.store.lease
	kept := b.reports[:0]
	for _, r := range b.reports {
		if !r.over(now, lease) {
			kept = append(kept, r)
		}
	}
	clear(b.reports[len(kept):])
	b.reports = kept
}

// next returns the next call. It sends reports before it claims permits, because reports can start new windows.
func (b *bucket) next(now time.Duration) step {
	lease := strconv.FormatInt(b.session.store.lease.Milliseconds(), 10)
	if len(b.reports) > 0 {
		s := step{script: reportScript, arguments: []string{lease}, reports: min(len(b.reports), mostReports)}
		for _, r := range b.reports[:s.reports] {
			s.arguments = append(s.arguments, r.words(now)...)
		}
		return s
	}
	wanted := min(b.queued(), mostNames)
	s := step{script: claimScript, names: b.unsure, waiting: b.waiting}
	for len(s.names) < wanted {
		s.names = append(s.names, b.session.name())
	}
	s.arguments = append([]string{lease, strconv.Itoa(wanted)}, s.names...)
	return s
}

// absorb records the result of a call. b.mu must be held.
func (b *bucket) absorb(now time.Duration, s *step, reply []int64, err error) {
	var notOurs *shared.KeyError
	switch {
	case errors.As(err, &notOurs):
		b.err, b.stuckTo = err, now+stuckPause
		b.unsure = nil
		return
	case err != nil:
		if s.script == claimScript {
			b.unsure = s.names
		}
		return
	}
	b.err = nil
	if s.script == reportScript {
		b.reports = append(b.reports[:0], b.reports[s.reports:]...)
		b.told(now, reply)
		return
	}
	b.unsure = nil
	b.claimed(now, s, reply)
}

// told records the reply to a report: 0, the server's time, the remaining requests, and the time to the end of the
// window.
func (b *bucket) told(now time.Duration, reply []int64) {
	if len(reply) < 4 {
		return
	}
	if reply[2] == 0 && reply[3] > 0 {
		b.view.remaining, b.view.ends = 0, now+millis(reply[3])
		b.wait(now, reply[3]+1)
		return
	}
	b.claimAt = now
}

// claimed records the reply to a claim. lua/claim.lua describes the reply.
func (b *bucket) claimed(now time.Duration, s *step, reply []int64) {
	if len(reply) != 8+len(s.names) {
		return
	}
	b.view = view{limit: int(reply[3]), remaining: int(reply[4]), period: millis(reply[6])}
	if reply[5] > 0 {
		b.view.ends = now + millis(reply[5])
	}
	for i, name := range s.names {
		if reply[8+i] == 0 {
			continue
		}
		if b.queued() == 0 { // no request waits for this permit any more
			b.reports = append(b.reports, report{kind: unsent, name: name, gen: reply[2], since: now})
			continue
		}
		b.granted = append(b.granted, &permit{name: name, gen: reply[2], since: now})
	}
	if reply[0] > 0 {
		b.denied = min(s.waiting, b.waiting)
	}
	b.wait(now, reply[0])
}

func (b *bucket) wait(now time.Duration, ms int64) {
	b.claimAt = now + min(millis(ms), longestWait)
}

func millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
