package ratelimits

import "time"

const (
	// globalPeriod is the window of Discord's global limit, which is one of requests per second (Discord's documentation).
	globalPeriod = time.Second
	// GlobalPatience is the longest time for which a request in flight can keep its slot of a Global, so that slow uploads
	// do not use up the slots.
	GlobalPatience = 2 * time.Second
)

// Global is the limit for all requests of one authentication together. It allows at most limit requests in any interval
// of one second, wherever the interval begins, because no header says when the server's seconds begin.
//
// A request takes a slot when it is sent. The slot becomes free when the server will certainly process the next request
// at least a second after this one. A slot is
//
//	in flight until Report, which measures the round trip, or until GlobalPatience has passed
//	cooling   until one second after the latest moment at which the request can have been processed
//	free      after that
//
// A request that was answered at r was processed at r or earlier, so its slot is certainly free at r + 1 s. The
// response to the old request takes time to travel, and the new request takes time as well. So when enough round trips
// have been measured, the slot becomes free earlier, by three quarters of the smallest round trip. The whole round trip
// is not subtracted, because the smallest latencies of both directions seldom occur together.
//
// The memory that a Global needs depends on how many slots were in use at once, and not on the limit.
type Global struct {
	limit    int              // 0: there is none
	sent     ring[globalSent] // requests in the order of sending; a slot that stays here becomes free after GlobalPatience
	cooling  ring[time.Duration]
	waiting  int // number of requests in sent that have their slots there
	hold     Throttle
	late     lateness      // how much later the server's seconds begin
	opened   time.Duration // when the latest slot became free, if the server's seconds begin on time
	returned int           // number of slots that became free and were not taken again
	smallest time.Duration // smallest round trip so far
	samples  int           // number of round trips so far, counted until there are enough
}

// globalSent is a request that was sent at most GlobalPatience ago.
type globalSent struct {
	at     time.Duration
	opened time.Duration // when the slot that it took became free, if seconds begin on time; 0: long ago
	state  sentState
}

type sentState uint8

const (
	sentInFlight sentState = iota
	sentOver               // the request is over, but its slot becomes free only after GlobalPatience
	sentMoved              // its slot is cooling or free
)

// Slot is the slot of a Global that one request holds. The zero value is no slot.
type Slot struct {
	number uint64 // number of the request in the order of sending, from 1 on; 0: no slot
}

// NewGlobal returns a Global that allows limit requests per second. If limit is zero or negative, there is no limit,
// and only holds apply.
func NewGlobal(limit int) *Global {
	g := &Global{}
	g.Resize(limit)
	return g
}

// Limit returns the number of requests per second, 0 if there is no limit.
func (g *Global) Limit() int { return g.limit }

// Resize changes the limit. Slots that are in use stay in use. A limit above a billion counts as a billion.
func (g *Global) Resize(limit int) { g.limit = min(max(limit, 0), largestSensible) }

// InUse returns how many slots are in flight or cooling.
func (g *Global) InUse(now time.Duration) int {
	g.expire(now)
	return g.used()
}

// Take takes a slot for a request that is sent now. If no slot is free, or if there is a hold, it returns how long to
// wait before Take is called again.
func (g *Global) Take(now time.Duration) (slot Slot, wait time.Duration) {
	if wait := g.Wait(now); wait > 0 {
		return Slot{}, wait
	}
	return g.take(now), 0
}

// Force takes a slot even if the limit is used up or there is a hold. Use Force for a request that is sent in any case
// and that the server counts, so that other requests leave room for this one.
func (g *Global) Force(now time.Duration) Slot {
	g.expire(now)
	return g.take(now)
}

func (g *Global) take(now time.Duration) Slot {
	if g.limit == 0 {
		return Slot{}
	}
	sent := globalSent{at: now, opened: g.reliesOn(now)}
	g.returned = max(g.returned-1, 0)
	g.waiting++
	return Slot{g.sent.push(sent) + 1}
}

// Wait returns the time until Take can succeed, as far as this is known. Outcomes of requests in flight may shorten
// that time.
func (g *Global) Wait(now time.Duration) time.Duration {
	g.expire(now)
	wait := g.hold.Wait(now)
	if g.limit > 0 {
		wait = max(wait, g.nth(g.used()-g.limit)-now)
	}
	return wait
}

// WaitBehind returns the time until Take can succeed if n other requests are sent first, each of them as soon as
// possible.
func (g *Global) WaitBehind(now time.Duration, n int) time.Duration {
	wait := g.Wait(now)
	if g.limit == 0 || n <= 0 {
		return wait
	}
	if n = g.used() + n - g.limit; n >= g.used() { // this request takes the slot of one of the n requests
		return max(wait, globalPeriod)
	}
	return max(wait, g.nth(n)-now)
}

// used returns how many slots are not free.
func (g *Global) used() int { return g.waiting + g.cooling.len() }

