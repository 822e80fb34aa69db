package shared

import (
	"context"
	"time"
)

var beatScript = script("beat", "arguments.lua", "bucket.lua", "loan.lua", "beat.lua")

// mostLoans is how many loans one call renews.
const mostLoans = 500

// What became of a loan that was to be renewed.
const (
	loanKept = iota
	loanWanted
	loanLost
)

// pulse is what one beat says.
type pulse struct {
	renewed  []*bucket
	loans    []*loan
	finished []*bucket
	returned []*returned
}

// beat renews all loans, returns those that nobody waits for, and says that the session is alive if it was silent for long, or the
// server is away.
func (s *session) beat(ctx context.Context) {
	select {
	case s.agents.beating <- struct{}{}:
	default:
		return
	}
	defer func() { <-s.agents.beating }()
	p := s.gather()
	s.agents.mu.Lock()
	silent := s.now()-s.agents.saw >= beatPeriod*9/10
	s.agents.mu.Unlock()
	for first := true; first || len(p.loans)+len(p.returned) > 0; first = false {
		part := p.split(mostLoans)
		if away, _ := s.away(); len(part.loans)+len(part.returned) == 0 && !silent && !away {
			return
		}
		s.send(ctx, part)
		if away, _ := s.away(); away || ctx.Err() != nil { // each of the other calls may take as long as that one
			p.undone()
			return
		}
	}
}

// undone takes in that what there was to say was not said.
func (p *pulse) undone() {
	for i, b := range p.finished {
		b.finished(p.returned[i], false)
	}
}

// gather collects what there is to say. Buckets whose loan is returned make no call until that is done.
func (s *session) gather() (p pulse) {
	for _, b := range s.allAgents() {
		b.mu.Lock()
		l := b.loan
		switch {
		case b.returned != nil && !b.calling && !b.due:
			b.calling = true
			p.finished, p.returned = append(p.finished, b), append(p.returned, b.returned)
		case l != nil && !l.alone:
			p.renewed, p.loans = append(p.renewed, b), append(p.loans, l)
		}
		b.mu.Unlock()
	}
	return p
}

// split takes the first n loans off.
func (p *pulse) split(n int) (first pulse) {
	k := min(n, len(p.loans))
	first.renewed, p.renewed = p.renewed[:k], p.renewed[k:]
	first.loans, p.loans = p.loans[:k], p.loans[k:]
	k = min(n-k, len(p.returned))
	first.finished, p.finished = p.finished[:k], p.finished[k:]
	first.returned, p.returned = p.returned[:k], p.returned[k:]
	return first
}

func (s *session) send(ctx context.Context, p pulse) {
	now := s.now()
	keys := []string{s.store.keys.sessions()}
	a := arguments{s.id}
	a.add(sessionTime.Milliseconds())
	a.count(len(p.loans))
	for i, l := range p.loans {
		keys = append(keys, p.renewed[i].keys[0])
		a.add(l.number)
	}
	a.count(len(p.returned))
	for i, r := range p.returned {
		keys = append(keys, p.finished[i].keys[0])
		r.write(&a, now)
	}
	r, err := s.try(ctx, beatScript, keys, a...)
	if err == nil && len(r.values) < 1+len(p.loans) {
		err = errReply
	}
	if err == nil {
		s.saw(int(r.values[0]), r.sent)
		for i, b := range p.renewed {
			b.renewed(p.loans[i], r.sent+loanTime*9/10, int(r.values[1+i]))
		}
	}
	for i, b := range p.finished {
		b.finished(p.returned[i], err == nil)
	}
}

// renewed takes in what became of a loan.
func (b *bucket) renewed(l *loan, until time.Duration, status int) {
	b.mu.Lock()
	if b.loan != l {
		b.mu.Unlock()
		return
	}
	if status == loanLost {
		l.until, l.wanted = 0, true
	} else {
		l.until = max(l.until, until)
		l.wanted = l.wanted || status == loanWanted
	}
	news := l.wanted
	b.mu.Unlock()
	if news {
		b.notify()
	}
}

// finished takes in that the state of a loan got to the server, or did not.
func (b *bucket) finished(r *returned, delivered bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calling = false
	if delivered && b.returned == r {
		b.returned = nil
	}
	if b.due || b.line.Len() > 0 {
		b.say(b.session.now())
	} else {
		b.session.forgetIdle(b)
	}
}
