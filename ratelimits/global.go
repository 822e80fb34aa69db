package ratelimits

import "time"

const (
	// globalPeriod is the window of Discord's global limit (Discord's documentation: requests per second).
	globalPeriod = time.Second
	// globalPatience bounds how long one request can keep its slot: a slow upload must not eat everybody's rate.
	globalPatience = 2 * time.Second
)

// Global is the limit over everything that one authentication sends, paced ahead of time: at most limit requests in any
// second, whatever the phase of the server's own seconds, because no header ever tells.
//
// It has as many slots as the limit. A slot is taken at the moment of sending and comes back when it is certain that the
// server processed its request at least a second before it can process the next one:
//
//	free      taken by Take
//	in flight until Report, which knows the round trip, or until two seconds have passed
//	cooling   until one second after the latest moment at which the request can have been processed
//
// A request that was sent at s and answered at r was processed at r or earlier, so r + 1 s is certain. The way back of
// the old request and the way there of the new one add to that, so a part of the smallest round trip seen is taken
// off again, once enough round trips have been seen: three quarters, because the smallest way there and the
// smallest way back seldom meet in one round trip.
type Global struct {
	slots    []globalSlot
	heap     []int32 // slots by the time at which they come back, earliest first
	spare    []int32 // slots that the limit has no room for
	hold     Throttle
	smallest time.Duration // smallest round trip seen
	samples  int           // round trips seen, counted until there are enough
}

// globalSlot is one place of the limit.
type globalSlot struct {
	back   time.Duration // when it comes back, before credit is taken off
	before time.Duration // when it would have come back, had it not been taken
	sent   time.Duration
	place  int32  // where it stands in the heap, -1 if it is spare
	use    uint32 // how often it was taken, to tell an outcome that comes after the slot was taken again
}

// Slot is a slot of a Global that is held by one request. The zero value is no slot.
type Slot struct {
	index int32 // 1-based
	use   uint32
}

// NewGlobal returns a limit of so many requests per second. Zero or less means that there is no limit, only holds.
func NewGlobal(limit int) *Global {
	limit = max(limit, 0)
	g := &Global{slots: make([]globalSlot, limit), heap: make([]int32, limit)}
	for i := range g.slots {
		g.slots[i].place = int32(i)
		g.heap[i] = int32(i)
	}
	return g
}

// Limit returns the number of requests per second, 0 if there is no limit.
func (g *Global) Limit() int { return len(g.heap) }

// Resize changes the limit, which must be more than zero and was so before. A smaller one gives up the slots that are free, or
// will be first, so that never more requests are sent in a second than the larger of both allows, and a second later never more
// than the new one.
func (g *Global) Resize(limit int) {
	for len(g.heap) > limit {
		first := g.heap[0]
		g.swap(0, int32(len(g.heap)-1))
		g.heap = g.heap[:len(g.heap)-1]
		g.slots[first].place = -1
		g.down(0)
		g.spare = append(g.spare, first)
	}
	for len(g.heap) < limit {
		if len(g.spare) == 0 {
			g.spare = append(g.spare, int32(len(g.slots)))
			g.slots = append(g.slots, globalSlot{})
		}
		last := len(g.spare) - 1
		index := g.spare[last]
		g.spare = g.spare[:last]
		g.slots[index].place = int32(len(g.heap))
		g.heap = append(g.heap, index)
		g.up(g.slots[index].place)
	}
}

// Take takes a slot for a request that is sent now. When there is none, or a hold, it takes nothing and returns how long
// to wait before asking again.
func (g *Global) Take(now time.Duration) (slot Slot, wait time.Duration) {
	if wait := g.Wait(now); wait > 0 {
		return Slot{}, wait
	}
	return g.Force(now), 0
}

// Force takes the slot that comes back first, even if that is not yet, and in spite of a hold. It is for a request that is
// sent in any case and is counted by the server: the others make room for it.
func (g *Global) Force(now time.Duration) Slot {
	if len(g.heap) == 0 {
		return Slot{}
	}
	first := g.heap[0]
	s := &g.slots[first]
	s.sent, s.before = now, s.back
	s.use++
	g.move(first, now+globalPatience+g.credit())
	return Slot{index: first + 1, use: s.use}
}

