package buckets

import (
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

// partner is a bucket's link to what other processes share of it. Who decides what leaves?
//
//	shared  all processes together: each waiter in the queue has a ticket, and leaves when it is granted. The window only looks on
//	lent    this process alone, by the window, until the loan ends
//
// The bucket's lock guards it.
type partner struct {
	bucket *RESTBucket
	shared SharedBucket
	until  time.Duration // when the loan ends, as of the last look
	lent   bool
	share  int   // how many divide the limit among them while it is lent
	limit  int   // the whole of it that the latest response named
	stamp  int64 // the largest of responses that came while it is lent
	loans  int   // how many there have been
}

// newPartner returns the link of a bucket that was just made, nil if it is not shared.
func (m *RESTBucketManager) newPartner(b *RESTBucket) *partner {
	session := m.session()
	if session == nil || b.family.place == unlimited || b.family.place == unknown {
		return nil
	}
	p := &partner{bucket: b}
	p.shared = session.Bucket(b.sharedKey(), p.changed)
	return p
}

// sharedKey is the bucket's name in all processes.
func (b *RESTBucket) sharedKey() SharedKey {
	f := b.family
	key := SharedKey{Credential: f.authentication.credential, Hash: f.hash, Major: b.major.shared()}
	if !f.route.IsZero() {
		key.Route = f.route.String()
	}
	switch f.place { // a hash that a server names begins with none of these
	case nameless:
		key.Hash = "~" + key.Route
	case erratic:
		key.Hash = "!" + key.Route
	case apart:
		key.Hash = "=" + f.hash + " " + key.Route
	}
	return key
}

// decides reports that the window decides what leaves, and nobody else. A nil partner is that of a bucket that is not shared. Until the
// next look the answer stays the same.
func (p *partner) decides(now time.Duration) bool { return p == nil || p.lent && now < p.until }

// look finds out whether the loan goes on.
func (p *partner) look() {
	if p != nil && p.lent {
		p.until = p.shared.Until()
	}
}

// changed is called when there is something new to say of the bucket.
func (p *partner) changed() {
	b := p.bucket
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.evicted.Load() {
		return
	}
	now := b.now()
	b.dispatchFree(now)
	b.refuseLate(now) // what is ahead of them may have changed
	b.refuseOverdue(now)
}

// follow takes over a loan that is offered, or returns one that has ended or is wanted by others.
func (p *partner) follow(now time.Duration) {
	switch {
	case p == nil || p.bucket.evicted.Load():
	case !p.lent:
		if loan := p.shared.Loan(now); loan != nil {
			p.takeOver(now, loan)
		}
	default:
		if p.look(); now >= p.until || p.shared.Wanted() {
			p.giveBack(now)
		}
	}
}

// takeOver lets the window decide from now on.
func (p *partner) takeOver(now time.Duration, loan *SharedLoan) {
	b := p.bucket
	others := b.window.InFlight() // charged here because they may belong here
	p.lent, p.share, p.limit, p.stamp = true, max(loan.Share, 1), loan.State.Limit, loan.State.Stamp
	p.loans++
	p.look()
	b.window = ratelimits.NewWindow(now, p.divide(loan.State))
	for h := b.flying; h != nil; h = h.next {
		h.permit, h.ticket = b.window.Adopt(now, h.permit.Sent()), 0
		others--
	}
	for range others {
		b.window.Adopt(now, now)
	}
	for _, o := range loan.Ended {
		b.window.Report(now, b.window.Adopt(now, o.Sent), p.see(o.Response))
	}
	if b.queue != nil {
		for e := b.queue.waiting.Head(); e != nil; e = e.Next() {
			e.Value.ticket = 0
		}
	}
}

// giveBack lets all processes together decide from now on.
func (p *partner) giveBack(now time.Duration) {
	b := p.bucket
	var flying []time.Duration
	for h := b.flying; h != nil; h = h.next {
		flying = append(flying, h.permit.Sent())
	}
	tickets := p.shared.Return(now, p.state(now, len(flying)), flying)
	p.lent = false
	for h := b.flying; h != nil && len(tickets) > 0; h = h.next {
		h.ticket, tickets = tickets[0], tickets[1:]
	}
	if b.queue != nil {
		for e := b.queue.waiting.Head(); e != nil; e = e.Next() {
			e.Value.ticket = p.shared.Join(now, e.Arrived-HeadStart)
		}
	}
}

// state is what has become of the window. So many requests are in flight that say so themselves.
func (p *partner) state(now time.Duration, flying int) ratelimits.State {
	s := p.bucket.window.State(now)
	if others := p.bucket.window.InFlight() - flying; others > 0 {
		s.Used += others
		s.Reset = max(s.Reset, s.Period)
	}
	s.Stamp = p.stamp
	if p.share > 1 {
		s.Limit = p.limit
	}
	return s
}

// divide returns this process's share of a limit that nobody keeps for all at the moment.
func (p *partner) divide(s ratelimits.State) ratelimits.State {
	if p.share > 1 && s.Limit > 0 {
		s.Limit = max(s.Limit/p.share, 1)
		s.Used = min(s.Used, s.Limit)
	}
	return s
}

// see returns a response as the window is to see it.
func (p *partner) see(r ratelimits.Response) ratelimits.Response {
	if p == nil || !p.lent {
		return r
	}
	p.stamp = max(p.stamp, r.Stamp)
	if p.share > 1 && r.Limited {
		p.limit = r.Limit
		r.Limit = max(r.Limit/p.share, 1)
		r.Remaining = min(r.Remaining, r.Limit)
	}
	return r
}

// settle tells the others what became of a request with a ticket.
func (p *partner) settle(now time.Duration, h *held, o *outcome) {
	t := h.ticket
	if p == nil || t == 0 {
		return
	}
	h.ticket = 0
	if o.sent {
		p.shared.Report(now, t, o.response)
	} else {
		p.shared.Leave(now, t)
	}
}

// drop takes back the ticket of a request that was not counted here.
func (p *partner) drop(now time.Duration, t Ticket) {
	if p != nil && t != 0 && !p.lent {
		p.shared.Leave(now, t)
	}
}

// lose says that a request may have been counted here, although its response speaks of another bucket.
func (p *partner) lose(now time.Duration, t Ticket) {
	if p != nil && t != 0 && !p.lent {
		p.shared.Report(now, t, ratelimits.Response{})
	}
}

// adopt gives a request in flight a ticket that was sent without one.
func (p *partner) adopt(now time.Duration, h *held) {
	if p != nil && !p.lent {
		h.ticket = p.shared.Adopt(now, h.permit.Sent())
	}
}

// shade charges a request to the bucket that may belong there, and unshade ends that.
func (p *partner) shade(now, sent time.Duration) (t Ticket, loans int) {
	if p == nil || p.lent {
		return 0, 0
	}
	return p.shared.Adopt(now, sent), p.loans
}

func (p *partner) unshade(now time.Duration, s shadow, o *outcome) {
	switch {
	case s.ticket == 0 || p.lent || p.loans != s.loans:
	case o.sent:
		p.shared.Report(now, s.ticket, o.response)
	default:
		p.shared.Leave(now, s.ticket)
	}
}

// hold lets nothing leave in any process.
func (p *partner) hold(now, d time.Duration, class ratelimits.Class) {
	if p != nil && !p.lent {
		p.shared.Hold(now, d, class)
	}
}

// join gives a waiter in the queue its ticket.
func (p *partner) join(now time.Duration, w *waiter) {
	if p != nil && !p.lent {
		w.ticket = p.shared.Join(now, w.Arrived-HeadStart)
	}
}

// leave takes the ticket of a waiter back that leaves the queue.
func (p *partner) leave(now time.Duration, w *waiter) {
	if p == nil || w.ticket == 0 {
		return
	}
	p.shared.Leave(now, w.ticket)
	w.ticket = 0
}

// next returns when something may leave. ok is false if only the others can tell.
func (p *partner) next(now time.Duration) (at time.Duration, ok bool) {
	if p.lent { // until a moment ago
		p.giveBack(now)
	}
	if hold := p.bucket.window.HoldWait(now); hold > 0 {
		return now + hold, true
	}
	_, ok = p.shared.Granted(now)
	return now, ok
}

// take takes the permit that was granted first. Tickets are interchangeable: if it was another waiter's, that one gets the ticket of
// the one who leaves.
func (p *partner) take(now time.Duration, w *waiter) Ticket {
	t, _ := p.shared.Granted(now)
	p.shared.Take(now, t)
	if w.ticket != t {
		for e := p.bucket.queue.waiting.Head(); e != nil; e = e.Next() {
			if e.Value.ticket == t {
				e.Value.ticket = w.ticket
				break
			}
		}
	}
	w.ticket = 0
	return t
}

// predict is Window.Predict of a bucket that is shared.
func (p *partner) predict(now time.Duration, ahead int) forecast {
	f := p.shared.Forecast(now, ahead)
	if hold := p.bucket.window.HoldWait(now); hold > f.Wait {
		return forecast{hold, p.bucket.window.HoldClass(now), false}
	}
	return forecast{f.Wait, f.Class, false}
}

// close ends the link of a bucket that is forgotten, and returns what was lent.
func (p *partner) close(now time.Duration) {
	if p == nil {
		return
	}
	if p.lent {
		p.giveBack(now)
	}
	p.shared.Close()
}
