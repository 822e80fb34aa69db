package buckets

import (
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

// sharedLink is a bucket's link to what other processes share of it. Who decides what leaves?
//
//	shared  all processes together: each waiter in the queue has a ticket, and leaves when it is granted. The window only looks on
//	lent    this process alone, by the window, until the loan ends
//
// The bucket's lock guards it.
type sharedLink struct {
	bucket    *bucket
	remote    SharedBucket
	until     time.Duration // when the loan ends, as of the last look
	lent      bool
	processes int   // how many divide the limit among them while it is lent
	limit     int   // the whole of it that the latest response named
	stamp     int64 // the largest of responses that came while it is lent
	loans     int   // how many there have been
}

// newSharedLink returns the link of a bucket that was just made, nil if it is not shared.
func (m *RESTBucketManager) newSharedLink(b *bucket) *sharedLink {
	session := m.session()
	if session == nil || b.group.kind == unlimitedGroup || b.group.kind == unknownGroup {
		return nil
	}
	p := &sharedLink{bucket: b}
	p.remote = session.Bucket(b.sharedKey(), p.changed)
	return p
}

// sharedKey is the bucket's name in all processes.
func (b *bucket) sharedKey() SharedKey {
	f := b.group
	key := SharedKey{Credential: f.authentication.credential, Hash: f.hash, Major: b.major.shared()}
	if !f.route.IsZero() {
		key.Route = f.route.String()
	}
	switch f.kind { // a hash that a server names begins with none of these
	case routeGroup:
		key.Hash = "~" + key.Route
	case unstableGroup:
		key.Hash = "!" + key.Route
	case separateGroup:
		key.Hash = "=" + f.hash + " " + key.Route
	}
	return key
}

// decides reports that the window decides what leaves, and nobody else. A nil partner is that of a bucket that is not shared. Until the
// next look the answer stays the same.
func (p *sharedLink) decides(now time.Duration) bool { return p == nil || p.lent && now < p.until }

// refreshLoan finds out whether the loan goes on.
func (p *sharedLink) refreshLoan() {
	if p != nil && p.lent {
		p.until = p.remote.Until()
	}
}

// changed is called when there is something new to say of the bucket.
func (p *sharedLink) changed() {
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

// syncLoan takes over a loan that is offered, or returns one that has ended or is wanted by others.
func (p *sharedLink) syncLoan(now time.Duration) {
	switch {
	case p == nil || p.bucket.evicted.Load():
	case !p.lent:
		if loan := p.remote.Loan(now); loan != nil {
			p.startLoan(now, loan)
		}
	default:
		if p.refreshLoan(); now >= p.until || p.remote.Wanted() {
			p.endLoan(now)
		}
	}
}

// startLoan lets the window decide from now on.
func (p *sharedLink) startLoan(now time.Duration, loan *SharedLoan) {
	b := p.bucket
	others := b.window.InFlight() // charged here because they may belong here
	p.lent, p.processes, p.limit, p.stamp = true, max(loan.Processes, 1), loan.State.Limit, loan.State.Stamp
	p.loans++
	p.refreshLoan()
	b.window = ratelimits.NewWindow(now, p.divide(loan.State))
	for h := b.inFlight; h != nil; h = h.next {
		h.permit, h.ticket = b.window.Adopt(now, h.permit.Sent()), 0
		others--
	}
	for range others {
		b.window.Adopt(now, now)
	}
	for _, o := range loan.Ended {
		b.window.Report(now, b.window.Adopt(now, o.Sent), p.asSeen(o.Response))
	}
	for q := range b.queues.all {
		for w := range q.waiters {
			w.ticket = 0
		}
	}
}

// endLoan lets all processes together decide from now on.
func (p *sharedLink) endLoan(now time.Duration) {
	b := p.bucket
	var inFlight []time.Duration
	for h := b.inFlight; h != nil; h = h.next {
		inFlight = append(inFlight, h.permit.Sent())
	}
	tickets := p.remote.Return(now, p.state(now, len(inFlight)), inFlight)
	p.lent = false
	for h := b.inFlight; h != nil && len(tickets) > 0; h = h.next {
		h.ticket, tickets = tickets[0], tickets[1:]
	}
	if b.queues != nil {
		for w := range b.queues.main.waiters {
			p.join(now, w)
		}
		b.first(now)
	}
}

// state is what has become of the window. So many requests are in flight that say so themselves.
func (p *sharedLink) state(now time.Duration, inFlight int) ratelimits.State {
	s := p.bucket.window.State(now)
	if others := p.bucket.window.InFlight() - inFlight; others > 0 {
		s.Used += others
		s.Reset = max(s.Reset, s.Period)
	}
	s.Stamp = p.stamp
	if p.processes > 1 {
		s.Limit = p.limit
	}
	return s
}

// divide returns this process's share of a limit that nobody keeps for all at the moment.
func (p *sharedLink) divide(s ratelimits.State) ratelimits.State {
	if p.processes > 1 && s.Limit > 0 {
		s.Limit = max(s.Limit/p.processes, 1)
		s.Used = min(s.Used, s.Limit)
	}
	return s
}

// asSeen returns a response as the window is to see it.
func (p *sharedLink) asSeen(r ratelimits.Response) ratelimits.Response {
	if p == nil || !p.lent {
		return r
	}
	p.stamp = max(p.stamp, r.Stamp)
	if p.processes > 1 && r.Limited {
		p.limit = r.Limit
		r.Limit = max(r.Limit/p.processes, 1)
		r.Remaining = min(r.Remaining, r.Limit)
	}
	return r
}

// report tells the others what became of a request with a ticket.
func (p *sharedLink) report(now time.Duration, h *held, o *outcome) {
	t := h.ticket
	if p == nil || t == 0 {
		return
	}
	h.ticket = 0
	if o.sent {
		p.remote.Report(now, t, o.response)
	} else {
		p.remote.Leave(now, t)
	}
}

// drop takes back the ticket of a request that was not counted here.
func (p *sharedLink) drop(now time.Duration, t Ticket) {
	if p != nil && t != 0 && !p.lent {
		p.remote.Leave(now, t)
	}
}

// lose says that a request may have been counted here, although its response speaks of another bucket.
func (p *sharedLink) lose(now time.Duration, t Ticket) {
	if p != nil && t != 0 && !p.lent {
		p.remote.Report(now, t, ratelimits.Response{})
	}
}

// adopt gives a request in flight a ticket that was sent without one.
func (p *sharedLink) adopt(now time.Duration, h *held) {
	if p != nil && !p.lent {
		h.ticket = p.remote.Adopt(now, h.permit.Sent())
	}
}

// adoptProvisional charges a request to the bucket that may belong there, and unshade ends that.
func (p *sharedLink) adoptProvisional(now, sent time.Duration) (t Ticket, loans int) {
	if p == nil || p.lent {
		return 0, 0
	}
	return p.remote.Adopt(now, sent), p.loans
}

func (p *sharedLink) endProvisional(now time.Duration, s provisionalCharge, o *outcome) {
	switch {
	case s.ticket == 0 || p.lent || p.loans != s.loans:
	case o.sent:
		p.remote.Report(now, s.ticket, o.response)
	default:
		p.remote.Leave(now, s.ticket)
	}
}

// hold lets nothing leave in any process.
func (p *sharedLink) hold(now, d time.Duration, class ratelimits.Class) {
	if p != nil && !p.lent {
		p.remote.Hold(now, d, class)
	}
}

// join gives a waiter in the queue its ticket.
func (p *sharedLink) join(now time.Duration, w *waiter) {
	if p != nil && !p.lent && w.ticket == 0 {
		w.ticket = p.remote.Join(now, w.Arrived-HeadStart)
	}
}

// leave takes the ticket of a waiter back that leaves the queue.
func (p *sharedLink) leave(now time.Duration, w *waiter) {
	if p == nil || w.ticket == 0 {
		return
	}
	p.remote.Leave(now, w.ticket)
	w.ticket = 0
}

// next returns when something may leave. ok is false if only the others can tell.
func (p *sharedLink) next(now time.Duration) (at time.Duration, ok bool) {
	if p.lent { // until a moment ago
		p.endLoan(now)
	}
	if hold := p.bucket.window.HoldWait(now); hold > 0 {
		return now + hold, true
	}
	_, ok = p.remote.Granted(now)
	return now, ok
}

// take takes the permit that was granted first. Tickets are interchangeable: if it was another waiter's, that one gets the ticket of
// the one who leaves.
func (p *sharedLink) take(now time.Duration, w *waiter) Ticket {
	t, _ := p.remote.Granted(now)
	p.remote.Take(now, t)
	if w.ticket != t {
		p.exchange(t, w.ticket)
	}
	w.ticket = 0
	return t
}

// exchange gives whoever waits with one ticket another one.
func (p *sharedLink) exchange(t, other Ticket) {
	for q := range p.bucket.queues.all {
		for w := range q.waiters {
			if w.ticket == t {
				w.ticket = other
				return
			}
		}
	}
}

// close ends the link of a bucket that is forgotten, and returns what was lent.
func (p *sharedLink) close(now time.Duration) {
	if p == nil {
		return
	}
	if p.lent {
		p.endLoan(now)
	}
	p.remote.Close()
}
