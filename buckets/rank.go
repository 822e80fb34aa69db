package buckets

import "time"

// Queues leave in the order of one rank, which is the same before all limits, so no two queues wait for each other. A
// queue gets a rank when its first request becomes the first, and keeps it until a request of it leaves: so whoever
// waits is first at some time.
//
// Tenants (Request.Group) take turns: the rank is the start of a turn in start-time fair queueing (Goyal, Vin, Cheng
// 1996). A tenant's next turn starts when its last one ends, but not before the latest start of a turn that was used.
// Queues without a tenant are those of one together, so buckets take turns, too.

// rank orders queues; the smallest leaves first. The last bits tell ranks apart that start at the same time.
type rank = time.Duration

const (
	turn = rank(1) << 24 // more than there are queues
	// headStart is how much earlier a turn starts of a queue whose first request has priority: as many turns as begin
	// in HeadStart, if the global limit is the default.
	headStart = rank(DefaultGlobalLimit*HeadStart/time.Second) * turn
)

// turns are the turns of all tenants of a server.
type turns struct {
	latest rank // the latest start of those that were used
	given  rank // how many ranks were given
}

// tenant is what takes turns: the requests of an account that have the same group, or those of it that have priority.
type tenant struct {
	next   rank // when its next turn starts at the earliest
	queues int  // in which somebody waits
}

// tenantKey identifies a tenant of an account.
type tenantKey struct {
	group    string
	priority bool
}

// nextTurn returns when a tenant's next turn starts; the tenant is nil if nothing of it waits.
func (s *server) nextTurn(t *tenant) rank {
	if t == nil {
		return s.turns.latest
	}
	return max(t.next, s.turns.latest)
}

// takeTurn gives the tenant's next turn to one of its queues.
func (s *server) takeTurn(t *tenant) rank {
	start := s.nextTurn(t)
	t.next = start + turn
	s.turns.given++
	return start + s.turns.given%turn
}

// tenant returns the tenant of a key, made if there is none.
func (a *account) tenant(key tenantKey) *tenant {
	t := a.tenants[key]
	if t == nil {
		if a.tenants == nil {
			a.tenants = make(map[tenantKey]*tenant)
		}
		t = &tenant{}
		a.tenants[key] = t
	}
	return t
}

// forgetTenants forgets those who would have their next turn at the same time if they were not known.
func (a *account) forgetTenants() {
	for key, t := range a.tenants {
		if t.queues == 0 && (t.next <= a.server.turns.latest || a.waiting == 0) {
			delete(a.tenants, key)
		}
	}
}

// rank returns the queue's, in which somebody waits.
func (q *queue) rank() rank {
	if q.first != 0 {
		return q.first
	}
	return q.turn
}

// takeRank gives the queue a rank if it has none, or another one if its first request has priority.
func (q *queue) takeRank() {
	s, k := q.bucket.server(), &q.waiting.Head().Value.ask
	a := k.account
	if q.tenant == nil {
		q.tenant = a.tenant(tenantKey{group: q.key.group})
		q.tenant.queues++
		if q.limits = k.limits; !k.exempt {
			q.global = &a.globalLine
		}
		for l := range q.above {
			l.needed[q] = struct{}{}
		}
	}
	if q.turn == 0 {
		q.turn = s.takeTurn(q.tenant)
	}
	switch urgent := q.urgent(); {
	case !urgent:
		q.first = 0
	case q.first == 0:
		q.first = s.takeTurn(a.tenant(tenantKey{q.key.group, true})) - headStart
	}
}

// spendRank ends the queue's rank, as a request of it leaves.
func (q *queue) spendRank() {
	s, start := q.bucket.server(), q.turn
	if q.first != 0 { // the others of the queue keep their turn
		start, q.first = q.first+headStart, 0
	} else {
		q.turn = 0
	}
	s.turns.latest = max(s.turns.latest, start&^(turn-1)+turn)
}

// earliest returns of all queues in line that have the tenant of the first one, which is given, the one whose first
// request arrived first, and lets it have the rank of the first one: inside a bucket the order of a tenant's requests is
// that of their arrival, whatever else they need. If there are very many queues it does not look at all.
func (l *line) earliest(first *queue) *queue {
	if l.queues.Len() < 2 {
		return first
	}
	q, looked := first, 0
	for e := l.queues.Head().Next(); e != nil && looked < mostLookedAt; e = e.Next() {
		looked++
		if o := e.Value; o.tenant == first.tenant && o.waiting.Head().Arrived < q.waiting.Head().Arrived {
			q = o
		}
	}
	if q != first && q.first == 0 && first.first == 0 {
		q.turn, first.turn = first.turn, q.turn
		l.remeasure(q)
		l.remeasure(first)
		return q
	}
	return first
}

// dropRank ends the queue's rank, as nobody waits in it any more.
func (q *queue) dropRank() {
	if q.tenant != nil {
		q.tenant.queues--
		for l := range q.above {
			delete(l.needed, q)
		}
	}
	q.tenant, q.turn, q.first, q.limits, q.global = nil, 0, 0, nil, nil
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
