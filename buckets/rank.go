package buckets

import "time"

// Queues are served in the order of their ranks. A queue has the same rank in all lines, so no two queues wait for each
// other. The rank is the instant at which the queue's first request became the first, or HeadStart before that instant
// if the request has priority. So when a request of a queue has left, the queue goes behind all others, and every queue
// comes first at some time.
//
// The global limit and the edge are above many buckets. There, a tenant (a Request.Group) that waits in many buckets
// would get many shares. So at these limits tenants take turns: a queue that joins such a line gets its tenant's next
// turn, by start-time fair queueing (Goyal, Vin, Cheng 1996). A turn starts when the tenant's previous turn ends, but
// not before the latest end of a used turn. All queues without a group count as one tenant.

// rank orders queues: the queue with the smallest rank sends first. Two queues have the same rank only if one of the
// queues has priority and the other does not.
type rank = time.Duration

// rank returns the rank of the queue, which must not be empty.
func (q *queue) rank() rank {
	if q.urgentRank != 0 {
		return q.urgentRank
	}
	return q.since
}

// rankNow returns the rank for a queue whose first request becomes the first now.
func (s *server) rankNow() rank {
	s.ranked = max(s.latest, s.ranked+1)
	return s.ranked
}

// takeRank gives the queue a rank if it has none, and an earlier one if its first request has priority. The queue must
// not be empty.
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
		q.urgentRank = 0
	case q.urgentRank == 0:
		q.urgentRank = s.rankNow() - HeadStart
	}
}

// spendRank ends the queue's rank and its turn because one of its requests leaves.
func (q *queue) spendRank() {
	if q.urgentRank != 0 {
		q.urgentRank = 0 // the requests behind it keep the queue's other rank
	} else {
		q.since = 0
	}
	q.place.turn.spend()
}

// dropRank ends the rank of a queue that has become empty.
func (q *queue) dropRank() {
	for l := range q.above {
		l.needNot(q)
	}
	q.place.turn.giveBack()
	q.since, q.urgentRank, q.limits, q.global = 0, 0, nil, nil
}

// above yields the lines of all limits above the bucket that the queue needs, except the line of the edge.
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

// need records that a queue needs the limit of a line. needNot removes that record.
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

// earliest returns the queue to serve in place of the first queue in line. Among the queues of the same tenant and
// bucket, it is the queue whose first request arrived first. This queue and the given queue exchange their places. So a
// tenant's requests leave a bucket in the order of their arrival, whatever other limits they need. If there are very
// many queues, earliest examines only some of them.
func (l *line) earliest(first *queue) *queue {
	if l.queues.Len() < 2 || first.urgentRank != 0 {
		return first
	}
	q, looked := first, 0
	for e := l.queues.Head().Next(); e != nil && looked < mostLookedAt; e = e.Next() {
		looked++
		o := e.Value
		if o.bucket == first.bucket && o.key.group == first.key.group && o.urgentRank == 0 &&
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

// turns holds the turns that tenants take in a line.
type turns struct {
	latest  rank // no turn starts earlier
	given   rank // how many turns were given
	tenants map[tenantKey]*tenant
}

// turn is one turn of a tenant. A queue keeps its turn, in any line, until one of its requests leaves. The zero value
// is no turn.
type turn struct {
	of       *turns // turns of the line where it counts
	tenant   *tenant
	start    rank // the turn's place in that line
	priority bool // the turn starts earlier, by headStart
}

const (
	turnTime = rank(1) << 24 // length of a turn; the low bits are a serial number, so that no two turns start together
	// headStart is how much earlier a turn with priority starts: by as many turns as the default global limit gives in
	// HeadStart.
	headStart = rank(DefaultGlobalLimit*HeadStart/time.Second) * turnTime
)

// tenant takes turns. It stands for the requests of an account that have the same group. Requests with priority are a
// separate tenant.
type tenant struct {
	next   rank // earliest start of its next turn
	queues int  // queues that need the limit
}

// tenantKey identifies a tenant of a line.
type tenantKey struct {
	account  *account // set only in a line for all accounts
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

// newcomer returns the time at which the turn of a new tenant without priority starts. A new tenant takes turns with
// the tenants in line that have no priority. So the new tenant's turn starts no later than the first turn of these
// tenants ends, even if used turns with priority have ended much later.
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

// start returns the time at which the tenant's next turn starts. newcomer is the start for a new tenant without
// priority.
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

// takeTurn makes u the next turn of a tenant in the line, unless u is a turn of that line already.
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

// end returns the time at which a turn ends, without the head start.
func (u *turn) end() rank {
	end := u.start&^(turnTime-1) + turnTime
	if u.priority {
		end += headStart
	}
	return end
}

// spend ends a turn in which a request left.
func (u *turn) spend() {
	if u.of != nil {
		u.of.latest = max(u.of.latest, u.end())
	}
	*u = turn{}
}

// giveBack ends a turn in which no request left. The tenant's other turns keep their starts.
func (u *turn) giveBack() {
	if u.of != nil {
		u.tenant.next -= turnTime
	}
	*u = turn{}
}

// tenant returns the tenant of a key, and creates it if there is none.
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

// forgetTenants removes tenants without queues whose next turn would start at the same time if the tenants were new.
func (l *line) forgetTenants() {
	for key, of := range inParts(l.server, l.turns.tenants) {
		if of.queues == 0 && of.next <= l.newcomer() {
			delete(l.turns.tenants, key)
		}
	}
}
