package limitertest

import "time"

// Promise is something that a good limiter does and a simple one may not.
type Promise string

const (
	// Order: within a bucket, requests leave in the order in which they were first acquired, also after a 429.
	Order Promise = "first come, first served"
	// Prediction: what would have to wait longer than it may is refused at once, by deadline or buckets.ContextWithMaxWait,
	// with a *ratelimits.TooLongError.
	Prediction Promise = "refusing at once what would wait too long"
	// Discovery: on a route that no response has described yet, one request goes first.
	Discovery Promise = "letting one request go first on an unknown route"
	// SubLimits: a 429 for what a body contains holds back only requests with the same fields.
	SubLimits Promise = "telling the hidden limits of a body's fields from the bucket"
	// Edge: a refusal by the network in front of Discord holds back everything.
	Edge Promise = "holding everything back after a refusal at the edge"
	// OneAtATime: buckets.ContextWithOrdered lets the requests of a bucket go one at a time.
	OneAtATime Promise = "one request at a time for an ordered context"
	// SlowRefill: in a bucket that gives back one request after the other no request is refused while the limiter finds that out, however
	// much later than others an answer may come.
	SlowRefill Promise = "telling buckets that refill one by one from others without a 429, if answers are late"
	// OneMind: what a response says of its route or its credential, and who waits ahead, all of the limiter knows in the same instant.
	// One that spreads its requests over several processes that share limits does not: they tell each other, and each
	// finds out for itself what they do not.
	OneMind Promise = "knowing at once, in all its parts, what one of them was told"
)

// Option tells Core and Strict what the limiter promises.
type Option func(*settings)

type settings struct {
	global     int
	maxWait    time.Duration
	tolerance  time.Duration
	throughput float64
	pause      time.Duration
	realTime   bool
	without    map[Promise]bool
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

// WithGlobalLimit says how many requests per second the limiter lets one authorization send, 50 by default. Zero or less
// says that it has no such limit. Less than 50 makes the cases about anything else fail, as they would take too long.
func WithGlobalLimit(perSecond int) Option {
	return func(s *settings) { s.global = max(perSecond, 0) }
}

// WithMaxWait says what the longest wait is that the limiter accepts when a context does not say otherwise. It must be at
// least two minutes, because other cases wait as long as that. Zero or less, the default, says that there is no bound. Only Strict asks for it.
func WithMaxWait(d time.Duration) Option {
	return func(s *settings) { s.maxWait = max(d, 0) }
}

// WithTolerance says how late a grant may be: 5 ms by default, 150 ms in real time. Nothing may ever be early.
func WithTolerance(d time.Duration) Option {
	return func(s *settings) { s.tolerance = max(d, 0) }
}

// WithThroughput says which part the limiter reaches of the rate of one that uses up each window and sends again as soon as
// that is certain to be safe: 0.8 by default in Strict, none in Core. Zero or less says that it promises none.
func WithThroughput(fraction float64) Option {
	return func(s *settings) { s.throughput = max(fraction, 0) }
}

// WithRealTime runs the cases outside of bubbles, in real time. It takes minutes, cases with very long waits are skipped, and a
// busy machine can make a good limiter fail; see WithTolerance.
func WithRealTime() Option {
	return func(s *settings) { s.realTime = true }
}

// WithPause says how long a limiter may take in real time to do what there is to do at once: 20 ms by default, more for one that asks
// another process.
func WithPause(d time.Duration) Option {
	return func(s *settings) { s.pause = max(d, realPause) }
}

// Without says what the limiter does not promise. The cases about that are skipped.
func Without(promises ...Promise) Option {
	return func(s *settings) {
		for _, p := range promises {
			s.without[p] = true
		}
	}
}
