package shared

import (
	"errors"
	"maps"
	"slices"
	"time"
)

// lookAround is how often a session with a sufficient part asks whether the other users of the limit are alive.
const lookAround = 10 * time.Second

// part is a call for a global limit. It replaces the known division by the next one, or only loads the division.
type part struct {
	introduces bool // whether the call only measures the server's clock and loads the division
	leaving    bool
	expected   version   // of the known division
	next       *division // nil: the call only loads
	step       Step
	silent     []string // sessions about which the call asks whether they are alive
}

// once makes one call, and returns the wait until the next call.
func (g *global) once() time.Duration {
	g.session.awake()
	return g.speak(g.session.exchange)
}

// speak makes one call, and returns the wait until the next call.
func (g *global) speak(exchange exchange) time.Duration {
	g.mu.Lock()
	if !g.inUse {
		g.mu.Unlock()
		return never
	}
	era := g.session.eraNumber() // first, because if the era ends before the clock is read, the call has no effect
	q := g.compose(era)
	if wait := g.spare(q); wait > 0 {
		g.mu.Unlock()
		return wait
	}
	g.fresh = false
	g.mu.Unlock()
	purpose := "part"
	if q.introduces {
		purpose = "beat"
	}
	r, err := exchange(purpose, era, append([]Step{q.step}, g.session.lifeSteps(q.silent)...)...)
	g.mu.Lock()
	wait := g.heard(q, &r, err)
	changed := g.changed
	// A call that introduces says nothing about the part, unless the session had a part before. But it may tell of a hold.
	tells := err != nil || !q.introduces || g.part > 0 || g.hold.Wait(g.session.now()) > 0
	g.mu.Unlock()
	if changed != nil && tells {
		// After changed has returned, no request uses the old part, so a smaller part may be reported to the server.
		changed()
	}
	return wait
}

// spare returns the wait until the next call if q is not needed: it reports no news, and the division was loaded just
// now. Otherwise spare returns 0. g.mu must be held.
func (g *global) spare(q *part) (wait time.Duration) {
	now := g.session.now()
	if !g.fresh || q.introduces || q.leaving || q.next != nil {
		return 0
	}
	if wait = g.rest(now); g.limit > 0 {
		wait = min(wait, g.at+beatPeriod-now)
	}
	return max(wait, 0)
}

// cooling is how long a request may count against the limit after it was sent.
func (g *global) cooling() time.Duration { return globalPeriod + g.session.store.options.trip }

// compose returns the next call. g.mu must be held.
func (g *global) compose(era int64) *part {
	s := g.session
	now := s.now()
	early, late := s.engineTime(now), s.engineLatest(now)
	g.lapse(now)
	if now-g.knownAt >= knowledge { // the server may have deleted the division
		g.known, g.cell.value, g.lost = nil, "", false
	}
	q := &part{expected: g.cell.version(), step: Step{Key: g.cell.key}}
	if era == 0 || !s.knowsEngine() {
		q.introduces = true
		return q
	}
	g.asks = false
	idle := g.limit > 0 && g.demand.need(now) == 0 && now-g.demand.last >= globalIdle && g.hold.Wait(now) == 0
	q.leaving = g.changed == nil || idle
	d, news := g.current(era, now, early, late)
	news = news || g.fades
	d.lapse(early)
	for _, session := range g.dead {
		if d.Users[session] != nil {
			d.remove(session, late+g.cooling())
			news = true
		}
	}
	u := d.Users[s.id]
	switch {
	case q.leaving:
		if u != nil {
			u.Part = max(u.Part, g.part)
			d.remove(s.id, late+g.cooling())
			news = true
		}
		g.part, g.until = 0, 0 // even if the reply is lost, other sessions may have the part
	case u == nil:
		u, news = &share{}, true
		d.Users[s.id] = u
		if d.Claims > early {
			d.claim(u, g.part)
		}
	case g.limit > 0 && g.at < s.aliveSince(): // other sessions may be about to remove this user, so replace the value
		news = true
	}
	if !q.leaving {
		news = g.report(d, u, now, early, late) || news
	}
	extended := g.tell && late+g.hold.Wait(now) > d.Hold+stepSlack
	if g.tell = extended; extended {
		d.Hold, news = late+g.hold.Wait(now), true
	}
	if !q.leaving && (u.Need > u.Part || now-g.lookedAt >= lookAround) {
		g.lookedAt = now
		for _, session := range slices.Sorted(maps.Keys(d.Users)) {
			if session != s.id && d.Users[session].Limit > 0 && len(q.silent) < most {
				q.silent = append(q.silent, session)
			}
		}
	}
	if !news || q.leaving && g.known == nil && !g.lost {
		return q
	}
	p := d.share(early)
	q.next, q.step = d, g.cell.replace(d, keyTime+max(d.Hold-early, 0))
	q.step.Channels, q.step.Message = s.channels(g.hearers(d, p, extended)), "global "+g.credential+" "
	return q
}

