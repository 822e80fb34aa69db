package shared

import (
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

const (
	// loanBias is how long one session alone must have used a bucket before the bucket is lent to that session.
	loanBias = time.Second
	// longestLoanPeriod is the longest period of a bucket that is lent. If the session with the loan dies, the next
	// session has to wait for a period.
	longestLoanPeriod = 10 * time.Second
	// settleTime is the time that sessions have to notice the end of an outage or a loss. Until then sessions may send
	// requests without reporting them.
	settleTime = 1200 * time.Millisecond
	// mostTold bounds how many sessions receive a message with a new state that grants them no permit.
	mostTold = 8
	// keyTime is how long the server stores the state of a bucket that no session uses.
	keyTime = 10 * time.Minute
	// knowledge is how long after a call a session assumes that the server still stores a value: keyTime minus a minute.
	knowledge = 9 * time.Minute
)

// turn is one call for a bucket. The call replaces the known state by the next one. If there is nothing to report, the
// call only loads the state. If the bucket is lent to another session, the call loads the state, and may ask for the
// loan.
type turn struct {
	number    uint64
	at        time.Duration // lower bound of the server's time
	low, high time.Duration // bounds of the server's time minus ours
	expected  version       // version of the known state
	next      *state
	kept      string   // the next state in the form in which the server stores it; "" if the call only loads
	ended     []uint64 // numbers of the requests whose outcomes the call reports
	hold      time.Duration
	returned  *returned
	granted   []place
	lends     bool     // whether the call lends the bucket to this session
	silent    []string // sessions that may be dead; the call asks whether they are alive
	told      []string // sessions that receive the new state by message
	owner     string   // the session that has the loan, if that is another session
	steps     []Step   // for the bucket, for the silent sessions, and perhaps to ask for the loan
}

// compose returns the next call, nil if no call is needed. b.mu must be held.
func (b *bucket) compose(now time.Duration) *turn {
	mine := b.session.id
	era := b.session.eraNumber() // first, because if the era ends before the clock is read, the call has no effect
	early := b.session.engineTime(now)
	q := &turn{number: b.session.agents.next.Add(1), at: early, hold: b.hold, returned: b.returned}
	for i := range b.ended {
		q.ended = append(q.ended, b.ended[i].number)
	}
	b.outdate()
	q.low, q.high = b.session.offset()
	if b.known != nil && b.outdated(now) {
		b.known, b.kept, b.dead = nil, "", nil
	}
	s, news := b.decoded(), false
	s.restart(era, early)
	if q.expected = s.version; s.version.life == 0 {
		s.version.life = rand.Int64()
	}
	q.next = s
	b.vouch(s)
	for _, session := range b.dead {
		s.bury(early, session)
		news = true
	}
	q.silent, _ = s.silent(early, mine)
	s.touch(early, mine, q.number, 0)
	switch {
	case b.returned != nil:
		b.restore(s, q.expected, early)
		news = true
	case s.owner == mine: // the server lent the bucket, but the reply was lost
		s.owner, news = "", true
	}
	if s.owner != "" && !slices.Contains(b.dead, s.owner) {
		q.owner, q.silent, q.lends = s.owner, []string{s.owner}, false
		return b.look(q, b.inUse() || b.hold > now || b.recalls != nil)
	}
	if b.looks > 0 && b.known == nil && b.lentTill > now { // the server has lost the loan, so wait until it has ended
		s.window.HoldFor(early, b.lentTill-now, ratelimits.ClassOK)
	}
	if b.recalls != nil {
		s.recall(early, b.recalls.window, b.recalls.until-now)
		news = true
	}
	news = b.reconcile(s, early) || news
	if s.owner != "" { // last, because takeOver needs the period, which recall or reconcile may have set
		s.takeOver(early)
	}
	if rest := b.hold - now; rest > 0 {
		s.window.HoldFor(early, rest, b.class)
		news = true
	}
	if q.lends = !b.closed && s.lendable(early, mine); q.lends {
		s.owner, s.queue, news = mine, nil, true
	} else if q.granted = s.serve(early); len(q.granted) > 0 {
		news = news || !b.asks // if the call only asks, another session has probably served the queue already
	}
	if !news {
		q.granted = nil
		return b.look(q, false)
	}
	m := s.member(mine)
	m.waiting = b.queued()
	m.seen -= sessionTime - b.session.lifetime() // so that a session that closes counts as dead earlier
	s.version.number++
	q.kept = s.encode()
	q.told = b.hearers(q)
	q.steps = append([]Step{{
		Key: b.key, Version: q.expected.String(), Value: q.kept, Life: keyTime + s.rest(early),
		Channels: b.session.channels(q.told), Message: "state " + withName(b.name),
	}}, b.session.lifeSteps(q.silent)...)
	return q
}

// look returns a call that only loads the state, nil if no call is needed. If needed is set, the call also asks for the
// loan of q.owner.
func (b *bucket) look(q *turn, needed bool) *turn {
	if !needed && !b.asks && (len(q.silent) == 0 || b.queued() == 0) {
		return nil
	}
	q.steps = append([]Step{{Key: b.key}}, b.session.lifeSteps(q.silent)...)
	if needed {
		q.steps = append(q.steps, b.session.wantStep(q, b.name))
	}
	return q
}

// lifeSteps returns the steps of a call that ask how much longer sessions count as alive.
func (s *session) lifeSteps(sessions []string) (steps []Step) {
	s.agents.mu.Lock()
	defer s.agents.mu.Unlock()
	for _, session := range sessions {
		step := Step{Key: s.store.keys.life(session)}
		if _, long := s.agents.long[session]; long {
			step.Value, step.Any, step.Life = alive, true, sessionTime
			delete(s.agents.long, session)
		}
		steps = append(steps, step)
	}
	return steps
}

// lives returns how much longer a session counts as alive. l is the result of the session's step in lifeSteps. After an
// outage or a loss, no session counts as dead before all sessions have had time to call the server. If the life of a
// session is too long because the server's clock was set back, the next step for that session shortens it.
func (s *session) lives(session string, l Loaded) time.Duration {
	if l.Life == 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		return max(s.spared-s.now(), 0)
	}
	if l.Life <= sessionTime {
		return l.Life
	}
	s.agents.mu.Lock()
	defer s.agents.mu.Unlock()
	s.agents.long[session] = struct{}{}
	return sessionTime
}

