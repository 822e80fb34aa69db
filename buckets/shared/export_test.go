package shared

import (
	"time"

	"github.com/ratelight/ratelight/buckets"
)

// LoanUntil returns when a bucket's loan ends, 0 if there is none.
func LoanUntil(b buckets.SharedBucket) time.Duration {
	at := b.(*bucket)
	at.mu.Lock()
	defer at.mu.Unlock()
	return at.loanUntil()
}

// LoanWanted reports that others want a bucket's loan back.
func LoanWanted(b buckets.SharedBucket) bool {
	at := b.(*bucket)
	at.mu.Lock()
	defer at.mu.Unlock()
	return at.loan != nil && at.loan.wanted
}

// EndLoan ends a bucket's loan with requests in flight that were sent at those times.
func EndLoan(b buckets.SharedBucket, now time.Duration, sent []time.Duration) (flying []buckets.SharedPermit) {
	at := b.(*bucket)
	at.mu.Lock()
	defer at.mu.Unlock()
	for _, t := range sent {
		flying = append(flying, at.fly(t, at.window.Adopt(now, t)))
	}
	at.endLoan(now)
	return flying
}
