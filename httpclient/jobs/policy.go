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
	// DefaultMaxWait bounds how long a job's request waits in the process, unless WithMaxWait sets another bound.
	DefaultMaxWait = 5 * time.Second
	// DefaultSpread bounds the random delay of a snoozed job, unless WithSpread sets another bound.
	DefaultSpread = time.Second

	// unpredicted is how long a job is snoozed if its wait cannot be predicted. After a BudgetError or EdgeError a job
	// is snoozed for at least that long.
	unpredicted = 5 * time.Second
	// globalPace is the time between two requests at Discord's global limit, 50 requests per second (Discord's
	// documentation). Jobs come back at this pace if the pace of their limit is not known.
	globalPace = time.Second / 50
	// longestWait bounds predicted waits, so that sums of times do not overflow. A job that has to wait longer is
	// snoozed again.
	longestWait = 365 * 24 * time.Hour
)

// Option configures a Policy.
type Option func(*settings)

type settings struct {
	maxWait, spread time.Duration
	statusOf        func(error) Status
}

// WithMaxWait sets how long a request may wait in the process, 5 s by default. A job that would have to wait longer is
// snoozed. If it is zero, no job waits in the process. Then a worker is occupied only while its job sends, but an open
// window stays unused until the job queue looks for due jobs again. Any other value should be at least twice the
// interval at which the job queue looks for due jobs.
//
// With the default, up to 25 jobs wait in the process for a bucket with 5 requests per second, so use more than 25
// workers.
func WithMaxWait(d time.Duration) Option { return func(s *settings) { s.maxWait = d } }

// WithSpread bounds the random delay that is added to each snooze, 1 s by default. It should be less than half of the
// max wait.
func WithSpread(d time.Duration) Option { return func(s *settings) { s.spread = d } }

// WithStatus sets a function that finds the response in an error of the library in use. Errors of package rest need no
// such function. The function returns the zero Status for errors that are not about a response. It must be safe for
// concurrent use.
func WithStatus(f func(error) Status) Option { return func(s *settings) { s.statusOf = f } }

// Policy decides what to do with jobs. Use the same Policy for all jobs of a process, because the Policy remembers when
// snoozed jobs come back. A Policy is safe for concurrent use and needs no Close.
type Policy struct {
	settings settings

	mu     sync.Mutex
	last   map[string]time.Time // when the last snoozed job of a limit comes back, by slot.key
	sweep  int                  // size of last above which old entries are evicted
	random func() float64       // returns a number in [0, 1)
}

// New returns a policy. Its error names the option whose value is invalid, and the value.
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

// orRest returns a function that tries restStatus first, and then f, which may be nil.
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

// Context returns a context for a job's requests. The context bounds each wait of a request to the max wait.
func (p *Policy) Context(ctx context.Context) context.Context {
	return buckets.ContextWithMaxWait(ctx, p.settings.maxWait)
}

// slot describes when a snoozed job may come back.
type slot struct {
	key  string        // the limit that the job waits for
	wait time.Duration // predicted wait without other snoozed jobs
	pace time.Duration // time between two jobs with the same key; 0 if not known
	lead time.Duration // by how much the job comes back earlier than predicted
}

// afterTooLong returns how long to snooze a job whose request would have waited too long.
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

// firstSweep is the number of remembered limits above which old entries are evicted for the first time.
const firstSweep = 1024

// after reserves the next free time of the slot's limit. It returns how long to snooze the job: the time that remains
// until then, minus the lead, plus a random delay.
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

// forget removes the entries of limits whose latest reserved time has passed, and sets the size above which forget is
// called the next time. p.mu must be held.
func (p *Policy) forget(now time.Time) {
	for key, last := range p.last {
		if last.Before(now) {
			delete(p.last, key)
		}
	}
	p.sweep = max(2*len(p.last), firstSweep)
}
