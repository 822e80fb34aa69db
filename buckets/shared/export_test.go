package shared

import (
	"time"
)

// LoanUntil returns the time at which a bucket's loan ends, 0 if there is no loan.
func LoanUntil(b Bucket) time.Duration {
	at := b.(*bucket)
	at.mu.Lock()
	defer at.mu.Unlock()
	return at.loanUntil()
}

// LoanWanted reports whether another process needs a bucket's loan.
func LoanWanted(b Bucket) bool {
	at := b.(*bucket)
	at.mu.Lock()
	defer at.mu.Unlock()
	return at.loan != nil && at.loan.wanted
}

// EndLoan adds requests in flight that were sent at the given times to a bucket, and ends the bucket's loan. It returns
// the permits of these requests.
func EndLoan(b Bucket, now time.Duration, sent []time.Duration) (flying []Permit) {
	at := b.(*bucket)
	at.mu.Lock()
	defer at.mu.Unlock()
	for _, t := range sent {
		flying = append(flying, at.fly(t, at.window.Adopt(now, t)))
	}
	at.endLoan(now)
	return flying
}