func (s *session) channels(sessions []string) (all []string) {
	for _, session := range sessions {
		all = append(all, s.store.keys.channel(session))
	}
	return all
}

// decoded returns a copy of the known state, or the initial state if none is known.
func (b *bucket) decoded() *state {
	if b.known == nil {
		return b.unknown()
	}
	s, err := decode(b.kept)
	if err != nil {
		return b.unknown() // cannot happen, because kept was decoded before
	}
	return &s
}

// unknown returns the initial state of a bucket. It includes the lateness of other buckets with the same hash, if that
// is known.
func (b *bucket) unknown() *state {
	s := &state{window: b.blank}
	b.late.expect(b.session.engineTime(b.session.now()), &s.window)
	return s
}

// outdated reports whether the server may have deleted the known state because its life has ended.
func (b *bucket) outdated(now time.Duration) bool {
	return now-b.knownAt >= knowledge && now >= b.knownUntil
}

// rest returns how long the server has to store the state at least, in case no session reports the outcomes of the
// requests in flight.
func (s *state) rest(now time.Duration) time.Duration {
	rest := max(s.window.Reset()-now, 0)
	if len(s.flights) > 0 {
		rest = max(rest, s.window.Period())
	}
	return rest
}

// takeOver ends the loan of a dead session. It holds the bucket for a whole period, because the latest requests of that
// session are not known.
func (s *state) takeOver(now time.Duration) {
	s.bury(now, s.owner)
	s.owner = ""
	period := s.window.Period()
	if period == 0 && !s.window.Unlimited() { // the period is not known, so assume the longest possible one
		period = longestLoanPeriod
	}
	s.window.HoldFor(now, max(period, s.window.Reset()-now), ratelimits.ClassOK)
}

// reconcile enters the waiting requests, the requests in flight and the outcomes of this session into the state. It
// reports whether this changed the state.
func (b *bucket) reconcile(s *state, early time.Duration) (news bool) {
	mine := b.session.id
	for _, r := range b.sentRequests() {
		if s.flight(mine, r.number) >= 0 {
			continue
		}
		s.member(mine)
		s.flights = append(s.flights, flight{mine, r.number, s.window.Adopt(early, b.session.sentTime(r.at))})
		news = true
	}
	for i := range b.ended {
		o := &b.ended[i]
		news = true
		if permit, ok := s.land(mine, o.number); ok {
			b.session.report(&s.window, early, permit.SentAt(b.session.sentTime(o.sent)), o)
		}
	}
	for _, f := range slices.Clone(s.flights) {
		if f.session == mine && !b.alive(f.number) { // the request has left the queue, and will not be sent
			permit, _ := s.land(mine, f.number)
			s.window.Return(early, permit)
			news = true
		}
	}
	return b.enqueue(s) || news
}

// enqueue adds the first waiting requests of this session to the queue, as many as may be served until the next call.
func (b *bucket) enqueue(s *state) (news bool) {
	mine, most := b.session.id, min(max(2*s.window.Limit()+8, 16), mostPlaces)
	low, high := b.session.offset()
	var places, before []place
	for _, p := range s.queue {
		if p.session == mine {
			before = append(before, p)
		}
	}
	for _, w := range b.waiters[:min(len(b.waiters), most)] {
		if s.flight(mine, w.number) < 0 { // otherwise the request has a permit, but the reply was lost
			places = append(places, place{mine, w.number, (w.arrived + (low+high)/2).Truncate(time.Microsecond)})
		}
	}
	sameRequest := func(x, y place) bool { return x.number == y.number }
	said := len(before) <= len(places) && slices.EqualFunc(before, places[:len(before)], sameRequest)
	if said && (len(before) == len(places) || len(before) > most/2) { // the queue already has enough places
		return false
	}
	s.member(mine)
	s.enqueue(mine, places)
	return true
}

// report records an outcome in a window. It also records the time at which the response was received, because the
// response says nothing about requests that were sent later.
func (s *session) report(w *ratelimits.Window, now time.Duration, p ratelimits.Permit, o *outcome) {
	r := &o.response
	switch {
	case o.unsent:
		w.Return(now, p)
		return
	case !w.Known() && !r.Limited && r.Class == ratelimits.ClassOK &&
		r.Status > 0 && r.Status < http.StatusInternalServerError:
		w.Unlimit()
	}
	w.ReportReceived(now, s.engineLatest(o.at), p, *r)
}

// hearers returns the sessions to which the new state is sent by message.
func (b *bucket) hearers(q *turn) []string {
	told := map[string]bool{}
	for _, p := range q.granted {
		told[p.session] = true
	}
	// Sessions with requests in flight will report outcomes. Because they get the latest state, they need not load it
	// first.
	for _, f := range q.next.flights {
		told[f.session] = told[f.session] || len(told) < mostTold
	}
	for _, p := range q.next.queue {
		told[p.session] = told[p.session] || len(told) < mostTold
	}
	maps.DeleteFunc(told, func(_ string, tell bool) bool { return !tell })
	for session := range b.wantedBy {
		told[session] = true
	}
	delete(told, b.session.id)
	return slices.Sorted(maps.Keys(told))
}
