package shared

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// lastCallTime bounds the duration of each call that lastCall makes.
const lastCallTime = 300 * time.Millisecond

// parts holds the global limits, the discoveries and the count of invalid responses of a session.
type parts struct {
	number  atomic.Int64 // latest number that was given to a discovery
	invalid invalid

	mu          sync.Mutex
	out         bool // the server is away
	globals     map[string]*global
	discoveries map[*discovery]struct{}
}

func (s *session) startParts() {
	p := &s.parts
	p.globals, p.discoveries = map[string]*global{}, map[*discovery]struct{}{}
	p.invalid.start(s)
	s.listen("global", func(rest string) {
		credential, value, _ := strings.Cut(rest, " ")
		p.mu.Lock()
		g := p.globals[credential]
		p.mu.Unlock()
		if g != nil {
			g.told(value)
		}
	})
	s.listen("found", func(rest string) {
		name, value := cutName(rest)
		_, discoveries := p.all()
		for _, d := range discoveries {
			if d.name == name {
				d.told(value)
			}
		}
	})
	s.watch(func() { p.watch(s) })
}

// watch records the start and the end of an outage.
func (p *parts) watch(s *session) {
	p.mu.Lock()
	p.out, _ = s.away()
	p.mu.Unlock()
	globals, discoveries := p.all()
	for _, g := range globals {
		g.watch()
	}
	for _, d := range discoveries {
		d.watch()
	}
}

// closeParts gives back the session's parts of global limits and its permissions for discoveries, and reports its
// invalid responses.
func (s *session) closeParts() {
	globals, discoveries := s.parts.all()
	var calls sync.WaitGroup
	for _, g := range globals {
		calls.Go(g.last)
	}
	for _, d := range discoveries {
		calls.Go(d.last)
	}
	calls.Go(s.parts.invalid.last)
	calls.Wait()
}

// lastCall makes a call for a session that is already closed. If the call fails, the other sessions wait until this
// session counts as dead.
func (s *session) lastCall(purpose string, era int64, steps ...Step) (reply, error) {
	ctx, cancel := context.WithTimeout(s.context, lastCallTime)
	defer cancel()
	return s.exchangeIn(ctx, purpose, era, steps...)
}

// global returns the global limit of a credential, and makes it if there is none.
func (p *parts) global(s *session, credential string) *global {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := p.globals[credential]
	if g == nil {
		g = newGlobal(s, credential, p.out)
		p.globals[credential] = g
	}
	return g
}

func (p *parts) forget(g *global) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.globals[g.credential] == g {
		delete(p.globals, g.credential)
	}
}

// all returns the current global limits and discoveries.
func (p *parts) all() (globals []*global, discoveries []*discovery) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, g := range p.globals {
		globals = append(globals, g)
	}
	for d := range p.discoveries {
		discoveries = append(discoveries, d)
	}
	return globals, discoveries
}
