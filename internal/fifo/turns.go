package fifo

import "time"

// Turns is what waits in groups that take turns: as many of a group are first as its weight says, then it is the next group's turn (weighted
// round robin). Inside a group the order is that of a Queue. A group that comes, or comes back, has its turn after all others; what has no
// group is one together. A group that runs out in the middle of its turn and comes back before the next one is served goes on with it.
// The zero value is ready for use. It is not safe for concurrent use.
type Turns[T any] struct {
	returned Queue[T] // those who come before all groups, as they had their turn already and could not use it
	urgent   Queue[T] // those who come before all that arrived later, whatever their groups
	unnamed  turn[T]
	named    map[string]*turn[T]
	current  *turn[T] // whose turn it is, nil if nothing waits; the others follow in a ring
	length   int
	weights  int // of all groups in the ring
	begun    int // how often a group began to wait for its turn

	// The group that has run out in the middle of its turn, how many may still go, and whose turn it is meanwhile.
	outOf     string
	left      int
	meanwhile *turn[T]
}

// turn is a group, which is in the ring while something of it waits.
type turn[T any] struct {
	queue          Queue[T]
	weight, left   int // how many may go at each turn, and how many of these are left
	began          int // when it began to wait for its turn, in turns: in the ring later for each
	next, previous *turn[T]
}

// Len returns the number of elements.
func (t *Turns[T]) Len() int { return t.length }

// Weights returns the sum of the weights of all groups that wait.
func (t *Turns[T]) Weights() int { return t.weights }

// Head returns the first element of the group whose turn it is, nil if there is none.
func (t *Turns[T]) Head() *Element[T] {
	if e := t.returned.Head(); e != nil {
		return e
	}
	e := t.urgent.Head()
	if t.current == nil {
		return e
	}
	if first := t.current.queue.Head(); e == nil || first.Arrived <= e.Arrived {
		return first
	}
	return e
}

// All yields all elements, those of the group first whose turn it is.
func (t *Turns[T]) All(yield func(T) bool) {
	for _, q := range []*Queue[T]{&t.returned, &t.urgent} {
		for e := q.Head(); e != nil; e = e.Next() {
			if !yield(e.Value) {
				return
			}
		}
	}
	for g := t.current; g != nil; {
		for e := g.queue.Head(); e != nil; e = e.Next() {
			if !yield(e.Value) {
				return
			}
		}
		if g = g.next; g == t.current {
			return
		}
	}
}

// mostLookedAt bounds how many other groups, and elements of them, are looked at to count those ahead.
const mostLookedAt = 100

// Ahead returns how many of other groups go before one of a group, with so many before it there. An element is for as many as size says, and
// goes again behind all others of its group until they have gone. If very many wait, others count as if they filled their turns. ok is
// false if nothing of the group waits.
func (t *Turns[T]) Ahead(group string, before int, size func(T) int) (n int, ok bool) {
	own := t.waiting(group)
	if own == nil {
		return 0, false
	}
	rounds := 0 // turns of the group that end before
	if before >= own.left {
		rounds = 1 + (before-own.left)/own.weight
	}
	looked, passed, groups, weights := 0, false, 0, t.weights-own.weight
	for g := t.current; ; {
		switch {
		case g == own:
			passed = true
		case passed:
			n += g.first(rounds*g.weight, size, &looked)
			weights -= g.weight
		default:
			n += g.first(g.left+rounds*g.weight, size, &looked)
			weights -= g.weight
		}
		if g = g.next; g == t.current {
			return n + t.returned.Len() + t.urgent.Len(), true
		}
		if groups++; groups == mostLookedAt {
			n += rounds * weights
			if !passed { // as if groups had come and gone evenly
				n += int(float64(weights) * float64(own.began-g.began) / float64(t.current.previous.began-g.began+1))
			}
			return n + t.returned.Len() + t.urgent.Len(), true
		}
	}
}

// first returns how many of the group are among its first most ones, and counts the elements that it has looked at.
func (g *turn[T]) first(most int, size func(T) int, looked *int) (n int) {
	for e := g.queue.Head(); e != nil && n < most; e = e.Next() {
		if *looked++; *looked > mostLookedAt {
			return most
		}
		n += size(e.Value)
	}
	return min(n, most)
}

