package buckets

import "time"

// Queues leave in the order of one rank, which is the same before all limits, so no two queues wait for each other. A
// queue gets a rank when its first request becomes the first, and keeps it until a request of it leaves: so whoever
// waits is first at some time.
//
// Tenants (Request.Group) take turns: the rank is the start of a turn in start-time fair queueing (Goyal, Vin, Cheng
// 1996). A tenant's next turn starts when its last one ends, but not before the latest start of a turn that was used.
// Queues without a tenant are those of one together, so buckets take turns, too.

// rank orders queues: the smallest leaves first. It is the start of a turn; the last bits tell queues apart whose turns
// start at the same time.
type rank = time.Duration

const (
	turn = rank(1) << 24 // more than there are queues
	// headStart is how much earlier a turn starts of a queue whose first request has priority: as many turns as begin
	// in HeadStart, if the global limit is the default.
	headStart = rank(DefaultGlobalLimit*HeadStart/time.Second) * turn
)

// turns are the turns of all tenants of a server. They begin anew when nobody waits any more.
type turns struct {
	latest  rank // no turn starts before it
	given   rank // how many ranks were given
	tenants map[tenantKey]*tenant
}

// tenant is what takes turns: the requests of an account that have the same group, or those of them that have priority.
type tenant struct {
	next   rank // when its next turn starts at the earliest
	queues int  // in which somebody waits
}

type tenantKey struct {
	account  *account
	group    string
	priority bool
}

// start returns when the next turn of a tenant starts, nil for one of which nothing is known.
func (t *turns) start(of *tenant) rank {
	if of == nil {
		return t.latest
	}
	return max(of.next, t.latest)
}

// take gives the next turn of a tenant to one of its queues.
func (t *turns) take(of *tenant) rank {
	start := t.start(of)
	of.next = start + turn
	t.given++
	return start + t.given%turn
}

// giveBack takes a turn back that was not used. The tenant's other turns stay where they are.
func (of *tenant) giveBack() { of.next -= turn }

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
func (s *server) forgetTenants() {
	for key, t := range inParts(s, s.turns.tenants) {
		if t.queues == 0 && t.next <= s.turns.latest {
			delete(s.turns.tenants, key)
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
	turns, k := &q.bucket.server().turns, &q.waiting.Head().Value.ask
	key := tenantKey{account: k.account, group: q.key.group}
	if q.tenant == nil {
		q.tenant = turns.tenant(key)
		q.tenant.queues++
		if q.limits = k.limits; !k.exempt {
			q.global = &k.account.globalLine
		}
		for l := range q.above {
			if l.needed == nil {
				l.needed = make(map[*queue]struct{})
			}
			l.needed[q] = struct{}{}
		}
	}
	if q.turn == 0 {
		q.turn = turns.take(q.tenant)
	}
	switch urgent := q.urgent(); {
	case !urgent:
		q.returnFirst()
	case q.first == 0:
		key.priority = true
		q.urgentTenant = turns.tenant(key)
		q.first = turns.take(q.urgentTenant) - headStart
	}
}

// spendRank ends the queue's rank, as a request of it leaves.
func (q *queue) spendRank() {
	turns, start := &q.bucket.server().turns, q.turn
	if q.first != 0 { // the others of the queue keep their turn
		start, q.first = q.first+headStart, 0
	} else {
		q.turn = 0
	}
	turns.latest = max(turns.latest, start&^(turn-1)+turn)
}

// earliest returns of all queues in line that have the tenant and the bucket of the first one, which is given, the one
// whose first request arrived first, and lets it have the rank of the first one: inside a bucket the order of a tenant's
// requests is that of their arrival, whatever else they need. Of very many queues it looks at the first ones only.
func (l *line) earliest(first *queue) *queue {
	if l.queues.Len() < 2 {
		return first
	}
	q, looked := first, 0
	for e := l.queues.Head().Next(); e != nil && looked < mostLookedAt; e = e.Next() {
		looked++
		if o := e.Value; o.bucket == first.bucket && o.tenant == first.tenant && o.waiting.Head().Arrived < q.waiting.Head().Arrived {
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

// returnFirst gives back the turn of a request with priority that is not the first any more, and has not left.
func (q *queue) returnFirst() {
	if q.first != 0 {
		q.urgentTenant.giveBack()
	}
	q.first, q.urgentTenant = 0, nil
}

// dropRank ends the queue's rank, as nobody waits in it any more.
func (q *queue) dropRank() {
	q.returnFirst()
	if q.tenant != nil {
		if q.turn != 0 { // nobody has left with it
			q.tenant.giveBack()
		}
		q.tenant.queues--
		for l := range q.above {
			if delete(l.needed, q); len(l.needed) == 0 {
				l.needed = nil // a map does not shrink
			}
		}
	}
	q.tenant, q.turn, q.limits, q.global = nil, 0, nil, nil
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
