package limitertest

import (
	"time"

	"github.com/ratelight/ratelight/buckets"
)

// Promise is a property that a simple limiter may lack.
type Promise string

const (
	// Order means that the requests of a bucket are sent in the order in which AcquireRequest was first called for them,
	// also after a 429.
	Order Promise = "first come, first served"
	// Prediction means that a request is rejected at once, with a *ratelimits.TooLongError, if it would wait beyond its
	// deadline or longer than buckets.ContextWithMaxWait allows.
	Prediction Promise = "rejecting at once requests that would wait too long"
	// Discovery means that on an unknown route one request is sent first, and the others wait for its response.
	Discovery Promise = "sending one request first on an unknown route"
	// SubLimits means that a 429 for a field of the body holds only requests whose bodies set the same fields.
	SubLimits Promise = "distinguishing hidden limits of a body's fields from the bucket"
	// Edge means that a refusal by the network in front of Discord holds all requests.
	Edge Promise = "holding all requests after a refusal at the edge"
	// OneAtATime means that with buckets.ContextWithOrdered the requests of a bucket are sent one at a time.
	OneAtATime Promise = "one request at a time for an ordered context"
	// SlowRefill means that the limiter causes no 429 while it finds out that a bucket refills one place at a time, even
	// if responses arrive late and in any order.
	SlowRefill Promise = "detecting buckets that refill one place at a time without a 429, if responses are late"
	// OneMind means that the whole limiter knows at once what a response says about its route or credential, and which
	// requests wait. A limiter that distributes requests among several processes cannot promise this, because the other
	// processes learn of a response later, by messages or from their own responses.
	OneMind Promise = "applying each response at once in all parts of the limiter"

	// These are not promises. The cases also need them.
	virtualTime Promise = "virtual time, because the case would take too long in real time"
	globalLimit Promise = "a global limit, see WithGlobalLimit"
	ownMaxWait  Promise = "a bound of the limiter for waits, see WithMaxWait"
	closing     Promise = "a limiter that is an io.Closer"
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
	only       []string // prefixes of names; empty: all
}

// realPause is how long a case in real time waits for goroutines to become idle. Only a bubble can detect that.
const realPause = 20 * time.Millisecond

func settingsOf(options []Option) settings {
	s := settings{global: buckets.DefaultGlobalLimit, throughput: 0.8, pause: realPause, without: make(map[Promise]bool)}
	for _, option := range options {
		option(&s)
	}
	s.without[virtualTime], s.without[globalLimit], s.without[ownMaxWait] = s.realTime, s.global == 0, s.maxWait == 0
	switch {
	case s.tolerance > 0:
	case s.realTime:
		s.tolerance = 150 * time.Millisecond
	default: // headers are cut to whole milliseconds; a limiter may add 1 ms for that and 1 ms for its own rounding
		s.tolerance = 5 * time.Millisecond
	}
	return s
}

// WithGlobalLimit sets how many requests per second the limiter allows one authorization, 50 by default. Zero or less
// means no such limit. With less than 50, the cases about other limits fail, because they take too long.
func WithGlobalLimit(perSecond int) Option {
	return func(s *settings) { s.global = max(perSecond, 0) }
}

// WithMaxWait sets the longest wait that the limiter accepts when a context does not set one. It must be at least two
// minutes, because some cases wait that long. Zero or less, the default, means no bound. Only Strict uses it.
func WithMaxWait(d time.Duration) Option {
	return func(s *settings) { s.maxWait = max(d, 0) }
}

// WithTolerance sets how late a grant may be: 5 ms by default, 150 ms in real time. No grant may be early.
func WithTolerance(d time.Duration) Option {
	return func(s *settings) { s.tolerance = max(d, 0) }
}

// WithThroughput sets the throughput that the limiter must reach, as a fraction of the ideal. The ideal limiter uses up
// each window, and sends again as soon as that is certainly safe. The default is 0.8 in Strict, and no requirement in
// Core. Zero or less means no requirement.
func WithThroughput(fraction float64) Option {
	return func(s *settings) { s.throughput = max(fraction, 0) }
}

// WithRealTime runs the cases outside of bubbles, in real time. Such a run takes minutes, cases with very long waits
// are skipped, and on a busy machine a correct limiter can fail; see WithTolerance.
func WithRealTime() Option {
	return func(s *settings) { s.realTime = true }
}

// WithPause sets how long operations that need no time in a bubble may take in real time, 20 ms by default. A shorter
// time counts as 20 ms. Set a longer time for a limiter that asks another process.
func WithPause(d time.Duration) Option {
	return func(s *settings) { s.pause = max(d, realPause) }
}

// Only runs the cases whose names have one of these prefixes, such as "cancel/" and "lease/". This saves minutes in
// real time.
func Only(beginnings ...string) Option {
	return func(s *settings) { s.only = append(s.only, beginnings...) }
}

// Without skips the cases of promises that the limiter does not make.
func Without(promises ...Promise) Option {
	return func(s *settings) {
		for _, p := range promises {
			s.without[p] = true
		}
	}
}
