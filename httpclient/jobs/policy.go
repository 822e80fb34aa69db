package jobs

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
)

const (
	// DefaultMaxWait is how long a request of a job waits in the process at most.
	DefaultMaxWait = 5 * time.Second
	// DefaultSpread is up to how much later than planned a snoozed job comes back.
	DefaultSpread = time.Second

	// unpredicted is how long a job is snoozed if nobody knows how long it would have to wait.
	unpredicted = 5 * time.Second
	// globalPace is the distance of two requests at Discord's global limit, 50 a second (its documentation). Jobs whose limit is not known come
	// back no faster than that.
	globalPace = time.Second / 50
	// longestWait bounds what is predicted, so that the sum of times does not overflow. Who waits longer is asked again then.
	longestWait = 365 * 24 * time.Hour
)

// Option configures a Policy.
type Option func(*settings)

type settings struct {
	maxWait, spread time.Duration
	statusOf        func(error) Status
}

// WithMaxWait sets how long a request may wait in the process, 5 s by default. A job that would have to wait longer is snoozed. Zero means
// that no job waits: each occupies a worker only while it is sent, but windows stay empty until the job queue looks for due jobs again.
// Keep it at twice the time or more between two such looks.
//
// A bucket of 5 a second has up to 25 jobs waiting with it, so have more workers than that.
func WithMaxWait(d time.Duration) Option { return func(s *settings) { s.maxWait = d } }

// WithSpread sets up to how much later than planned a snoozed job comes back, by chance: 1 s by default. It should be less than half of the
// max wait.
func WithSpread(d time.Duration) Option { return func(s *settings) { s.spread = d } }

// WithStatus sets a function that finds the response in an error of the library in use. Errors of package rest are known without it. The
// function returns the zero Status for errors that are not about a response. It must be safe for concurrent use.
func WithStatus(f func(error) Status) Option { return func(s *settings) { s.statusOf = f } }

// Policy decides about jobs. Share one among all jobs of a process, as it remembers when snoozed jobs come back. It is safe for concurrent
// use and needs no Close.
type Policy struct {
	settings settings

	mu     sync.Mutex
	last   map[string]time.Time // when the last snoozed job comes back, by what it waits for
	sweep  int                  // how many of them there may be until those that are over are removed
	random func() float64       // from 0 to 1
}

// New returns a policy. The error names an option that makes no sense, and its value.
func New(options ...Option) (*Policy, error) {
	s := settings{maxWait: DefaultMaxWait, spread: DefaultSpread}
	for _, option := range options {
		if option != nil {
			option(&s)
		}
	}
	switch {
	case s.maxWait < 0:
		return nil, fmt.Errorf("jobs: WithMaxWait(%v): want 0 or more", s.maxWait)
	case s.spread < 0:
		return nil, fmt.Errorf("jobs: WithSpread(%v): want 0 or more", s.spread)
	}
	s.statusOf = orRest(s.statusOf)
	return &Policy{settings: s, last: make(map[string]time.Time), sweep: firstSweep, random: rand.Float64}, nil
}

// orRest returns a function that also finds errors of package rest.
func orRest(f func(error) Status) func(error) Status {
	if f == nil {
		return restStatus
	}
	return func(err error) Status {
		if s := restStatus(err); s.Status != 0 {
			return s
		}
		return f(err)
	}
}

// Context returns the context that a job's requests are made with: they wait for the max wait at most.
func (p *Policy) Context(ctx context.Context) context.Context {
	return buckets.ContextWithMaxWait(ctx, p.settings.maxWait)
}

// slot is what a snoozed job is to be given.
type slot struct {
	key  string        // of what it waits for
	wait time.Duration // until it could go if no others were snoozed
	pace time.Duration // between two of them, 0: not known
	lead time.Duration // by how much it is to come before its time
}

// afterTooLong returns how long a job is snoozed whose request would have waited too long.
func (p *Policy) afterTooLong(e *ratelimits.TooLongError) time.Duration {
	s := slot{key: cmp.Or(e.Key, e.Route), wait: e.Wait - e.Waited, lead: min(max(e.Max, 0), p.settings.maxWait) / 2}
	if e.Wait <= 0 {
		s.wait, s.lead = unpredicted, 0
	}
	if e.Limit > 0 && !e.Global {
		s.pace = max(e.Period/time.Duration(e.Limit), 1)
	}
	return p.after(s)
}

// firstSweep is how many limits are remembered before it is looked for those that nobody waits for any more.
const firstSweep = 1024

// after gives a job the next free time of what it waits for, and returns how long it is until then.
func (p *Policy) after(s slot) time.Duration {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	at := now.Add(min(max(s.wait, 0), longestWait))
	if last, ok := p.last[s.key]; ok {
		at = later(at, last.Add(cmp.Or(s.pace, globalPace)))
	}
	p.last[s.key] = at
	if len(p.last) > p.sweep {
		p.forget(now)
	}
	spread := time.Duration(p.random() * float64(p.settings.spread))
	return max(at.Sub(now)-s.lead+spread, 0)
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// forget removes what nobody waits for any more.
func (p *Policy) forget(now time.Time) {
	for key, last := range p.last {
		if last.Before(now) {
			delete(p.last, key)
		}
	}
	p.sweep = max(2*len(p.last), firstSweep)
}
