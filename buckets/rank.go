package buckets

import "time"

// Queues leave in the order of their ranks, which are the same before all limits, so no two queues wait for each other.
// The rank is since when the first request of a queue has been the first; one with priority counts as HeadStart
// earlier. So a queue goes behind all others when a request of it has left, and whoever waits is first at some time.
//
// The global limit and the edge are above many buckets, and tenants (Request.Group) that wait in many of them would
// have their share many times. So tenants take turns there: a queue that joins such a line gets its tenant's next turn,
// by start-time fair queueing (Goyal, Vin, Cheng 1996). A turn starts when the tenant's last one ends, but not before
// the end of the latest one that was used. Queues without a tenant are those of one together.

// rank orders queues: the smallest leaves first. No two are the same.
type rank = time.Duration

// rank returns the queue's, in which somebody waits.
func (q *queue) rank() rank {
	if q.first != 0 {
		return q.first
	}
	return q.since
}

// rankNow returns the rank of a queue whose first request becomes the first now.
func (s *server) rankNow() rank {
	s.ranked = max(s.latest, s.ranked+1)
	return s.ranked
}

// takeRank gives the queue a rank if it has none, or another one if its first request has priority.
func (q *queue) takeRank() {
	s, k := q.bucket.server(), &q.waiting.Head().Value.ask
	if q.since == 0 {
		q.since = s.rankNow()
	}
	if q.limits == nil && q.global == nil {
		if q.limits = k.limits; !k.exempt {
			q.global = &k.account.globalLine
		}
		for l := range q.above {
			l.need(q)
		}
	}
	switch urgent := q.urgent(); {
	case !urgent:
		q.first = 0
	case q.first == 0:
		q.first = s.rankNow() - HeadStart
	}
}

// spendRank ends the queue's rank, and its turn, as a request of it leaves.
func (q *queue) spendRank() {
	if q.first != 0 {
		q.first = 0 // the others of the queue keep their rank
	} else {
		q.since = 0
	}
	q.place.turn.spend()
}

// dropRank ends the queue's rank, as nobody waits in it any more.
func (q *queue) dropRank() {
	for l := range q.above {
		l.needNot(q)
	}
	q.place.turn.giveBack()
	q.since, q.first, q.limits, q.global = 0, 0, nil, nil
}

// above yields the lines of all limits above its bucket that the queue needs, but for the edge.
func (q *queue) above(yield func(*line) bool) {
	for _, d := range q.limits.all() {
		if !yield(&d.line) {
			return
		}
	}
	if q.global != nil {
		yield(q.global)
	}
}

// need records that a queue needs the limit of a line, and needNot that it does not any more.
func (l *line) need(q *queue) {
	if l.needed == nil {
		l.needed = make(map[*queue]struct{})
	}
	l.needed[q] = struct{}{}
	if l.turns != nil {
		l.turns.tenant(tenantKey{group: q.key.group}).queues++
	}
}

func (l *line) needNot(q *queue) {
	if delete(l.needed, q); len(l.needed) == 0 {
		l.needed = nil // a map does not shrink
	}
	if l.turns != nil {
		l.turns.tenant(tenantKey{group: q.key.group}).queues--
	}
}

// earliest returns of all queues in line that have the tenant and the bucket of the first one, which is given, the one
// whose first request arrived first, and lets it have the place of the first one: inside a bucket the order of a
// tenant's requests is that of their arrival, whatever else they need. Of very many queues it looks at the first ones
// only.
func (l *line) earliest(first *queue) *queue {
	if l.queues.Len() < 2 || first.first != 0 {
		return first
	}
	q, looked := first, 0
	for e := l.queues.Head().Next(); e != nil && looked < mostLookedAt; e = e.Next() {
		looked++
		o := e.Value
		if o.bucket == first.bucket && o.key.group == first.key.group && o.first == 0 &&
			o.waiting.Head().Arrived < q.waiting.Head().Arrived {
			q = o
		}
	}
	if q != first {
		q.since, first.since = first.since, q.since
		l.swap(q, first)
	}
	return q
}

