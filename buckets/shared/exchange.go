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
	// loanBias is how long no other session may have used a bucket before the bucket is lent.
	loanBias = time.Second
	// longestLoanPeriod is the longest period of a lent bucket, because the next session waits a period if the session
	// with the loan dies.
	longestLoanPeriod = 10 * time.Second
	// settleTime is how long after an outage or a loss all sessions know of it. Until then they may send unreported
	// requests.
	settleTime = 1200 * time.Millisecond
	// mostTold bounds how many sessions receive a new state by message though it grants them nothing.
	mostTold = 8
	// keyTime is how long the server stores a bucket that no session uses.
	keyTime = 10 * time.Minute
	// knowledge is how long the server certainly stores an unused value: keyTime minus a reserve of a minute.
	knowledge = 9 * time.Minute
)

// turn is one call, which replaces the known state by the next one. If there is nothing to report, it only loads the
// state; if the bucket is lent to another session, it also asks for the loan.
type turn struct {
	number    uint64
	at        time.Duration // lower bound of the server's time
	low, high time.Duration // bounds of the server's time minus ours
	expected  version       // version of the known state
	next      *state
	kept      string   // the next state, as the server stores it; "" if the call only loads
	ended     []uint64 // numbers of the requests whose outcomes the call reports
	hold      time.Duration
	returned  *returned
	granted   []place
	lends     bool     // whether the call lends the bucket to this session
	silent    []string // sessions that may be dead; the call loads whether they are alive
	told      []string // sessions that receive the new state by message
	owner     string   // session with the loan that the call asks for
	steps     []Step   // for the bucket, the silent sessions, and the want if another session has a loan
}

// compose returns the next call, nil if no call is needed. b.mu must be held.
func (b *bucket) compose(now time.Duration) *turn {
	mine := b.session.id
	era := b.session.eraNumber() // read before the clock: if the era ends in between, the call has no effect
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
	case s.owner == mine: // the reply that granted the loan was lost
		s.owner, news = "", true
	}
	if s.owner != "" && !slices.Contains(b.dead, s.owner) {
		q.owner, q.silent, q.lends = s.owner, []string{s.owner}, false
		return b.look(q, b.inUse() || b.hold > now || b.recalls != nil)
	}
	if b.looks > 0 && b.known == nil && b.lentTill > now { // the server no longer knows the loan, so wait for its end
		s.window.HoldFor(early, b.lentTill-now, ratelimits.ClassOK)
	}
	if b.recalls != nil {
		s.recall(early, b.recalls.window, b.recalls.until-now)
		news = true
	}
	news = b.reconcile(s, early) || news
	if s.owner != "" { // the period to wait for may be known by now
		s.takeOver(early)
	}
	if rest := b.hold - now; rest > 0 {
		s.window.HoldFor(early, rest, b.class)
		news = true
	}
	if q.lends = !b.closed && s.lendable(early, mine); q.lends {
		s.owner, s.queue, news = mine, nil, true
	} else if q.granted = s.serve(early); len(q.granted) > 0 {
		news = news || !b.asks // without news, another session has probably served the queue already
	}
	if !news {
		q.granted = nil
		return b.look(q, false)
	}
	m := s.member(mine)
	m.waiting = b.queued()
	m.seen -= sessionTime - b.session.lifetime() // a closing session counts as dead earlier
	s.version.number++
	q.kept = s.encode()
	q.told = b.hearers(q)
	q.steps = append([]Step{{
		Key: b.key, Version: q.expected.String(), Value: q.kept, Life: keyTime + s.rest(early),
		Channels: b.session.channels(q.told), Message: "state " + withName(b.name),
	}}, b.session.lifeSteps(q.silent)...)
	return q
}

// look returns a call that only loads the state, nil if that is not needed. If needed is set, the call also asks for
// the loan of q.owner.
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

// lifeSteps returns steps that load how much longer sessions count as alive.
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

// lives returns how much longer a session counts as alive, from the result of its step in lifeSteps. After an outage or
// a loss, no session counts as dead before all have had time to call. If a life is too long because the server's clock
// was set back, the next step corrects it.
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
		return b.unknown() // cannot happen: kept was decoded before
	}
	return &s
}

// unknown returns the initial state of a bucket, with the lateness of its hash if that is known.
func (b *bucket) unknown() *state {
	s := &state{window: b.blank}
	b.late.expect(b.session.engineTime(b.session.now()), &s.window)
	return s
}

// outdated reports whether the known state may have expired on the server.
func (b *bucket) outdated(now time.Duration) bool {
	return now-b.knownAt >= knowledge && now >= b.knownUntil
}

// rest returns for how long the state is needed at least, even if no outcome of the requests in flight is reported.
func (s *state) rest(now time.Duration) time.Duration {
	rest := max(s.window.Reset()-now, 0)
	if len(s.flights) > 0 {
		rest = max(rest, s.window.Period())
	}
	return rest
}

// takeOver ends the loan of a dead session. The latest requests of that session are not known, so the bucket is held
// for a whole period.
func (s *state) takeOver(now time.Duration) {
	s.bury(now, s.owner)
	s.owner = ""
	period := s.window.Period()
	if period == 0 && !s.window.Unlimited() { // assume the longest possible
		period = longestLoanPeriod
	}
	s.window.HoldFor(now, max(period, s.window.Reset()-now), ratelimits.ClassOK)
}

// reconcile corrects the requests of this session in the state, and reports whether anything differed.
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
		if f.session == mine && !b.alive(f.number) { // the request left the queue and was never sent
			permit, _ := s.land(mine, f.number)
			s.window.Return(early, permit)
			news = true
		}
	}
	return b.enqueue(s) || news
}

// enqueue adds the first waiters of this session to the queue: enough of them to last until the next call.
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
		if s.flight(mine, w.number) < 0 { // otherwise the request has a permit, and the reply was lost
			places = append(places, place{mine, w.number, (w.arrived + (low+high)/2).Truncate(time.Microsecond)})
		}
	}
	sameRequest := func(x, y place) bool { return x.number == y.number }
	said := len(before) <= len(places) && slices.EqualFunc(before, places[:len(before)], sameRequest)
	if said && (len(before) == len(places) || len(before) > most/2) { // the queue has enough of the places already
		return false
	}
	s.member(mine)
	s.enqueue(mine, places)
	return true
}

// report records an outcome in a window. A response that was received some time ago says nothing about later requests.
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

// hearers returns the sessions that receive the new state by message.
func (b *bucket) hearers(q *turn) []string {
	told := map[string]bool{}
	for _, p := range q.granted {
		told[p.session] = true
	}
	// A session that has the latest state can report news without loading the state first.
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
