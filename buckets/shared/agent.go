package shared

import (
	"errors"
	"slices"
	"time"
)

const (
	// longestSleep is the longest time between two calls for a bucket with waiting requests. It is short, because the
	// session that should make the next call may have died.
	longestSleep = 1500 * time.Millisecond
	// shortestSleep is the shortest time between setting the timer and the next call.
	shortestSleep = time.Millisecond
	// courtesy is how long the second session in the queue waits for the first session to make the next call. The other
	// sessions in the queue make no call, because one call serves all sessions.
	courtesy = 250 * time.Millisecond
	// firstRetry is the pause after the first failed call. The pause doubles with every failure, up to longestRetry.
	firstRetry   = 20 * time.Millisecond
	longestRetry = time.Second
	// firstLook is the pause before a session asks again for a bucket that is lent to another session, if no message says
	// that the bucket was returned. The pause doubles with every call, up to longestLook.
	firstLook   = 25 * time.Millisecond
	longestLook = 250 * time.Millisecond
	// longestUntold is the longest time for which an outcome that says nothing new stays unreported.
	longestUntold = 200 * time.Millisecond
)

// say starts a call that reports all news to the server, unless a call is in progress. b.mu must be held.
func (b *bucket) say(now time.Duration) {
	b.due = true
	b.activate()
	if b.calling || b.loan != nil || b.failing > 0 && b.timer != nil {
		return
	}
	if away, _ := b.session.away(); away { // the news is reported when the server is available again
		if b.queued() > 0 {
			b.goAlone(now)
		}
		if b.loan != nil {
			b.session.spawn(b.notify)
		}
		return
	}
	b.stopTimer()
	b.calling = b.session.spawn(b.converse)
}

// converse makes calls until there is no news to report.
func (b *bucket) converse() {
	for b.speak() {
		b.notify()
		b.mu.Lock()
		pause := b.contest.pause()
		if b.recalls != nil || b.returned != nil || b.hold > b.session.now() { // other sessions need this news soon
			pause = 0
		}
		b.mu.Unlock()
		if pause > 0 {
			select {
			case <-b.session.listening.Done():
			case <-b.session.clock.After(pause):
			}
		}
	}
	b.notify()
}

