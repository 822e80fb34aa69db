package buckets

import "time"

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
