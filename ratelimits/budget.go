package ratelimits

import "time"

const (
	// DefaultInvalidLimit and DefaultInvalidPeriod are Discord's limit: an IP address with that many invalid responses
	// in that time is banned (Discord's documentation).
	DefaultInvalidLimit  = 10_000
	DefaultInvalidPeriod = 10 * time.Minute

	// budgetParts is into how many parts the period is divided. An invalid response is forgotten a part later than it might be.
	budgetParts = 60
)

// Budget counts invalid responses, so that their number stays below the one for which Discord bans an address.
// [Response.Invalid] reports which responses are invalid.
//
// A request takes a place in the budget when it is sent, since its response may be invalid, and returns it if the
// response is valid. An invalid response keeps its place for one period. The server's period may begin at any time, so
// the limit applies to every period.
//
// A Budget is not safe for concurrent use. Time must not run backwards.
type Budget struct {
	limit    int // 0: there is none
	part     time.Duration
	inflight int
	counts   [budgetParts + 1]int32 // invalid responses of the latest parts, a ring
	total    int                    // of them
	newest   int64                  // which part was the latest, counted from time 0
	ends     time.Duration          // when it no longer is
}

// NewBudget returns a budget of limit invalid responses in any period. A limit or period of zero or less means no
// bound.
func NewBudget(limit int, period time.Duration) *Budget {
	if limit <= 0 || period <= 0 {
		return &Budget{}
	}
	return &Budget{limit: limit, part: max(min(period, longest)/budgetParts, 1)}
}

// Take takes a place for a request that is sent now. If none is left, it returns the time after which one is free at
// the latest; outcomes of requests in flight may free one earlier. The time is 0 if it depends on those outcomes alone.
func (b *Budget) Take(now time.Duration) (ok bool, wait time.Duration) {
	if b.limit == 0 {
		return true, 0
	}
	b.forget(now)
	if b.total+b.inflight < b.limit {
		b.inflight++
		return true, 0
	}
	return false, b.ComesBack(now)
}

// Force takes a place for a request that has been sent already, even if none is left.
func (b *Budget) Force() { b.inflight++ }

// Return gives back the place of a request that was never sent.
func (b *Budget) Return() { b.inflight = max(b.inflight-1, 0) }

// Report records whether the response to a request that took a place was invalid. Report a request whose outcome is
// unknown as valid.
func (b *Budget) Report(now time.Duration, invalid bool) {
	if b.limit == 0 {
		return
	}
	b.forget(now)
	b.inflight = max(b.inflight-1, 0)
	if invalid {
		b.counts[b.newest%int64(len(b.counts))]++
		b.total++
	}
}

// InFlight returns the number of requests whose responses may still be invalid.
func (b *Budget) InFlight() int { return b.inflight }

// Used returns the number of invalid responses in the period that ends now.
func (b *Budget) Used(now time.Duration) int {
	b.forget(now)
	return b.total
}

// Limit returns the allowed number of invalid responses per period, 0 if there is no bound.
func (b *Budget) Limit() int { return b.limit }

// forget drops the counts of parts that lie a period back.
func (b *Budget) forget(now time.Duration) {
	if b.limit == 0 || now < b.ends {
		return
	}
	part := int64(now / b.part)
	b.ends = time.Duration(part+1) * b.part
	if part-b.newest > int64(len(b.counts)) {
		b.newest = part - int64(len(b.counts))
	}
	for b.newest < part {
		b.newest++
		count := &b.counts[b.newest%int64(len(b.counts))]
		b.total -= int(*count)
		*count = 0
	}
}

// ComesBack returns the time until the oldest invalid responses are no longer counted, 0 if there are none.
func (b *Budget) ComesBack(now time.Duration) time.Duration {
	b.forget(now)
	parts := int64(len(b.counts))
	for age := parts - 1; age >= 0; age-- {
		if part := b.newest - age; part >= 0 && b.counts[part%parts] > 0 {
			return time.Duration(part+parts)*b.part - now
		}
	}
	return 0
}