// Wait returns how long it will be until Take can succeed, as far as is known: outcomes may make it shorter.
func (g *Global) Wait(now time.Duration) time.Duration {
	wait := g.hold.Wait(now)
	if len(g.heap) > 0 {
		wait = max(wait, g.slots[g.heap[0]].back-g.credit()-now)
	}
	return wait
}

// Report gives a slot back whose request was answered. A slot that was given back already, or taken again after two seconds
// without an outcome, is left alone.
func (g *Global) Report(now time.Duration, slot Slot) {
	s := g.held(slot)
	if s == nil {
		return
	}
	trip := max(now-s.sent, 0)
	if g.samples == 0 || trip < g.smallest {
		g.smallest = trip
	}
	if g.samples < g.enough() {
		g.samples++
	}
	s.use++
	g.move(slot.index-1, min(now+globalPeriod, s.sent+globalPatience+g.credit()))
}

// Lost gives a slot back whose request was sent and will never be answered. It may still be on its way to the server, so the
// slot comes back when the two seconds have passed.
func (g *Global) Lost(slot Slot) {
	if s := g.held(slot); s != nil {
		s.use++
	}
}

// Return gives a slot back whose request was never sent. It comes back when it would have without it.
func (g *Global) Return(slot Slot) {
	s := g.held(slot)
	if s == nil {
		return
	}
	s.use++
	g.move(slot.index-1, s.before)
}

// Hold holds everything back for d from now on, and reports whether that is longer than before. A shorter hold never shortens
// a longer one, and more than LongestTrust counts as that.
func (g *Global) Hold(now, d time.Duration) bool { return g.hold.Extend(now, min(d, LongestTrust)) }

// HoldWait returns how long the hold still lasts, 0 if there is none.
func (g *Global) HoldWait(now time.Duration) time.Duration { return g.hold.Wait(now) }

// Idle reports that no slot is in flight or cooling and there is no hold, so that nothing is lost by forgetting this limit.
func (g *Global) Idle(now time.Duration) bool {
	if g.hold.Wait(now) > 0 {
		return false
	}
	for i := range g.slots {
		if g.slots[i].back > now {
			return false
		}
	}
	return true
}

// held returns the slot if it is still held by this very request.
func (g *Global) held(slot Slot) *globalSlot {
	if slot.index == 0 {
		return nil
	}
	s := &g.slots[slot.index-1]
	if s.use != slot.use {
		return nil
	}
	return s
}

// credit is what the two ways of a round trip certainly add to the distance of two requests. The first round trips, which
// open connections and take longer than later ones ever will, would promise too much, so they are waited out.
func (g *Global) credit() time.Duration {
	if g.samples < g.enough() {
		return 0
	}
	return g.smallest / 4 * 3
}

func (g *Global) enough() int { return 2 * len(g.heap) }

// move changes when a slot comes back and puts it in its place in the heap.
func (g *Global) move(index int32, back time.Duration) {
	earlier := back < g.slots[index].back
	g.slots[index].back = back
	if g.slots[index].place < 0 {
		return
	}
	if earlier {
		g.up(g.slots[index].place)
	} else {
		g.down(g.slots[index].place)
	}
}

func (g *Global) up(place int32) {
	for place > 0 {
		parent := (place - 1) / 2
		if !g.less(place, parent) {
			return
		}
		g.swap(place, parent)
		place = parent
	}
}

func (g *Global) down(place int32) {
	for {
		child := 2*place + 1
		if child >= int32(len(g.heap)) {
			return
		}
		if right := child + 1; right < int32(len(g.heap)) && g.less(right, child) {
			child = right
		}
		if !g.less(child, place) {
			return
		}
		g.swap(child, place)
		place = child
	}
}

func (g *Global) less(a, b int32) bool { return g.slots[g.heap[a]].back < g.slots[g.heap[b]].back }

func (g *Global) swap(a, b int32) {
	g.heap[a], g.heap[b] = g.heap[b], g.heap[a]
	g.slots[g.heap[a]].place, g.slots[g.heap[b]].place = a, b
}