// turns are the turns of tenants in a line.
type turns struct {
	latest  rank // no turn starts before it
	given   rank // how many turns were given
	tenants map[tenantKey]*tenant
}

// turn is one turn of a tenant. A queue keeps it, wherever it stands, until a request leaves. The zero value is none.
type turn struct {
	of       *turns // of the line where it counts
	tenant   *tenant
	start    rank // the place there
	priority bool // it starts earlier, by headStart
}

const (
	turnTime = rank(1) << 24 // how long one takes: more than there are queues
	// headStart is how much earlier a turn with priority starts: as many turns as begin in HeadStart, if the global
	// limit is the default.
	headStart = rank(DefaultGlobalLimit*HeadStart/time.Second) * turnTime
)

// tenant is what takes turns: the requests of an account that have the same group, or those of them that have priority.
type tenant struct {
	next   rank // when its next turn starts at the earliest
	queues int  // that need the limit
}

// tenantKey identifies a tenant of a line.
type tenantKey struct {
	account  *account // in a line of all accounts
	group    string
	priority bool
}

func (l *line) tenantKey(k *ask) tenantKey {
	key := tenantKey{group: k.group, priority: k.priority}
	if l.account == nil {
		key.account = k.account
	}
	return key
}

// newcomer returns when the turn of a new tenant without priority starts. Turns with priority that were used may have
// ended long after the first of the others in line, and a new tenant takes turns with those.
func (l *line) newcomer() rank {
	looked := 0
	for e := l.queues.Head(); e != nil && looked < mostLookedAt; e = e.Next() {
		looked++
		if u := &e.Value.place.turn; !u.priority {
			return min(l.turns.latest, u.end())
		}
	}
	return l.turns.latest
}

// start returns when the next turn of a tenant starts, if that of a new one without priority starts when newcomer says.
func (t *turns) start(key tenantKey, newcomer rank) (start rank) {
	if start = newcomer; key.priority {
		start = t.latest
	}
	if t.tenants[key] != nil {
		start = max(start, t.tenants[key].next)
	}
	if key.priority {
		start -= headStart
	}
	return start
}

// takeTurn gives a tenant its next turn, unless it has one here.
func (l *line) takeTurn(u *turn, key tenantKey) {
	t := l.turns
	if u.of == t && u.priority == key.priority {
		return
	}
	u.giveBack()
	t.given++
	*u = turn{t, t.tenant(key), t.start(key, l.newcomer()) + t.given%turnTime, key.priority}
	u.tenant.next = u.end()
}

// end returns when a turn ends, without the head start.
func (u *turn) end() rank {
	end := u.start&^(turnTime-1) + turnTime
	if u.priority {
		end += headStart
	}
	return end
}

// spend ends a turn that was used.
func (u *turn) spend() {
	if u.of != nil {
		u.of.latest = max(u.of.latest, u.end())
	}
	*u = turn{}
}

// giveBack ends a turn that was not used. The tenant's other turns stay where they are.
func (u *turn) giveBack() {
	if u.of != nil {
		u.tenant.next -= turnTime
	}
	*u = turn{}
}

// tenant returns the tenant of a key, made if there is none.
func (t *turns) tenant(key tenantKey) *tenant {
	of := t.tenants[key]
	if of == nil {
		if t.tenants == nil {
			t.tenants = make(map[tenantKey]*tenant)
		}
		of = &tenant{}
		t.tenants[key] = of
	}
	return of
}

// forgetTenants forgets those whose next turn would start at the same time if they were not known.
func (l *line) forgetTenants() {
	for key, of := range inParts(l.server, l.turns.tenants) {
		if of.queues == 0 && of.next <= l.newcomer() {
			delete(l.turns.tenants, key)
		}
	}
}