// mostHearers bounds how many sessions receive a message with a division to which they need not react.
const mostHearers = 8

// hearers returns the sessions to which the division is sent by message. If a hold was extended, these are all other
// sessions. Otherwise they are the sessions that have to give a surplus back, those that got a larger part, and some of
// those that may write the next division.
func (g *global) hearers(d *division, p plan, extended bool) (all []string) {
	for _, session := range slices.Sorted(maps.Keys(d.Users)) {
		u := d.Users[session]
		returns := u.Limit > 0 && d.target(u, p) < u.Part
		if session != g.session.id && (extended || returns || u.grown || len(all) < mostHearers) {
			all = append(all, session)
		}
	}
	return all
}

// current returns a copy of the known division, or a new division if the server has none in this era. news reports
// whether the result differs from the division on the server. After a loss, current lets all users report their parts
// before free amounts are divided. g.mu must be held.
func (g *global) current(era int64, now, early, late time.Duration) (d *division, news bool) {
	if g.known != nil && g.known.Era != era {
		g.miss(now)
	}
	if news = g.known == nil || g.known.Era != era; news {
		d = &division{Era: era, Born: late, Users: map[string]*share{}}
	} else {
		d, _ = decodeDivision(g.cell.value) // cannot fail, because it was decoded before
	}
	forgotten := sessionTime + g.cooling()
	till := d.Born + forgotten
	if g.alone || g.failing && now-g.at >= forgotten { // other sessions have no parts, or will report them soon
		till = min(till, late+g.session.returning())
	}
	if g.lost && d.Claims <= early && till > early {
		d.letClaim(g.limit, till)
		news = true
	}
	return d, news
}

// miss records that the server has lost the known division. g.mu must be held.
func (g *global) miss(now time.Duration) {
	g.lost, g.tell = true, g.hold.Wait(now) > 0
}

// report enters the session's need, limit and part into the division, and lets the part grow if amounts are free. It
// reports whether the server has to learn of a change. g.mu must be held.
func (g *global) report(d *division, u *share, now, early, late time.Duration) (news bool) {
	was := *u
	switch {
	case g.lowered && g.part < u.Part:
		d.cool(u.Part-g.part, late+g.cooling())
		u.Part = g.part
	case g.alone && g.part > u.Part:
		if d.Claims <= early {
			d.letClaim(g.limit, late+g.session.returning())
		}
		d.claim(u, g.part)
	}
	u.Limit, u.Need = g.limit, g.demand.tell(now, u.Part, g.limit)
	if g.limit == 0 {
		if u.Till < early+2*listenPeriod {
			u.Till = early + 4*listenPeriod
		}
		return u.Limit != was.Limit || u.Till != was.Till
	}
	d.grow(u, early)
	return u.Limit != was.Limit || u.Need != was.Need || u.Part != was.Part
}

