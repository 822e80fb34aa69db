package buckets

import (
	"sync"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

// budget keeps the number of invalid responses below what Discord bans an address for. It belongs to the process and not to
// a credential, and outlives Close.
type budget struct {
	limit  int // the margin taken off; 0: there is none
	period time.Duration

	mu     sync.Mutex
	counts *ratelimits.Budget
	warned int // how many of the warnings have been given
}

// budgetWarnings are the fractions of the budget at which there is a warning.
var budgetWarnings = [...]float64{0.5, 0.75, 0.9}

func newBudget(limit int, period time.Duration) *budget {
	return &budget{limit: limit, period: period, counts: ratelimits.NewBudget(limit, period)}
}

// take takes for a request that is about to be sent, or returns why it must not be.
func (b *budget) take(now time.Duration, a *ask) error {
	if b.limit == 0 {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	ok, wait := b.counts.Take(now)
	if ok {
		return nil
	}
	return &ratelimits.BudgetError{
		Route: a.request.Route.Route().String(), Used: b.counts.Used(now), InFlight: b.counts.InFlight(),
		Limit: b.limit, Period: b.period, RetryAfter: wait,
	}
}

// force takes for a request that was sent elsewhere.
func (b *budget) force() {
	if b.limit > 0 {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.counts.Force()
	}
}

// giveBack gives back what a request took that was not sent.
func (b *budget) giveBack() {
	if b.limit > 0 {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.counts.Return()
	}
}

// report takes in whether a response was invalid, and returns the fraction of the budget that was passed by it, 0 if none.
func (b *budget) report(now time.Duration, invalid bool) (passed float64) {
	if b.limit == 0 {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counts.Report(now, invalid)
	if !invalid {
		return 0
	}
	used := float64(b.counts.Used(now)) / float64(b.limit)
	reached := 0
	for _, fraction := range budgetWarnings {
		if used >= fraction {
			reached++
		}
	}
	if reached > b.warned {
		passed = budgetWarnings[reached-1]
	}
	b.warned = reached
	return passed
}

// used returns the number of invalid responses in the latest period.
func (b *budget) used(now time.Duration) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.counts.Used(now)
}
