package limitertest

import "time"

// Promise is a property that a simple limiter may lack.
type Promise string

const (
	// Order means that within a bucket requests are sent in the order in which they were first acquired, also after a
	// 429.
	Order Promise = "first come, first served"
	// Prediction means that a request that would wait beyond its deadline or buckets.ContextWithMaxWait is refused at
	// once, with a *ratelimits.TooLongError.
	Prediction Promise = "refusing at once requests that would wait too long"
	// Discovery means that on an unknown route one request is sent first.
	Discovery Promise = "sending one request first on an unknown route"
	// SubLimits means that a 429 for a field of the body holds only requests with the same fields.
	SubLimits Promise = "distinguishing hidden limits of a body's fields from the bucket"
	// Edge means that a refusal by the network in front of Discord holds all requests.
	Edge Promise = "holding all requests after a refusal at the edge"
	// OneAtATime means that with buckets.ContextWithOrdered the requests of a bucket are sent one at a time.
	OneAtATime Promise = "one request at a time for an ordered context"
	// SlowRefill means that no request is refused while the limiter finds out that a bucket refills one place at a
	// time, however late a response may be.
	SlowRefill Promise = "detecting buckets that refill one place at a time without a 429, if responses are late"
	// OneMind means that the whole limiter knows at once what a response says about its route or credential, and which
	// requests wait. A limiter that distributes requests among several processes with shared limits cannot promise it:
	// they exchange messages, and find out the rest separately.
	OneMind Promise = "applying each response at once in all parts of the limiter"
)

// Option sets what Core and Strict expect of the limiter.
type Option func(*settings)

type settings struct {
	global     int
	maxWait    time.Duration
	tolerance  time.Duration
	throughput float64
	pause      time.Duration
	realTime   bool
	without    map[Promise]bool
	only       []string // beginnings of names; empty: all
}

const (
	defaultGlobal     = 50 // Discord's documentation
	defaultThroughput = 0.8
	// Headers are cut to a millisecond, and a limiter may add one for that and one for its own rounding.
	defaultTolerance  = 5 * time.Millisecond
	realTimeTolerance = 150 * time.Millisecond
	// realPause is what stands for "everybody has done what there was to do" where nothing can tell.
	realPause = 20 * time.Millisecond
)

func settingsOf(options []Option) settings {
	s := settings{global: defaultGlobal, throughput: defaultThroughput, pause: realPause, without: make(map[Promise]bool)}
	for _, option := range options {
		option(&s)
	}
	if s.tolerance == 0 {
		s.tolerance = defaultTolerance
		if s.realTime {
			s.tolerance = realTimeTolerance
		}
	}
	return s
}

// WithGlobalLimit sets how many requests per second the limiter allows one authorization, 50 by default. Zero or less
// means no such limit. With less than 50, cases about other things fail, because they take too long.
func WithGlobalLimit(perSecond int) Option {
	return func(s *settings) { s.global = max(perSecond, 0) }
}

// WithMaxWait sets the longest wait that the limiter accepts when a context does not set one. It must be at least two
// minutes, because some cases wait that long. Zero or less, the default, means no bound. Only Strict asks for it.
func WithMaxWait(d time.Duration) Option {
	return func(s *settings) { s.maxWait = max(d, 0) }
}

// WithTolerance sets how late a grant may be: 5 ms by default, 150 ms in real time. No grant may be early.
func WithTolerance(d time.Duration) Option {
	return func(s *settings) { s.tolerance = max(d, 0) }
}

// WithThroughput sets the throughput that the limiter must reach, as a fraction of one that uses up each window and
// sends again as soon as that is certain to be safe: 0.8 by default in Strict, none in Core. Zero or less means no
// requirement.
func WithThroughput(fraction float64) Option {
	return func(s *settings) { s.throughput = max(fraction, 0) }
}

// WithRealTime runs the cases outside of bubbles, in real time. It takes minutes, cases with very long waits are
// skipped, and on a busy machine a correct limiter can fail; see WithTolerance.
func WithRealTime() Option {
	return func(s *settings) { s.realTime = true }
}

// WithPause sets how long a limiter may take in real time for what it does at once: 20 ms by default; set more for one
// that asks another process.
func WithPause(d time.Duration) Option {
	return func(s *settings) { s.pause = max(d, realPause) }
}

// Only runs the cases whose names begin so, such as "cancel/" and "lease/", and leaves out the others: in real time, all of them take minutes.
func Only(beginnings ...string) Option {
	return func(s *settings) { s.only = append(s.only, beginnings...) }
}

// Without skips the cases about what the limiter does not promise.
func Without(promises ...Promise) Option {
	return func(s *settings) {
		for _, p := range promises {
			s.without[p] = true
		}
	}
}
