package ratelimits

import (
	"slices"
	"time"
)

const (
	// globalPeriod is the window of Discord's global limit (Discord's documentation: requests per second).
	globalPeriod = time.Second
	// globalPatience bounds how long one request can keep its slot: a slow upload must not eat everybody's rate.
	globalPatience = 2 * time.Second
)

// Global is the limit over everything that one authentication sends, paced ahead of time: at most limit requests in any
// second, whatever the phase of the server's own seconds, because no header ever tells.
//
// A request takes a slot at the moment of sending. The slot comes back when it is certain that the server processed the
// request at least a second before it can process the next one:
//
//	in flight until Report, which knows the round trip, or until two seconds have passed
//	cooling   until one second after the latest moment at which the request can have been processed
//	free      after that
//
// A request that was sent at s and answered at r was processed at r or earlier, so r + 1 s is certain. The way back of
// the old request and the way there of the new one add to that, so a part of the smallest round trip seen is taken
// off again, once enough round trips have been seen to know what is small: three quarters, because the smallest way there
// and the smallest way back seldom meet in one round trip.
//
// There are as many slots as have been in use at once, so a high limit costs nothing that is not used.
type Global struct {
	limit    int // 0: there is none
	slots    []globalSlot
	heap     []int32 // the slots that are not free, by the time at which they come back, earliest first
	free     []int32
	hold     Throttle
	smallest time.Duration // smallest round trip seen
	samples  int           // round trips seen, counted until there are enough
}

// globalSlot is one place of the limit.
type globalSlot struct {
	back  time.Duration // when it comes back, before credit is taken off
	sent  time.Duration
	place int32  // where it stands in the heap, -1 if it is free
	use   uint32 // how often it was taken, to tell an outcome that comes after the slot was taken again
}

// Slot is a slot of a Global that is held by one request. The zero value is no slot.
type Slot struct {
	index int32 // 1-based
	use   uint32
}

// NewGlobal returns a limit of so many requests per second. Zero or less means that there is no limit, only holds.
func NewGlobal(limit int) *Global {
	g := &Global{}
	g.Resize(limit)
	return g
}

// Limit returns the number of requests per second, 0 if there is no limit.
func (g *Global) Limit() int { return g.limit }

// Resize changes the limit, for the requests that are taken from now on. More than a billion counts as that.
func (g *Global) Resize(limit int) { g.limit = min(max(limit, 0), largestSensible) }

// Take takes a slot for a request that is sent now. When there is none, or a hold, it takes nothing and returns how long
// to wait before asking again.
func (g *Global) Take(now time.Duration) (slot Slot, wait time.Duration) {
	if wait := g.Wait(now); wait > 0 {
		return Slot{}, wait
	}
	return g.Force(now), 0
}

// Force takes a slot even if the limit is used up, and in spite of a hold. It is for a request that is sent in any case and is
// counted by the server: the others make room for it.
func (g *Global) Force(now time.Duration) Slot {
	if g.limit == 0 {
		return Slot{}
	}
	g.expire(now)
	if len(g.free) == 0 {
		g.free = append(g.free, int32(len(g.slots)))
		g.slots = append(g.slots, globalSlot{place: -1})
	}
	last := len(g.free) - 1
	index := g.free[last]
	g.free = g.free[:last]
	s := &g.slots[index]
	s.sent, s.back = now, now+globalPatience+g.credit()
	s.place = int32(len(g.heap))
	s.use++
	g.heap = append(g.heap, index)
	g.up(s.place)
	return Slot{index: index + 1, use: s.use}
}

// Wait returns how long it will be until Take can succeed, as far as is known: outcomes may make it shorter.
func (g *Global) Wait(now time.Duration) time.Duration {
	g.expire(now)
	wait := g.hold.Wait(now)
	if g.limit > 0 && len(g.heap) >= g.limit {
		wait = max(wait, g.nth(len(g.heap)-g.limit)-g.credit()-now)
	}
	return wait
}

// nth returns when the slot comes back that does so after n others.
func (g *Global) nth(n int) time.Duration {
	if n == 0 {
		return g.slots[g.heap[0]].back
	}
	backs := make([]time.Duration, len(g.heap)) // only while forced requests exceed the limit, or after it has become lower
	for i, index := range g.heap {
		backs[i] = g.slots[index].back
	}
	slices.Sort(backs)
	return backs[n]
}

// expire frees the slots that have come back.
func (g *Global) expire(now time.Duration) {
	for len(g.heap) > 0 && g.slots[g.heap[0]].back-g.credit() <= now {
		g.release(g.heap[0])
	}
}

// Report gives a slot back whose request was answered. A slot that was given back already, or has come back after two seconds
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
	if s.place < 0 {
		return
	}
	before := s.back
	s.back = min(now+globalPeriod, s.sent+globalPatience+g.credit())
	if s.back < before {
		g.up(s.place)
	} else {
		g.down(s.place)
	}
}

// Lost gives a slot back whose request was sent and will never be answered. It may still be on its way to the server, so the
// slot comes back when the two seconds have passed.
func (g *Global) Lost(slot Slot) {
	if s := g.held(slot); s != nil {
		s.use++
	}
}

// Return gives a slot back whose request was never sent.
func (g *Global) Return(slot Slot) {
	s := g.held(slot)
	if s == nil {
		return
	}
	s.use++
	if s.place >= 0 {
		g.release(slot.index - 1)
	}
}

// Hold holds everything back for d from now on, and reports whether that is longer than before. A shorter hold never shortens
// a longer one, and more than LongestTrust counts as that.
func (g *Global) Hold(now, d time.Duration) bool { return g.hold.Extend(now, min(d, LongestTrust)) }

// HoldWait returns how long the hold still lasts, 0 if there is none.
func (g *Global) HoldWait(now time.Duration) time.Duration { return g.hold.Wait(now) }

// LiftHold ends the hold.
func (g *Global) LiftHold() { g.hold = Throttle{} }

// Idle reports that no slot is in flight or cooling and there is no hold, so that nothing is lost by forgetting this limit.
func (g *Global) Idle(now time.Duration) bool {
	for _, index := range g.heap {
		if g.slots[index].back > now {
			return false
		}
	}
	return g.hold.Wait(now) == 0
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

func (g *Global) enough() int { return max(2*g.limit, 100) }

// release takes a slot out of the heap and makes it free.
func (g *Global) release(index int32) {
	place, last := g.slots[index].place, int32(len(g.heap)-1)
	g.swap(place, last)
	g.heap = g.heap[:last]
	g.slots[index].place = -1
	g.free = append(g.free, index)
	if place < last {
		g.up(place)
		g.down(place)
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
