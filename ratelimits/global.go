package ratelimits

import "time"

const (
	// globalPeriod is the window of Discord's global limit (Discord's documentation: requests per second).
	globalPeriod = time.Second
	// GlobalPatience bounds how long one request can keep its slot of a Global, so that slow uploads do not use up the
	// slots.
	GlobalPatience = 2 * time.Second
)

// Global is the limit over all requests of one authentication: at most limit requests in any second, because no header
// says when the server's seconds begin.
//
// A request takes a slot when it is sent. The slot becomes free when it is certain that the server processes the next
// request at least a second after this one. A slot is
//
//	in flight until Report, which measures the round trip, or until two seconds have passed
//	cooling   until one second after the latest moment at which the request can have been processed
//	free      after that
//
// A request that was sent at s and answered at r was processed at r or earlier, so its slot is certainly free at r + 1
// s. The response of the old request and the sending of the new one take time as well. So Global subtracts three
// quarters of the smallest round trip, once it has measured enough round trips. It does not subtract all of it, because
// the smallest latencies of the two directions seldom occur in one round trip.
//
// Memory is used only for as many slots as have been in use at once, whatever the limit.
type Global struct {
	limit    int              // 0: there is none
	sent     ring[globalSent] // requests in the order of sending; a slot here becomes free when GlobalPatience ends
	cooling  ring[time.Duration]
	waiting  int // requests in sent that keep their slots there
	hold     Throttle
	late     lateness      // how much later the server's seconds begin
	opened   time.Duration // when the latest slot became free, if the server's seconds begin on time
	returned int           // slots that became free and were not taken again
	smallest time.Duration // smallest round trip seen
	samples  int           // round trips seen, counted until there are enough
}

// globalSent is a request that was sent at most GlobalPatience ago.
type globalSent struct {
	at     time.Duration
	opened time.Duration // when the slot that it took became free, with seconds on time; 0: another slot was free
	state  sentState
}

type sentState uint8

const (
	sentInFlight sentState = iota
	sentOver               // its outcome is known, but its slot becomes free only when GlobalPatience ends
	sentMoved              // its slot is cooling or free
)

// Slot is the slot of a Global that one request holds. The zero value is no slot.
type Slot struct {
	number uint64 // number among the requests sent, from 1 on; 0: none
}

// NewGlobal returns a limit of limit requests per second. Zero or less means no limit, only holds.
func NewGlobal(limit int) *Global {
	g := &Global{}
	g.Resize(limit)
	return g
}

// Limit returns the number of requests per second, 0 if there is no limit.
func (g *Global) Limit() int { return g.limit }

// Resize changes the limit for slots that are taken from now on. A limit above a billion is reduced to that.
func (g *Global) Resize(limit int) { g.limit = min(max(limit, 0), largestSensible) }

// InUse returns how many slots are not free: slots in flight, and slots that are cooling.
func (g *Global) InUse(now time.Duration) int {
	g.expire(now)
	return g.used()
}

// Take takes a slot for a request that is sent now. If no slot is free, or there is a hold, it returns how long to wait
// before the next call.
func (g *Global) Take(now time.Duration) (slot Slot, wait time.Duration) {
	if wait := g.Wait(now); wait > 0 {
		return Slot{}, wait
	}
	return g.take(now), 0
}

// Force takes a slot even if the limit is used up or there is a hold. Use it for a request that is sent in any case and
// counted by the server, so that other requests leave room for it.
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

// Wait returns the time until Take can succeed, as far as is known. Outcomes of requests in flight may shorten it.
func (g *Global) Wait(now time.Duration) time.Duration {
	g.expire(now)
	wait := g.hold.Wait(now)
	if g.limit > 0 {
		wait = max(wait, g.nth(g.used()-g.limit)-now)
	}
	return wait
}

// WaitBehind returns the time until Take can succeed if n other requests are sent first, each as soon as it can be.
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

// nth returns when n+1 slots have become free, 0 if n is negative. Each ring has its slots in the order in which they
// become free.
func (g *Global) nth(n int) (back time.Duration) {
	sent, cooling := g.sent.first, g.cooling.first
	for ; n >= 0; n-- { // Wait needs more than one round only after Force or a lower limit
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

// cooled returns when a cooling slot becomes free.
func (g *Global) cooled(number uint64) time.Duration {
	return g.late.opens(g.announced(number))
}

// announced returns when a cooling slot becomes free if the server's seconds begin on time.
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

// Report gives back the slot of a request that was answered. It does nothing for a slot that was given back already, or
// became free after two seconds without an outcome.
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
	for ; number > g.cooling.first && *g.cooling.at(number - 1) > now; number-- { // answers may arrive out of order
		*g.cooling.at(number), *g.cooling.at(number - 1) = *g.cooling.at(number - 1), now
	}
}

// Lost ends the request of a slot whose outcome will never be known. The request may still be on its way to the server,
// so the slot becomes free only when GlobalPatience has passed.
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

// held returns the request that holds a slot, nil if none does.
func (g *Global) held(slot Slot) *globalSent {
	number := slot.number - 1
	if number-g.sent.first >= uint64(g.sent.len()) { // also for the zero Slot
		return nil
	}
	if s := g.sent.at(number); s.state == sentInFlight {
		return s
	}
	return nil
}

// Hold lets nothing be sent for d from now on, and reports whether this is longer than the existing hold. A shorter
// hold never shortens a longer one. A d above LongestTrust is reduced to it.
func (g *Global) Hold(now, d time.Duration) bool { return g.hold.Extend(now, min(d, LongestTrust)) }

// HoldWait returns how long the hold still lasts, 0 if there is none.
func (g *Global) HoldWait(now time.Duration) time.Duration { return g.hold.Wait(now) }

// LiftHold ends the hold.
func (g *Global) LiftHold() { g.hold = Throttle{} }

// Idle reports whether no slot is in flight or cooling and there is no hold, so that this Global can be replaced by a
// new one.
func (g *Global) Idle(now time.Duration) bool {
	g.expire(now)
	return g.used() == 0 && g.hold.Wait(now) == 0
}

// credit returns by how much round trips certainly extend the time between two requests at the server. It is 0 until
// enough round trips are measured: the first round trips include opening connections and take longer than all later
// ones.
func (g *Global) credit() time.Duration {
	if g.samples < g.enough() {
		return 0
	}
	return g.smallest / 4 * 3
}

func (g *Global) enough() int { return max(2*g.limit, 100) }

// ring is a queue in a slice that grows as needed. Its entries have consecutive numbers, which they keep.
type ring[T any] struct {
	entries    []T    // their number is a power of two
	first, end uint64 // numbers of the first entry and of the next entry to be pushed
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
