package shared

import (
	"errors"
	"slices"
	"time"
)

const (
	// longestSleep is after how long who waits asks again, even if there is nothing to expect: somebody ahead may be dead.
	longestSleep = 1500 * time.Millisecond
	// firstRetry is how long a call that failed is repeated after; twice that the next time, and so on.
	firstRetry   = 20 * time.Millisecond
	longestRetry = time.Second
	// firstLook is after how long who waits for a bucket that is lent to another session asks again, though nobody has said that it was
	// returned; twice that the next time, and so on.
	firstLook   = 25 * time.Millisecond
	longestLook = 250 * time.Millisecond
)

// say lets the next call be made, which says all that there is to say. b.mu is held.
func (b *bucket) say(now time.Duration) {
	b.due = true
	b.activate()
	if b.calling || b.loan != nil || b.gathers || b.failing > 0 && b.timer != nil {
		return
	}
	if away, _ := b.session.away(); away { // it is said when the server is back
		if b.line.Len() > 0 {
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

// converse makes calls as long as there is something to say.
func (b *bucket) converse() {
	for {
		b.mu.Lock()
		now := b.session.now()
		if !b.due || b.loan != nil {
			b.calling = false
			b.ended.Broadcast()
			b.rest(now)
			b.mu.Unlock()
			return
		}
		b.due = false
		request := b.compose(now)
		b.mu.Unlock()
		if request == nil {
			continue
		}
		r, err := b.session.call(exchangeScript, b.keys, request.arguments(b)...)
		var a answer
		if err == nil {
			a, err = r.read()
		}
		if err == nil {
			b.session.saw(a.live, r.sent)
		}
		b.mu.Lock()
		b.calls++
		b.ended.Broadcast()
		if err != nil {
			b.calling = false
			b.failed(b.session.now(), err)
			b.mu.Unlock()
			b.notify()
			return
		}
		b.err, b.failing = nil, 0
		b.delivered(request)
		b.take(request, &a)
		b.mu.Unlock()
		b.notify()
	}
}

// settle waits until what there is to say has been said, unless no call is being made.
func (b *bucket) settle() {
	b.mu.Lock()
	defer b.mu.Unlock()
	last := b.calls + 1
	if b.due {
		last++
	}
	for b.calling && b.calls < last {
		b.ended.Wait()
	}
}

// sayRest says all that there is to say when the session ends, and says it again if it does not get through.
func (b *bucket) sayRest() {
	s := b.session
	for pause := firstRetry; ; pause *= 2 {
		b.mu.Lock()
		b.due = b.due || b.returned != nil
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

// notify tells the user of the bucket that there is something new. No lock is held.
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

// compose returns what there is to say, nil if that is nothing. b.mu is held.
func (b *bucket) compose(now time.Duration) *request {
	q := &request{
		now: now, known: b.known, returned: b.returned,
		outcomes: slices.Clone(b.outcomes[:min(len(b.outcomes), mostNames)]), drops: slices.Clone(b.drops[:min(len(b.drops), mostNames)]),
		hold: max(b.hold-now, 0), class: b.class,
	}
	b.due = len(q.outcomes) < len(b.outcomes) || len(q.drops) < len(b.drops)
	q.flying, b.flights = b.flights, nil
	names := 0
	for e := b.line.Head(); e != nil; e = e.Next() {
		t := e.Value
		if q.first == 0 {
			q.first = t.number
		}
		if t.said {
			q.waiting++
			continue
		}
		if names++; names > mostNames {
			b.due = true
			continue
		}
		q.waiting++
		q.names = append(q.names, t)
	}
	if q.waiting == 0 && q.returned == nil && len(q.flying)+len(q.outcomes)+len(q.drops) == 0 && q.hold == 0 {
		return nil
	}
	q.low = b.low()
	return q
}

// low is the lowest number that is alive here: what the server knows below it is left over from calls that failed.
func (b *bucket) low() uint64 {
	return b.numbers.lowest(b.alive, b.session.agents.next.Load()+1)
}

// delivered drops what was said. b.mu is held.
func (b *bucket) delivered(q *request) {
	for _, o := range q.outcomes {
		delete(b.alive, o.number)
	}
	b.outcomes = b.outcomes[len(q.outcomes):]
	b.drops = b.drops[len(q.drops):]
	if b.returned == q.returned {
		b.returned = nil
	}
	if b.hold <= q.now+q.hold {
		b.hold = 0
	}
	for _, tickets := range [...][]*ticket{q.flying, q.names} {
		for _, t := range tickets {
			t.said = true
		}
	}
}

// take takes in what the server said. b.mu is held.
func (b *bucket) take(q *request, a *answer) {
	lost := a.again == againAll
	if lost {
		// Only what we know of its window is there now; all the rest is said again.
		b.restate(q)
		b.known.born = a.born
		b.due = true
		return
	}
	hold, holding := b.known.hold, b.known.holding
	b.known = a.known
	if a.lent == lentOther {
		b.known.wait = min(a.wait, firstLook<<min(b.looks, 10), longestLook)
		b.looks++
	} else {
		b.looks = 0
	}
	if b.known.hold < hold {
		b.known.hold, b.known.holding = hold, holding
	}
	for _, n := range a.granted {
		t := b.alive[n]
		if t == nil || t.stage != waiting {
			if t == nil && !slices.Contains(b.drops, n) {
				b.drops = append(b.drops, n)
				b.due = true
			}
			continue
		}
		b.line.Remove(&t.Element)
		t.stage, t.said, t.window, t.since = granted, true, a.window, a.at
		b.granted.Insert(&t.Element)
	}
	if a.again == againNames {
		b.unsayLine(b.line.Len())
		b.due = b.due || b.line.Len() > 0
	}
	if a.lent == lentMine {
		l := &loan{number: a.loan, until: q.now + loanTime*9/10, share: 1, state: a.state, at: a.at, wanted: b.wantedAt >= q.now}
		l.state.Hold, l.state.HoldClass = max(b.known.hold-a.at, 0), b.known.holding
		b.accept(l, b.outcomes)
		if b.closed { // nobody would use it
			b.giveUp(q.now)
			b.due = true
		}
	}
}

// restate takes back that things were said, as the server did not keep them.
func (b *bucket) restate(q *request) {
	b.outcomes = append(slices.Clone(q.outcomes), b.outcomes...)
	for _, o := range q.outcomes {
		b.alive[o.number] = &ticket{number: o.number, stage: ended}
	}
	if b.returned == nil {
		b.returned = q.returned
	}
	if q.hold > 0 && b.hold == 0 {
		b.hold, b.class = q.now+q.hold, q.class
	}
	b.flights = nil
	for _, t := range b.alive {
		if t.stage == flying || t.stage == granted {
			b.flights = append(b.flights, t)
		}
	}
	slices.SortFunc(b.flights, func(x, y *ticket) int { return int(x.number) - int(y.number) })
	b.unsayLine(b.line.Len())
}

// unsayLine lets the next calls say the names of the first n who wait.
func (b *bucket) unsayLine(n int) {
	for e := b.line.Head(); e != nil && n > 0; e, n = e.Next(), n-1 {
		e.Value.said = false
	}
}

// failed takes in that a call did not get through. b.mu is held.
func (b *bucket) failed(now time.Duration, err error) {
	b.due, b.failedTo = true, b.session.agents.next.Load()
	b.resayFlights()
	b.unsayLine(mostNames) // some may have been granted, and only the reply was lost
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

// resayFlights lets the next call say of all requests in flight that the server may not know.
func (b *bucket) resayFlights() {
	b.flights = nil
	for _, t := range b.alive {
		if t.stage == flying && !t.said {
			b.flights = append(b.flights, t)
		}
	}
	for _, o := range b.outcomes { // what ended before it was ever said
		if t := b.alive[o.number]; t != nil && !t.said {
			b.flights = append(b.flights, t)
		}
	}
	slices.SortFunc(b.flights, func(x, y *ticket) int { return int(x.number) - int(y.number) })
}

// rest sets the timer of the next call if tickets wait. b.mu is held.
func (b *bucket) rest(now time.Duration) {
	if b.line.Len() > 0 && b.loan == nil && b.timer == nil {
		b.wakeAt(now, b.known.at+min(b.known.wait, longestSleep))
	}
}

func (b *bucket) wakeAt(now, at time.Duration) {
	b.stopTimer()
	if !b.closed || b.due {
		b.timer = b.session.clock.AfterFunc(max(at-now, time.Millisecond), b.wake)
	}
}

func (b *bucket) stopTimer() {
	if b.timer != nil {
		b.timer.Stop()
		b.timer = nil
	}
}

// wake makes a call, for there may be news.
func (b *bucket) wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopTimer()
	b.say(b.session.now())
}

// want takes in that somebody wants the bucket back.
func (b *bucket) want() {
	b.mu.Lock()
	b.wantedAt = b.session.now()
	lent := b.loan != nil
	switch {
	case lent:
		b.loan.wanted = true
	case b.returned != nil: // it waits for the next beat
		b.say(b.wantedAt)
	}
	b.mu.Unlock()
	if lent {
		b.session.spawn(b.notify)
	}
}