// nth returns the time at which n+1 of the used slots will be free, 0 if n is negative. Both rings have their slots in
// the order in which the slots become free.
func (g *Global) nth(n int) (back time.Duration) {
	sent, cooling := g.sent.first, g.cooling.first
	for ; n >= 0; n-- { // for Wait, more than one round is necessary only after Force or a lower limit
		for sent != g.sent.end && g.sent.at(sent).state == sentMoved {
			sent++
		}
		if sent == g.sent.end || cooling != g.cooling.end && g.cooled(cooling) < g.sent.at(sent).at+GlobalPatience {
			back = g.cooled(cooling)
			cooling++
		} else {
			back = g.sent.at(sent).at + GlobalPatience
			sent++
		}
	}
	return back
}

// cooled returns the time at which a cooling slot becomes free.
func (g *Global) cooled(number uint64) time.Duration {
	return g.late.opens(g.announced(number))
}

// announced returns the time at which a cooling slot becomes free, provided that the server's seconds begin on time.
func (g *Global) announced(number uint64) time.Duration {
	return *g.cooling.at(number) + globalPeriod - g.credit()
}

// expire frees the slots whose time has passed.
func (g *Global) expire(now time.Duration) {
	for g.cooling.len() > 0 && g.cooled(g.cooling.first) <= now {
		g.reopen(g.announced(g.cooling.first))
		g.cooling.first++
	}
	for g.sent.len() > 0 {
		s := g.sent.at(g.sent.first)
		if s.state != sentMoved {
			if s.at+GlobalPatience > now {
				return
			}
			g.waiting--
		}
		g.sent.first++
	}
}

// Report gives back the slot of a request that was answered now. It does nothing if the slot was given back already, or
// became free because GlobalPatience had passed.
func (g *Global) Report(now time.Duration, slot Slot) {
	s := g.held(slot)
	if s == nil {
		return
	}
	trip := max(now-s.at, 0)
	if g.samples == 0 || trip < g.smallest {
		g.smallest = trip
	}
	if g.samples < g.enough() {
		g.samples++
	}
	if now+globalPeriod-g.credit() >= s.at+GlobalPatience {
		s.state = sentOver
		return
	}
	g.move(s)
	number := g.cooling.push(now)
	for ; number > g.cooling.first && *g.cooling.at(number - 1) > now; number-- { // outcomes may be reported out of order
		*g.cooling.at(number), *g.cooling.at(number - 1) = *g.cooling.at(number - 1), now
	}
}

// Lost records that the outcome of a slot's request will never be known. Perhaps the request has not reached the server
// yet, so the slot becomes free only after GlobalPatience.
func (g *Global) Lost(slot Slot) {
	if s := g.held(slot); s != nil {
		s.state = sentOver
	}
}

// Return gives back the slot of a request that was never sent.
func (g *Global) Return(slot Slot) {
	if s := g.held(slot); s != nil {
		g.move(s)
	}
}

func (g *Global) move(s *globalSent) {
	s.state = sentMoved
	g.waiting--
}

// held returns the request in flight that has a slot, nil if there is none.
func (g *Global) held(slot Slot) *globalSent {
	number := slot.number - 1
	if number-g.sent.first >= uint64(g.sent.len()) { // true for the zero Slot as well
		return nil
	}
	if s := g.sent.at(number); s.state == sentInFlight {
		return s
	}
	return nil
}

// Hold stops all requests for the duration d from now on, and reports whether this is longer than the existing hold. A
// hold that is not longer has no effect. A d above LongestTrust counts as LongestTrust.
func (g *Global) Hold(now, d time.Duration) bool { return g.hold.Extend(now, min(d, LongestTrust)) }

// HoldWait returns the rest of the hold, 0 if there is no hold.
func (g *Global) HoldWait(now time.Duration) time.Duration { return g.hold.Wait(now) }

// LiftHold ends the hold.
func (g *Global) LiftHold() { g.hold = Throttle{} }

// Idle reports whether all slots are free and there is no hold. If so, a new Global can replace this one.
func (g *Global) Idle(now time.Duration) bool {
	g.expire(now)
	return g.used() == 0 && g.hold.Wait(now) == 0
}

// credit returns how much earlier a slot can be used again because of round trips. The credit is 0 until enough round
// trips are measured, because the first ones include the opening of connections and take longer than later ones.
func (g *Global) credit() time.Duration {
	if g.samples < g.enough() {
		return 0
	}
	return g.smallest / 4 * 3
}

func (g *Global) enough() int { return max(2*g.limit, 100) }

// ring is a queue in a slice that grows as needed. Its entries have consecutive numbers, which never change.
type ring[T any] struct {
	entries    []T    // its length is a power of two
	first, end uint64 // the number of the first entry, and the number that the next new entry gets
}

func (r *ring[T]) len() int { return int(r.end - r.first) }

func (r *ring[T]) at(number uint64) *T { return &r.entries[number&uint64(len(r.entries)-1)] }

func (r *ring[T]) push(entry T) (number uint64) {
	if r.len() == len(r.entries) {
		smaller := *r
		r.entries = make([]T, max(2*len(r.entries), 8))
		for n := r.first; n != r.end; n++ {
			*r.at(n) = *smaller.at(n)
		}
	}
	number = r.end
	r.end++
	*r.at(number) = entry
	return number
}