// Group returns the queue of a group, nil if nothing of it waits.
func (t *Turns[T]) Group(group string) *Queue[T] {
	g := t.waiting(group)
	if g == nil {
		return nil
	}
	return &g.queue
}

// waiting returns a group, nil if nothing of it waits.
func (t *Turns[T]) waiting(group string) *turn[T] {
	g := &t.unnamed
	if group != "" {
		g = t.named[group]
	}
	if g == nil || g.next == nil {
		return nil
	}
	return g
}

// Spend says that the head is served.
func (t *Turns[T]) Spend() {
	if e := t.Head(); e != nil && (e.queue == &t.returned || e.queue == &t.urgent) {
		return
	}
	t.left = 0
	if g := t.current; g != nil {
		if g.left--; g.left <= 0 {
			g.left, t.current = g.weight, g.next
			t.begin(g)
		}
	}
}

// Insert lets e wait in a group, "" for none. A weight below 1 counts as 1; one that differs from before counts from the group's next turn on.
func (t *Turns[T]) Insert(e *Element[T], group string, weight int) {
	g := t.turn(group)
	weight = max(weight, 1)
	if g.next == nil {
		g.left = weight
		t.link(g)
		if t.left > 0 && t.outOf == group && g.next == t.meanwhile {
			t.current, g.left, g.began = g, min(t.left, weight), t.current.began-1
		}
	}
	t.weights += weight - g.weight
	g.weight = weight
	g.queue.Insert(e)
	t.length++
}

// Return lets e wait before all groups, which had its turn already and could not use it.
func (t *Turns[T]) Return(e *Element[T]) {
	t.returned.Insert(e)
	t.length++
}

// Urge lets e wait before all that arrived later, whatever their groups. It is in none, and takes no turn. Urged reports that it waits so.
func (t *Turns[T]) Urge(e *Element[T]) {
	t.urgent.Insert(e)
	t.length++
}

func (t *Turns[T]) Urged(e *Element[T]) bool { return e.queue == &t.urgent }

// Move lets e, which waits in the group, stand where one that arrived at the given time does. The group keeps its turn.
func (t *Turns[T]) Move(e *Element[T], arrived time.Duration, group string) {
	q := e.queue
	if q == nil {
		q = &t.turn(group).queue
	}
	q.Remove(e)
	e.Arrived = arrived
	q.Insert(e)
}

// Remove takes e out of its group, and reports whether it was there.
func (t *Turns[T]) Remove(e *Element[T], group string) bool {
	if !e.Queued() {
		return false
	}
	if t.returned.Remove(e) || t.urgent.Remove(e) {
		t.length--
		return true
	}
	g := t.turn(group)
	if !g.queue.Remove(e) {
		return false
	}
	t.length--
	if g.queue.Len() == 0 {
		if g == t.current && g.left < g.weight {
			t.outOf, t.left, t.meanwhile = group, g.left, g.next
		}
		t.unlink(g)
		delete(t.named, group)
	}
	return true
}

func (t *Turns[T]) turn(group string) *turn[T] {
	if group == "" {
		return &t.unnamed
	}
	g := t.named[group]
	if g == nil {
		if t.named == nil {
			t.named = make(map[string]*turn[T])
		}
		g = &turn[T]{}
		t.named[group] = g
	}
	return g
}

// link puts a group at the end of the ring.
func (t *Turns[T]) link(g *turn[T]) {
	t.begin(g)
	if t.current == nil {
		t.current, g.next, g.previous = g, g, g
		return
	}
	g.next, g.previous = t.current, t.current.previous
	g.previous.next, g.next.previous = g, g
}

// begin notes that a group is the last one now.
func (t *Turns[T]) begin(g *turn[T]) {
	t.begun++
	g.began = t.begun
}

func (t *Turns[T]) unlink(g *turn[T]) {
	g.previous.next, g.next.previous = g.next, g.previous
	if t.current == g {
		if t.current = g.next; t.current == g {
			t.current = nil
		}
	}
	t.weights -= g.weight
	g.next, g.previous, g.weight = nil, nil, 0
}
