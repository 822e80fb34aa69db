package discordsim

import (
	"errors"
	"fmt"
	"time"
)

// ErrConfig is wrapped by every error about a configuration that makes no sense.
var ErrConfig = errors.New("discordsim: invalid configuration")

// Kind says how a quota counts. Discord's headers do not show the kind; clients have to observe it.
type Kind int

const (
	// KindNone is the zero kind. In a Rule it means "no limit and no headers", in a Change or a Variant "as before".
	KindNone Kind = iota
	// KindUnlimited is an explicit "no limit and no headers".
	KindUnlimited
	// KindFixed is a window of fixed length that forgets all its requests at once.
	KindFixed
	// KindSliding keeps a log: every request occupies a place for one period.
	KindSliding
	// KindLeaky frees one place every period/limit.
	KindLeaky
)

func (k Kind) String() string {
	switch k {
	case KindNone:
		return "none"
	case KindUnlimited:
		return "unlimited"
	case KindFixed:
		return "fixed"
	case KindSliding:
		return "sliding"
	case KindLeaky:
		return "leaky"
	}
	return fmt.Sprintf("Kind(%d)", int(k))
}

// Quota is a limit in numbers: at most Limit requests per Period, counted as Kind says. Build one with [Fixed],
// [Aligned], [Extending], [Sliding], [SlidingNext], [Leaky], [Lagging] or [Unlimited].
type Quota struct {
	Kind   Kind
	Limit  int // requests
	Period time.Duration
	// Aligned windows (KindFixed only) begin at multiples of Period since the Unix epoch, moved by Phase. Other windows
	// are opened by the first request after the previous one has closed.
	Aligned bool
	Phase   time.Duration
	// NamesNext makes headers say when the next place becomes free, not when the last one does (KindSliding only).
	NamesNext bool
	// Extend is by how much each refusal moves the end of a window (KindFixed only, and not aligned).
	Extend time.Duration
	// Lags makes Remaining one too high, but at most Limit-1, while any place is taken. Reset-After is true (KindLeaky
	// only).
	Lags bool
	// Lateness is how much later than announced places become free.
	Lateness Lateness
}

// Fixed returns a fixed window that is opened by the first request after the previous window has closed.
func Fixed(limit int, period time.Duration) Quota {
	return Quota{Kind: KindFixed, Limit: limit, Period: period}
}

// Aligned returns a fixed window whose boundaries are multiples of the period since the Unix epoch, moved by phase.
func Aligned(limit int, period, phase time.Duration) Quota {
	return Quota{Kind: KindFixed, Limit: limit, Period: period, Aligned: true, Phase: phase}
}

// Extending returns a fixed window whose end each refusal moves, so that a client that keeps asking early is never
// accepted (observed on a compatible server). Retry-After names the new end.
func Extending(limit int, period, by time.Duration) Quota {
	return Quota{Kind: KindFixed, Limit: limit, Period: period, Extend: by}
}

// Sliding returns a sliding log: the most common kind on Discord since November 2022, as observed by client authors.
func Sliding(limit int, period time.Duration) Quota {
	return Quota{Kind: KindSliding, Limit: limit, Period: period}
}

// SlidingNext returns a sliding log whose Reset and Reset-After name the moment at which the next place becomes free.
// At first its answers look like those of a fixed window.
func SlidingNext(limit int, period time.Duration) Quota {
	return Quota{Kind: KindSliding, Limit: limit, Period: period, NamesNext: true}
}

// Leaky returns a leaky bucket that holds limit requests and forgets one of them every period/limit.
func Leaky(limit int, period time.Duration) Quota {
	return Quota{Kind: KindLeaky, Limit: limit, Period: period}
}

// Lagging returns a leaky bucket whose Remaining lags behind its level by one request, except that it is at most
// limit-1 while any place is taken. Each request makes Reset-After longer by the time of a place (measured on Discord).
func Lagging(limit int, period time.Duration) Quota {
	return Quota{Kind: KindLeaky, Limit: limit, Period: period, Lags: true}
}

// Unlimited returns a quota that explicitly has no limit; answers then carry no limit headers.
func Unlimited() Quota { return Quota{Kind: KindUnlimited} }

// limited reports whether the quota limits anything.
func (q Quota) limited() bool { return q.Kind != KindNone && q.Kind != KindUnlimited }

// interval returns the time in which a leaky bucket forgets one request. It is rounded up, so that a bucket is never
// faster than its quota says.
func (q Quota) interval() time.Duration {
	n := time.Duration(q.Limit)
	return (q.Period + n - 1) / n
}