// speak makes one call, and reports whether another call may be needed.
func (b *bucket) speak() (more bool) {
	err := b.session.introduce()
	b.mu.Lock()
	now := b.session.now()
	if !b.due || b.loan != nil {
		b.calling = false
		b.over.Broadcast()
		b.rest(now)
		b.mu.Unlock()
		return false
	}
	if err == nil && !b.session.knowsEngine() { // the process was suspended after introduce
		b.mu.Unlock()
		return true
	}
	b.due = false
	var q *turn
	if err == nil {
		if q = b.compose(now); q == nil {
			b.mu.Unlock()
			return true
		}
	}
	b.mu.Unlock()
	var r reply
	if err == nil {
		r, err = b.session.exchange("swap", q.next.era, q.steps...)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.contest.ended(err == nil && !r.anew && q.kept != "" && !r.values[0].Replaced, &r)
	b.over.Broadcast()
	switch {
	case err == nil && r.anew:
		b.due, b.asks = true, true
		if len(r.values) > 0 && q.kept != "" { // the call took effect, but in an era that is over
			b.unsure = q
		}
	case err == nil:
		err = b.take(q, &r)
	}
	if err != nil {
		b.calling = false
		b.failed(q, err)
		return false
	}
	b.err, b.failing = nil, 0
	return true
}

// settle waits until the outcomes and the returned loan that are known now have been reported to the server. It gives
// up if no call is in progress and no failed call is about to be repeated.
func (b *bucket) settle() {
	b.mu.Lock()
	defer b.mu.Unlock()
	last, returned := b.session.agents.next.Load(), b.returned
	unsaid := func(o outcome) bool { return o.number <= last }
	for b.calling || b.failing > 0 && b.timer != nil {
		if !slices.ContainsFunc(b.ended, unsaid) && (returned == nil || b.returned != returned) {
			return
		}
		b.over.Wait()
	}
}

// sayRest reports the remaining news when the session ends. It repeats calls that fail.
func (b *bucket) sayRest() {
	s := b.session
	for pause := firstRetry; ; pause *= 2 {
		b.mu.Lock()
		b.due = b.due || b.returned != nil || b.untold(s.now())
		due := b.due
		b.calling = due
		b.mu.Unlock()
		if !due {
			return
		}
		b.converse()
		b.mu.Lock()
		b.stopTimer()
		b.mu.Unlock()
		if away, _ := s.away(); away || s.endedErr() != nil {
			return
		}
		select {
		case <-s.context.Done():
			return
		case <-s.clock.After(pause):
		}
	}
}

// notify calls changed, which is the manager's function. No lock may be held.
func (b *bucket) notify() {
	b.mu.Lock()
	changed := b.changed
	if b.closed {
		changed = nil
	}
	b.mu.Unlock()
	if changed != nil {
		changed()
	}
}

// failed records that a call failed, and sets the timer of the next call. b.mu must be held.
func (b *bucket) failed(q *turn, err error) {
	now := b.session.now()
	b.due, b.asks, b.failedTo = true, true, b.session.agents.next.Load()
	if q != nil && q.kept != "" && (b.unsure == nil || len(q.ended) > 0 || q.returned != nil) {
		b.unsure = q
	}
	pause := min(firstRetry<<min(b.failing, 10), longestRetry)
	b.failing++
	var wrong *KeyError
	switch {
	case errors.Is(err, ErrClosed):
		return
	case errors.As(err, &wrong), errors.Is(err, errReply):
		b.err, b.errAt = err, now
		pause = longestRetry
	}
	if away, _ := b.session.away(); away {
		b.goAlone(now)
		return
	}
	b.wakeAt(now, now+pause)
}

// rest sets the timer of the next call if requests wait or news remains. b.mu must be held.
func (b *bucket) rest(now time.Duration) {
	if b.queued() == 0 && !b.untold(now) || b.loan != nil || b.timer != nil {
		return
	}
	at := b.knownAt + longestSleep
	if len(b.ended) > 0 {
		at = min(at, b.tellAt)
	}
	switch k := b.known; {
	case b.looks > 0:
		at = min(b.lookedAt+min(firstLook<<min(b.looks-1, 10), longestLook), b.lentTill+time.Millisecond)
	case k != nil && k.owner == "":
		engine := b.session.engineTime(now)
		next, ok := k.window.Next(engine)
		if courteous, calls := k.courtesy(b.session.id); ok && calls {
			at = min(at, next+now-engine+courteous)
		}
		// Perhaps the window waits for an outcome that only a dead session could report.
		if _, dead := k.silent(engine, b.session.id); dead > 0 && !ok {
			at = min(at, now+dead-engine+shortestSleep)
		}
	}
	b.wakeAt(now, at)
}

func (b *bucket) wakeAt(now, at time.Duration) {
	b.stopTimer()
	if !b.closed || b.due || b.untold(now) {
		b.timer = b.session.clock.AfterFunc(max(at-now, shortestSleep), b.wake)
	}
}

func (b *bucket) stopTimer() {
	if b.timer != nil {
		b.timer.Stop()
		b.timer = nil
		b.over.Broadcast()
	}
}

// wake makes the call for which the timer was set.
func (b *bucket) wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopTimer()
	now := b.session.now()
	b.asks = b.asks || b.looks > 0 || now-b.knownAt >= longestSleep
	b.say(now)
}

// want records that another session needs the bucket's loan.
func (b *bucket) want(w *want) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l := b.loan; l != nil && l.state != nil && l.state.version.String() != w.lent {
		return // the loan that the other session needs has ended already
	}
	b.wantedBy[w.session] = struct{}{}
	now := b.session.now()
	switch {
	case b.loan != nil:
		b.endSoon(now)
	case b.returned != nil: // report the return now instead of with the next tick
		b.say(now)
	case w.at > b.session.engineTime(b.knownAt): // the server may have gone back; the next call corrects that
		b.asks = true
		b.say(now)
	}
}

// endSoon records that the loan has to end, and notifies the manager, whose next call ends the loan. b.mu must be held.
func (b *bucket) endSoon(now time.Duration) {
	if l := b.loan; !l.wanted && !l.alone && now < b.loanUntil() {
		b.session.meter.count(&b.session.meter.counted.LoansRecalled)
	}
	b.loan.wanted = true
	b.session.spawn(b.notify)
}
