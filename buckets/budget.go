package buckets

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

// plenty is how much of the budget is left when nobody looks closely: more than requests can look at it in one moment.
const plenty = 256

// budget keeps the number of invalid responses below what Discord bans an address for: those there have been and those that
// there may be, as many as are in flight. It belongs to the process and not to a credential, and outlives Close. Every
// request asks it, so its lock is only for when little is left.
type budget struct {
	limit    int // the margin taken off; 0: there is none
	period   time.Duration
	counters requestCounters
	others   func() int   // the invalid responses of other processes that count together with ours
	theirs   atomic.Int64 // others, when it was counted last

	// allowance is how much each shard may have in flight without a close look. All together that is half of what was left when it was
	// counted last; the other half is for those that need more. It is 0 if so much is in flight in some shards that none is certain.
	allowance atomic.Int64

	mu     sync.Mutex
	counts *ratelimits.InvalidCounter
	warned int // how many of the warnings have been given
}

// budgetWarnings are the fractions of the budget at which there is a warning.
var budgetWarnings = [...]float64{0.5, 0.75, 0.9}

func newBudget(limit int, period time.Duration, others func() int) *budget {
	b := &budget{limit: limit, period: period, counters: newRequestCounters(), others: others, counts: ratelimits.NewInvalidCounter(period)}
	b.divide(0)
	return b
}

// take takes a place for a request that is about to be sent from a bucket, unless there is plenty; or returns why it must
// not be sent.
func (b *budget) take(now time.Duration, a *ask, from *bucket, p *gatePermits) error {
	c := b.counters.shardOf(from)
	if p.reserved != nil || b.hasPlenty(c) {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	used := b.count(now) // first, as those who do not look closely are not bounded by the sum
	inFlight := b.counters.inFlight()
	if used+inFlight < int64(b.limit) {
		p.reserved = c
		c.reserve()
		return nil
	}
	return &ratelimits.BudgetError{
		Route: a.request.Route.Route().String(), Used: int(used), InFlight: int(inFlight),
		Limit: b.limit, Period: b.period, RetryAfter: b.counts.ComesBack(now),
	}
}

// hasPlenty reports that so much is left that the requests counted by one shard do not use up its allowance.
func (b *budget) hasPlenty(c *counterShard) bool {
	return b.limit == 0 || c.inFlight() < b.allowance.Load() && b.theirs.Load() == int64(b.others())
}

// report takes in an invalid response, and returns the fraction of the budget that was passed by it, 0 if none.
func (b *budget) report(now time.Duration) (fraction float64) {
	if b.limit == 0 {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counts.Add(now, 1)
	used := float64(b.count(now)) / float64(b.limit)
	reached := 0
	for _, fraction := range budgetWarnings {
		if used >= fraction {
			reached++
		}
	}
	if reached > b.warned {
		fraction = budgetWarnings[reached-1]
	}
	b.warned = reached
	return fraction
}

// count counts the invalid responses in the latest period, and divides what is left. The lock is held.
func (b *budget) count(now time.Duration) int64 {
	others := b.others()
	b.theirs.Store(int64(others))
	used := int64(b.counts.Used(now) + others)
	b.divide(used)
	return used
}

// divide gives all shards their allowance, if what is in flight leaves room for it.
func (b *budget) divide(used int64) {
	left := int64(b.limit-plenty) - used
	allowance := max(left/int64(2*len(b.counters)), 0)
	for i := range b.counters {
		left -= max(b.counters[i].inFlight(), allowance)
	}
	if left < 0 {
		allowance = 0
	}
	b.allowance.Store(allowance)
}

// used returns the number of invalid responses in the latest period.
func (b *budget) used(now time.Duration) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return int(b.count(now))
}