func (q Quota) validate() error {
	if err := q.validateLateness(); err != nil {
		return err
	}
	if !q.limited() {
		if q.Kind != KindNone && q.Kind != KindUnlimited || q.Limit != 0 || q.Period != 0 {
			return fmt.Errorf("%w: quota of %d per %v has no kind", ErrConfig, q.Limit, q.Period)
		}
		return nil
	}
	switch {
	case q.Kind < KindNone || q.Kind > KindLeaky:
		return fmt.Errorf("%w: unknown kind of quota %d", ErrConfig, int(q.Kind))
	case q.Limit < 1:
		return fmt.Errorf("%w: limit %d is below 1", ErrConfig, q.Limit)
	case q.Period <= 0:
		return fmt.Errorf("%w: period %v is not positive", ErrConfig, q.Period)
	case q.Aligned && q.Kind != KindFixed:
		return fmt.Errorf("%w: only fixed windows can be aligned", ErrConfig)
	case q.NamesNext && q.Kind != KindSliding:
		return fmt.Errorf("%w: only a sliding log can name its next place", ErrConfig)
	case q.Lags && q.Kind != KindLeaky:
		return fmt.Errorf("%w: only the headers of a leaky bucket can lag", ErrConfig)
	case q.Extend < 0 || q.Extend > 0 && (q.Kind != KindFixed || q.Aligned):
		return fmt.Errorf("%w: only fixed windows that are not aligned can be extended", ErrConfig)
	case q.Kind == KindLeaky && q.Period < time.Duration(q.Limit):
		return fmt.Errorf("%w: %d per %v is more than one request per nanosecond", ErrConfig, q.Limit, q.Period)
	}
	return nil
}

// windowEnd returns the end of the aligned window that contains now.
func (q Quota) windowEnd(now time.Time) time.Time {
	return now.Add(q.toBoundary(time.Duration(now.UnixNano())))
}

// toBoundary returns the time from an instant, counted from the epoch of the alignment, to the next boundary after it.
func (q Quota) toBoundary(since time.Duration) time.Duration {
	into := (since - q.Phase) % q.Period
	if into < 0 {
		into += q.Period
	}
	return q.Period - into
}

// Consumer says who takes a place.
type Consumer int

const (
	// Own requests come from the client under test.
	Own Consumer = iota
	// Foreign requests come from another client of the same limit.
	Foreign
)

// State is the truth about a counter at one moment. It holds the exact times; headers are rounded from it.
type State struct {
	Limit      int           // requests
	Remaining  int           // requests that would be accepted now
	ResetAfter time.Duration // until the counter is completely empty; in a fixed window: until it closes
	RetryAfter time.Duration // until one request would be accepted; 0 if one would be now
	NextAfter  time.Duration // until Remaining rises by itself; 0 if the counter is empty
	// ResetLate and NextLate are the parts of ResetAfter and NextAfter by which they exceed what headers announce.
	ResetLate, NextLate time.Duration
}

// stated returns the state as honest headers announce it: without lateness, except in RetryAfter.
func stated(counter Counter, now time.Time) State {
	state := counter.State(now)
	state.ResetAfter = max(state.ResetAfter-state.ResetLate, 0)
	state.NextAfter = max(state.NextAfter-state.NextLate, 0)
	switch quota := counter.Quota(); {
	case quota.NamesNext:
		state.ResetAfter = state.NextAfter
	case quota.Lags && state.Remaining < quota.Limit:
		state.Remaining = min(state.Remaining+1, quota.Limit-1)
	}
	return state
}

// Counter counts requests against one quota. Time is an argument and must not go backwards. A Counter has no lock.
type Counter interface {
	// Take counts one request and reports true, or reports false and counts nothing. A refusal may extend the wait.
	Take(now time.Time, who Consumer) bool
	// State describes the counter without counting anything.
	State(now time.Time) State
	// OwnUsed returns the number of places that Own requests occupy at this moment, including a partly free one. If it
	// reaches the limit, the client would have been refused even without other clients. Places that only refusals have
	// extended do not count.
	OwnUsed(now time.Time) int
	// Quota returns the quota of the counter.
	Quota() Quota

	// overdue returns the number of places that were announced to be free by this moment, and are not.
	overdue(now time.Time) int
	// opened returns when the place that the next request takes was announced to be free, zero if it was never taken.
	opened(now time.Time) time.Time
	// resize changes numbers but not the kind. What is counted stays counted.
	resize(now time.Time, quota Quota)
}

// NewCounter returns an empty counter for a quota that limits something.
func NewCounter(quota Quota) (Counter, error) {
	if err := quota.validate(); err != nil {
		return nil, err
	}
	if !quota.limited() {
		return nil, fmt.Errorf("%w: nothing to count without a limit", ErrConfig)
	}
	return newCounter(quota), nil
}

// newCounter needs a valid quota; it returns nil for one without a limit.
func newCounter(quota Quota) Counter { return newLateCounter(quota, newDraws(0, "")) }

// newLateCounter is newCounter for a quota that may be late: draws yields the random parts of the lateness.
func newLateCounter(quota Quota, draws draws) Counter {
	switch quota.Kind {
	case KindFixed:
		return &fixedWindow{quota: quota, draws: draws}
	case KindSliding:
		return &slidingLog{quota: quota, draws: draws}
	case KindLeaky:
		return &leakyBucket{quota: quota, draws: draws}
	}
	return nil
}

// resized turns a counter into one for another quota. A change of kind keeps the number of places taken, as if they had
// all been taken now.
func resized(counter Counter, now time.Time, quota Quota, draws draws) Counter {
	if counter == nil || !quota.limited() {
		return newLateCounter(quota, draws)
	}
	if counter.Quota().Kind == quota.Kind {
		counter.resize(now, quota)
		return counter
	}
	next, state, own := newLateCounter(quota, draws), counter.State(now), counter.OwnUsed(now)
	for i := range min(state.Limit-state.Remaining, quota.Limit) {
		who := Foreign
		if i < own {
			who = Own
		}
		next.Take(now, who)
	}
	return next
}