// heard records the result of a call, and returns the wait until the next call. g.mu must be held.
func (g *global) heard(q *part, r *reply, err error) (wait time.Duration) {
	now := g.session.now()
	if err != nil {
		return g.failed(now, q.leaving, err)
	}
	g.err = nil
	g.courtesy = min(2*(r.received-r.sent), beatPeriod)
	if r.anew {
		return 0
	}
	main := r.values[0]
	shown := main.Value
	is, _ := parseVersion(versionOf(main.Value))
	switch {
	case main.Replaced || g.cell.version() == q.expected:
	case g.newer(is): // a message with a newer division arrived before the reply
		main.Value = g.cell.value
	case is.life != g.cell.version().life:
		return 0
	}
	switch {
	case main.Replaced:
		g.lowered, g.alone, g.lost, g.fades = false, false, false, false
		if is, _ := parseVersion(versionOf(q.step.Value)); !g.newer(is) {
			g.know(q.next, q.step.Value, r.received)
		}
		if q.leaving {
			return g.left()
		}
		g.confirm(r.sent)
	case main.Value == "":
		if g.known != nil {
			g.miss(now)
			g.session.lost()
		}
		g.known, g.cell.value = nil, ""
		if q.leaving && !g.lost {
			return g.left()
		}
		return 0
	case main.Value == g.cell.value && q.next == nil:
		g.knownAt, g.fades = r.received, main.Life < keyTime/2
		if q.leaving {
			return g.left()
		}
	default:
		if err := g.learn(main.Value, r.received); err != nil {
			g.err = g.session.wrongKey(g.cell.key, err.Error())
			return beatPeriod
		}
		switch u := g.known.Users[g.session.id]; {
		case q.leaving && u == nil:
			return g.left()
		case g.lost, g.session.eraOver():
			return 0
		case u == nil, q.leaving:
			return 0 // another session was faster
		}
	}
	if !main.Replaced {
		if g.limit > 0 && g.at < g.session.aliveSince() { // other sessions may be about to remove this user
			return 0
		}
		g.confirm(r.sent)
	}
	g.looked(q, r, shown)
	if q.introduces || !main.Replaced && q.next != nil { // before the call, the clock or the division was not known
		g.fresh = true
		return 0
	}
	return g.rest(now)
}

// looked records which other users are dead. It does this only if the call showed the division that is known now,
// because a dead user that became alive again would have replaced that division.
func (g *global) looked(q *part, r *reply, shown string) {
	g.nextEnd = forever
	if r.values[0].Replaced {
		shown = q.step.Value
	}
	for i, session := range q.silent {
		end := r.received + g.session.lives(session, r.values[1+i])
		g.nextEnd = min(g.nextEnd, end)
		if end <= r.received && shown == g.cell.value && g.known.Users[session] != nil {
			g.dead = append(g.dead, session)
		}
	}
}

// learn records a division that another session has written. If the division shows that the server has lost state,
// learn records the loss as well.
func (g *global) learn(value string, now time.Duration) error {
	d, err := decodeDivision(value)
	if err != nil {
		return err
	}
	was := g.cell.version()
	is, _ := parseVersion(versionOf(value))
	sameEra := g.known != nil && d.Era == g.known.Era && d.Era == g.session.eraNumber()
	lost := sameEra && (is.life != was.life || is.number < was.number)
	if lost {
		g.miss(now)
		g.session.lost()
	}
	if lost && is.life == was.life { // no process writes an older division, so the server went back
		g.session.endEra()
		g.known, g.cell.value = d, value
		return nil
	}
	g.know(d, value, now)
	return nil
}

// know records the division that the server has, and takes this session's part and the hold from it.
func (g *global) know(d *division, value string, now time.Duration) {
	if g.known != nil && g.known.Era != d.Era {
		g.miss(now)
	}
	g.known, g.cell.value, g.knownAt, g.dead = d, value, now, nil
	g.users.Store(int64(len(d.sharing())))
	if d.Era != g.session.eraNumber() {
		return // the times in the division are by another clock
	}
	early := g.session.engineTime(now)
	if rest := d.Hold - early; rest > 0 {
		g.hold.Extend(now, rest)
	}
	if g.hold.Wait(now) <= max(d.Hold-early, 0)+stepSlack {
		g.tell = false
	}
	g.comes = 0
	u := d.Users[g.session.id]
	if u == nil || u.Limit == 0 {
		return
	}
	u.Need = max(u.Need, min(g.demand.need(now), g.limit))
	p := d.plan(early)
	if u.short() > 0 && u.Part == 0 {
		at, ok := d.nextFree(early, p)
		if !ok {
			at = early + g.cooling()
		}
		g.comes = now + max(at-early, time.Millisecond)
	}
	g.lowered = g.lowered && g.part < u.Part
	switch target := d.target(u, p); {
	case target < g.part:
		g.part, g.lowered = target, true
	case !g.lowered && now < g.until: // another session has given a larger part to this one
		g.part = target
	}
}

