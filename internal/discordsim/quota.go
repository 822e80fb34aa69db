package discordsim

import (
	"errors"
	"fmt"
	"time"
)

// ErrConfig is wrapped by every error that reports an invalid configuration.
var ErrConfig = errors.New("discordsim: invalid configuration")

// Kind says how a quota counts. Discord's headers do not show the kind; clients have to find it out by observation.
type Kind int

const (
	// KindNone is the zero kind. In a Rule it means "no limit and no headers". In a Change or a Variant it means "as
	// before".
	KindNone Kind = iota
	// KindUnlimited is an explicit "no limit and no headers".
	KindUnlimited
	// KindFixed is a window of fixed length. When it ends, it forgets all its requests at once.
	KindFixed
	// KindSliding keeps a log: every request occupies a place for one period.
	KindSliding
	// KindLeaky is a leaky bucket: it frees one place per period/limit.
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

// Quota is a limit in numbers: at most Limit requests per Period, counted as Kind says. To make a Quota, call [Fixed],
// [Aligned], [Extending], [Sliding], [SlidingNext], [Leaky], [Lagging] or [Unlimited].
type Quota struct {
	Kind   Kind
	Limit  int // requests
	Period time.Duration
	// Aligned windows (KindFixed only) begin at multiples of Period since the Unix epoch, moved by Phase. A window that is
	// not aligned is opened by the first request after the previous window has closed.
	Aligned bool
	Phase   time.Duration
	// NamesNext makes headers say when the next place becomes free, and not when all places are free (KindSliding only).
	NamesNext bool
	// Extend is the time by which each refusal postpones the end of a window (KindFixed only, and not aligned).
	Extend time.Duration
	// Lags makes the header Remaining one too high (but at most Limit-1) while any place is taken. Reset-After stays true
	// (KindLeaky only).
	Lags bool
	// Lateness is how much later than announced a place becomes free, or a window closes.
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

// Extending returns a fixed window whose end is postponed by each refusal. So a client that always asks too early is
// never accepted. This was observed on a compatible server. Retry-After names the new end.
func Extending(limit int, period, by time.Duration) Quota {
	return Quota{Kind: KindFixed, Limit: limit, Period: period, Extend: by}
}

// Sliding returns a sliding log. According to client authors, this is the most common kind on Discord since November
// 2022.
func Sliding(limit int, period time.Duration) Quota {
	return Quota{Kind: KindSliding, Limit: limit, Period: period}
}

// SlidingNext returns a sliding log whose headers Reset and Reset-After name the moment at which the next place becomes
// free. Its first answers look like those of a fixed window.
func SlidingNext(limit int, period time.Duration) Quota {
	return Quota{Kind: KindSliding, Limit: limit, Period: period, NamesNext: true}
}

// Leaky returns a leaky bucket that holds up to limit requests and forgets one request per period/limit.
func Leaky(limit int, period time.Duration) Quota {
	return Quota{Kind: KindLeaky, Limit: limit, Period: period}
}

// Lagging returns a leaky bucket whose header Remaining is one too high, but at most limit-1 while any place is taken.
// Each request makes Reset-After longer by period/limit. Such buckets were measured on Discord.
func Lagging(limit int, period time.Duration) Quota {
	return Quota{Kind: KindLeaky, Limit: limit, Period: period, Lags: true}
}

// Unlimited returns a quota that explicitly has no limit. Answers then carry no limit headers.
func Unlimited() Quota { return Quota{Kind: KindUnlimited} }

// limited reports whether the quota limits anything.
func (q Quota) limited() bool { return q.Kind != KindNone && q.Kind != KindUnlimited }

// interval returns the time in which a leaky bucket forgets one request. The time is rounded up, so that the bucket is
// never faster than its quota says.
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

// toBoundary returns the time from an instant to the next window boundary after it. since is the instant, as a time
// since the moment to which windows are aligned.
func (q Quota) toBoundary(since time.Duration) time.Duration {
	into := (since - q.Phase) % q.Period
	if into < 0 {
		into += q.Period
	}
	return q.Period - into
}

// Consumer says which client takes a place.
type Consumer int

const (
	// Own requests come from the client under test.
	Own Consumer = iota
	// Foreign requests come from another client of the same limit.
	Foreign
)

// State is the true state of a counter at one moment. Its times are exact; headers have the rounded times.
type State struct {
	Limit      int           // requests
	Remaining  int           // number of requests that would be accepted now
	ResetAfter time.Duration // until the counter is completely empty; for a fixed window: until it closes
	RetryAfter time.Duration // until one request would be accepted; 0 if one would be accepted now
	NextAfter  time.Duration // until Remaining rises without a new request; 0 if the counter is empty
	// ResetLate and NextLate say by how much ResetAfter and NextAfter are longer than the times that headers announce.
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
	// Take counts one request and returns true. If the limit is reached, it counts nothing and returns false. Such a
	// refusal may postpone the end of a window.
	Take(now time.Time, who Consumer) bool
	// State describes the counter without counting anything.
	State(now time.Time) State
	// OwnUsed returns the number of places that Own requests occupy at this moment, including a place that is partly free.
	// If the number reaches the limit, the client would have been refused even without other clients. A place that is
	// taken only because refusals have extended a window does not count.
	OwnUsed(now time.Time) int
	// Quota returns the quota of the counter.
	Quota() Quota

	// overdue returns the number of places that are taken although they were announced to be free by this moment.
	overdue(now time.Time) int
	// opened returns the time at which, as announced, the place for the next request becomes or became free. It is zero if
	// that place was never taken.
	opened(now time.Time) time.Time
	// resize changes the numbers of the quota, but not its kind. Counted requests stay counted.
	resize(now time.Time, quota Quota)
}

// NewCounter returns an empty counter for a quota. If the quota is invalid or has no limit, the error wraps
// [ErrConfig].
func NewCounter(quota Quota) (Counter, error) {
	if err := quota.validate(); err != nil {
		return nil, err
	}
	if !quota.limited() {
		return nil, fmt.Errorf("%w: nothing to count without a limit", ErrConfig)
	}
	return newCounter(quota), nil
}

// newCounter returns an empty counter for a valid quota, nil if the quota has no limit.
func newCounter(quota Quota) Counter { return newLateCounter(quota, newDraws(0, "")) }

// newLateCounter is like newCounter, but draws yields the random parts of the quota's lateness.
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

// resized returns a counter that has another quota and keeps the counted requests. If the kind changes, as many places
// are taken as before, and all of them count as taken now.
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
