package ratelimits

import "time"

const (
	// DefaultInvalidLimit and DefaultInvalidPeriod are Discord's: an IP address with that many invalid responses in that
	// time is banned (Discord's documentation).
	DefaultInvalidLimit  = 10_000
	DefaultInvalidPeriod = 10 * time.Minute

	// budgetParts is into how many parts the period is divided. An invalid response is forgotten a part later than it might be.
	budgetParts = 60
)

// Budget counts invalid responses, so that there are never as many as Discord bans an address for. Which responses are
// invalid says [Response.Invalid].
//
// A request takes from the budget when it is sent, as its answer may be an invalid one, and gives back when it was not. What
// was invalid comes back a period later. The server's period may begin at any time, so the budget holds for every period.
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

// NewBudget returns a budget of so many invalid responses in any period. A limit or period of zero or less means that there
// is no bound.
func NewBudget(limit int, period time.Duration) *Budget {
	if limit <= 0 || period <= 0 {
		return &Budget{}
	}
	return &Budget{limit: limit, part: max(min(period, longest)/budgetParts, 1)}
}

// Take takes for a request that is sent now. When nothing is left, it takes nothing and returns how long it will be, at the
// latest, until something comes back; outcomes of requests in flight may make it shorter. It is 0 if only those can help.
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

// Force takes for a request that was sent already, whether or not anything is left.
func (b *Budget) Force() { b.inflight++ }

// Return gives back what a request took that was never sent.
func (b *Budget) Return() { b.inflight = max(b.inflight-1, 0) }

// Report says whether the response to a request that took was invalid. A request whose outcome was lost counts as valid: who
// knows nothing of a response was not refused by it.
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

// InFlight returns how many requests may yet be answered as invalid ones.
func (b *Budget) InFlight() int { return b.inflight }

// Used returns how many invalid responses there have been in the period that ends now.
func (b *Budget) Used(now time.Duration) int {
	b.forget(now)
	return b.total
}

// Limit returns how many there may be, 0 if there is no bound.
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

// ComesBack returns how long it will be until the oldest invalid responses are forgotten, 0 if there are none.
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