// confirm records that the server had the known division, with this session's part, at the start of a call.
func (g *global) confirm(sent time.Duration) {
	u := g.known.Users[g.session.id]
	if u == nil || g.known.Era != g.session.eraNumber() {
		return
	}
	g.at, g.until, g.failing = sent, sent+partTime, false
	if g.lowered = g.lowered && g.part < u.Part; !g.lowered {
		g.part = u.Part
		if target := g.known.target(u, g.known.plan(g.session.engineTime(sent))); target < u.Part {
			g.part, g.lowered = target, true
		}
	}
}

// rest returns the wait until the next call. g.mu must be held.
func (g *global) rest(now time.Duration) (wait time.Duration) {
	d, u := g.known, g.known.Users[g.session.id]
	switch {
	case g.tell || len(g.dead) > 0:
		return 0
	case g.lowered:
		return g.courtesy
	case g.limit == 0 && g.session.store.subscriber != nil && g.hold.Wait(now) == 0:
		return listenPeriod
	case u == nil:
		return beatPeriod
	}
	early := g.session.engineTime(now)
	wait = beatPeriod
	if u.Need > u.Part {
		wait = min(wait, g.nextEnd-now+time.Millisecond)
	}
	if p := d.plan(early); u.short() > 0 {
		if p.needy > p.coming {
			wait = 250 * time.Millisecond
		}
		if at, ok := d.nextFree(early, p); ok {
			wait = min(wait, at-early)
		}
	}
	return max(wait, 10*time.Millisecond)
}

// newer reports whether the known division is newer than a version, because a message arrived before the reply.
func (g *global) newer(than version) bool {
	known := g.cell.version()
	return known.life == than.life && known.number > than.number
}

// told records a division that another session has sent by message.
func (g *global) told(value string) {
	naps := g.session.awake()
	g.mu.Lock()
	now := g.session.now()
	g.wake(naps, now)
	g.lapse(now)
	d, err := decodeDivision(value)
	is, _ := parseVersion(versionOf(value))
	was := g.cell.version()
	news := g.inUse && err == nil && d.Era == g.session.eraNumber() &&
		(g.known == nil || is.life == was.life && is.number > was.number)
	if news {
		g.know(d, value, now)
		g.fresh = true
		switch {
		case d.Users[g.session.id] == nil:
			g.calls.call()
		case g.lowered:
			g.calls.within(g.courtesy)
		}
	}
	changed := g.changed
	g.mu.Unlock()
	if news && changed != nil {
		changed()
	}
}

// failed records that a call failed, and returns the wait until the next call. g.mu must be held.
func (g *global) failed(now time.Duration, leaving bool, err error) (wait time.Duration) {
	var outage *OutageError
	var key *KeyError
	g.failing = true
	switch {
	case errors.Is(err, ErrClosed):
		return never
	case errors.Is(err, errTooLate):
		return time.Millisecond
	case errors.As(err, &key):
		g.err = err
	case !errors.As(err, &outage):
		return firstRepeat
	}
	if leaving && now >= g.at+sessionTime+g.cooling() { // other sessions already have the part, so no call is needed
		return g.left()
	}
	return beatPeriod // after the next call, the manager checks whether requests have waited too long
}

// left records that the session uses no part. No further call is made, unless a request has needed a part since the
// last call started. g.mu must be held.
func (g *global) left() time.Duration {
	g.part, g.until, g.at, g.comes, g.demand.told, g.lowered, g.err = 0, 0, 0, 0, 0, false, nil
	g.inUse = g.calls.again && g.changed != nil
	if g.changed == nil {
		g.forget()
	}
	return never
}

// last gives the part back when the session ends.
func (g *global) last() {
	g.mu.Lock()
	g.calls.stop()
	g.changed = nil
	g.inUse = g.inUse && !g.out
	g.mu.Unlock()
	g.session.speakLast(g.speak)
}
