package buckets

import (
	"math"
	"time"

	"github.com/ratelight/ratelight/internal/fifo"
)

// ahead is how many leave before somebody: of the same queue, and of the whole bucket.
type ahead struct{ own, all int }

// ahead returns how many leave before an ask at its place, if groups take turns.
func (qs *queues) ahead(a *ask, arrived time.Duration) ahead {
	if qs == nil {
		return ahead{}
	}
	own := 0
	if q := qs.find(a); q != nil {
		own = q.waiting.Before(arrived)
	}
	return qs.aheadOf(a, arrived, own)
}

// aheadOf is ahead for an ask with so many before it in its own queue. Those whom a sub-limit or a declared limit holds are before nobody
// else. A group may have many queues, so of those in which nobody has looked it is assumed that they have filled at the same pace.
func (qs *queues) aheadOf(a *ask, arrived time.Duration, own int) ahead {
	n, group := own, qs.groupOf(a.group)
	q, plain, rest := qs.find(a), qs.ofKey(queueKey{group: a.group}), group.waiting
	if q != nil {
		rest -= q.free
	}
	if plain != nil && plain != q {
		n += plain.waiting.Before(arrived)
		rest -= plain.free
	}
	switch {
	case q != nil && own < q.waiting.Len():
		n += rest * own / q.waiting.Len()
	case !a.priority:
		n += rest
	}
	others, ok := qs.ready.Ahead(a.group, n, (*queue).wantedInLine)
	if !ok {
		others = (n/max(int(a.weight), 1) + 1) * (qs.weights - group.weight)
	}
	return ahead{own, n + min(others, qs.free-group.waiting)}
}

func (qs *queues) groupOf(name string) groupCount {
	if name == "" {
		return qs.unnamed
	}
	return qs.named[name]
}

// count takes in that so many more wait in a queue.
func (qs *queues) count(q *queue, n int) {
	qs.waiting += n
	qs.recount(q)
}

// recount takes in that other ones of a queue than before are free.
func (qs *queues) recount(q *queue) {
	free := 0
	if !q.subLimit && (q.line == nil || !q.line.above.declared()) {
		free = q.waiting.Len()
	}
	if free == q.free {
		return
	}
	group := qs.groupOf(q.key.group)
	qs.free += free - q.free
	qs.weights -= group.weight
	group.waiting += free - q.free
	if group.weight = q.weight; group.waiting == 0 {
		group.weight = 0
	}
	qs.weights += group.weight
	q.free = free
	switch {
	case q.key.group == "":
		qs.unnamed = group
	case group.waiting == 0:
		delete(qs.named, q.key.group)
	default:
		if qs.named == nil {
			qs.named = make(map[string]groupCount)
		}
		qs.named[q.key.group] = group
	}
}

// groupCount is those of a group whom neither a sub-limit nor a declared limit holds.
type groupCount struct{ waiting, weight int }

// before returns how many get a permit before an ask of a queue, nil if that does not exist, with so many ahead in it. The lock is held.
func (l *line) before(a *ask, q *queue, ahead int) int {
	group := a.group
	if q != nil {
		group = q.key.group // those of a sub-limit are in none
	}
	others, own := l.waiting, l.queues.Group(group)
	if q != nil && q.line == l && q.place.Queued() {
		others -= q.place.waiting
	} else {
		q = nil // it does not stand here
	}
	n := ahead // before it in its group
	switch {
	case own == nil:
	case l.above.declared():
		n += earlier(own, q, ahead)
	case q == nil:
		n += (ahead + 1) * own.Len()
	default:
		n += max(own.Before(q.place.Arrived)-1, 0) + ahead*(own.Len()-1) // it may have returned before all of them
	}
	of, ok := l.queues.Ahead(group, n, func(q *queue) int { return q.place.waiting })
	if !ok { // its group's turn is after those of all others
		of = (n/max(int(a.weight), 1) + 1) * l.queues.Weights()
	}
	return min(ahead+others, n+of)
}

// mostLookedAt bounds how many queues are looked at to count those ahead.
const mostLookedAt = 100

// earlier returns about how many arrived before the one with so many ahead in its queue, nil if that is not in line, in the other queues that
// are. If there are very many queues, the rest counts like those that were looked at.
func earlier(queues *fifo.Queue[*queue], q *queue, ahead int) (n int) {
	arrived := time.Duration(math.MaxInt64)
	if q != nil && ahead < q.place.waiting {
		arrived = q.place.arrival(ahead)
	}
	looked := 0
	for e := queues.Head(); e != nil && e.Value.place.first < arrived; e = e.Next() {
		if looked++; looked > mostLookedAt {
			return n * queues.Len() / mostLookedAt
		}
		if e.Value != q {
			n += e.Value.place.arrivedBefore(arrived)
		}
	}
	return n
}

// arrival returns about when the one with so many ahead of it arrived, as if all had come one after the other at the same pace.
func (p *place) arrival(ahead int) time.Duration {
	return p.first + time.Duration(float64(p.last-p.first)*float64(ahead)/float64(max(p.waiting-1, 1)))
}

// arrivedBefore returns about how many arrived before a time, which is later than that of the first.
func (p *place) arrivedBefore(at time.Duration) int {
	if at > p.last {
		return p.waiting
	}
	return 1 + int(float64(p.waiting-1)*float64(at-p.first)/float64(p.last-p.first))
}
