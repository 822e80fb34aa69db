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
	processes int      // how many divide the limit among them while it is lent
	loans     int      // how many there have been
	strays    []Ticket // of requests that only may belong here, and lost theirs by a loan
}

// newSharedLink returns the link of a bucket that was just made, nil if it is not shared.
func (m *RESTBucketManager) newSharedLink(b *bucket) *sharedLink {
	session := m.session()
	if session == nil || b.group.kind == unlimitedGroup || b.group.kind == unknownGroup {
		return nil
	}
	l := &sharedLink{bucket: b}
	l.remote = session.Bucket(b.sharedKey(), l.changed)
	return l
}

// sharedKey is the bucket's name in all processes.
func (b *bucket) sharedKey() SharedKey {
	group := b.group
	key := SharedKey{Credential: group.authentication.credential, Hash: group.hash, Major: b.major.shared()}
	if !group.route.IsZero() {
		key.Route = group.route.String()
	}
	switch group.kind { // a hash that a server names begins with none of these
	case routeGroup:
		key.Hash = "~" + key.Route
	case unstableGroup:
		key.Hash = "!" + key.Route
	case separateGroup:
		key.Hash = "=" + group.hash + " " + key.Route
	}
	return key
}

// decides reports that the window decides what leaves, and nobody else. A nil link is that of a bucket that is not shared. Until the
// next look the answer stays the same.
func (l *sharedLink) decides(now time.Duration) bool { return l == nil || l.lent && now < l.until }

// refreshLoan finds out whether the loan goes on.
func (l *sharedLink) refreshLoan() {
	if l != nil && l.lent {
		l.until = l.remote.Until()
	}
}

// changed is called when there is something new to say of the bucket.
func (l *sharedLink) changed() {
	l.bucket.mu.Lock()
	defer l.bucket.mu.Unlock()
	l.bucket.othersChanged()
}

// othersChanged is called when other processes have something new to say of the bucket, which is locked.
func (b *bucket) othersChanged() {
	if b.evicted.Load() {
		return
	}
	now := b.now()
	b.dispatchNow(now)
	b.refuseLate(now) // what is ahead of them may have changed
	b.refuseOverdue(now)
}

// syncLoan takes over a loan that is offered, or returns one that has ended or is wanted by others.
func (l *sharedLink) syncLoan(now time.Duration) {
	switch {
	case l == nil || l.bucket.evicted.Load():
	case !l.lent:
		if loan := l.remote.Loan(now); loan != nil {
			l.startLoan(now, loan)
		}
	default:
		if l.refreshLoan(); now >= l.until || l.remote.Wanted() {
			l.endLoan(now)
		}
	}
}

// startLoan lets the window decide from now on.
func (l *sharedLink) startLoan(now time.Duration, loan *SharedLoan) {
	b := l.bucket
	l.lent, l.processes = true, max(loan.Processes, 1)
	l.loans++
	l.strays = nil
	l.refreshLoan()
	others := b.window.InFlight() - len(loan.Permits) // charged here because they may belong here
	b.window = loan.Window
	b.noteBusy()
	for h := b.inFlight; h != nil; h = h.next {
		permit, ok := loan.Permits[h.ticket]
		if !ok {
			permit = b.window.Adopt(now, h.permit.Sent())
			others--
		}
		h.permit, h.ticket = permit, 0
	}
	for range others {
		b.window.Adopt(now, now)
	}
	for q := range b.queues.all {
		for w := range q.waiters {
			w.ticket = 0
		}
	}
}

// endLoan lets all processes together decide from now on.
func (l *sharedLink) endLoan(now time.Duration) {
	b := l.bucket
	var inFlight []ratelimits.Permit
	for h := b.inFlight; h != nil; h = h.next {
		inFlight = append(inFlight, h.permit)
	}
	for range b.window.InFlight() - len(inFlight) { // they only may belong here, and are not told apart
		b.window.Return(now, ratelimits.Permit{})
		inFlight = append(inFlight, b.window.Adopt(now, now))
	}
	tickets := l.remote.Return(now, &b.window, inFlight)
	l.lent = false
	for h := b.inFlight; h != nil && len(tickets) > 0; h = h.next {
		h.ticket, tickets = tickets[0], tickets[1:]
	}
	l.strays = tickets
	if b.queues != nil {
		for w := range b.queues.main.waiters {
			l.join(now, w)
		}
		b.first(now)
	}
}

// limitChanged returns a bucket that is lent, so that whoever has to do without this process knows the limit. It is lent again with the
// next permit.
func (l *sharedLink) limitChanged(now time.Duration) {
	if l != nil && l.lent && l.processes == 1 {
		l.endLoan(now)
	}
}

// asSeen returns a response as the window is to see it.
func (l *sharedLink) asSeen(r ratelimits.Response) ratelimits.Response {
	if l == nil || !l.lent {
		return r
	}
	if l.processes > 1 && r.Limited {
		r.Limit = max(r.Limit/l.processes, 1)
		r.Remaining = min(r.Remaining, r.Limit)
	}
	return r
}

// adopt gives a request a ticket that was sent without one, and returns how many loans there have been: the next one voids it.
func (l *sharedLink) adopt(now, sent time.Duration) (t Ticket, loans int) {
	if l == nil || l.lent {
		return 0, 0
	}
	return l.remote.Adopt(now, sent), l.loans
}

// report tells the others what became of a request in flight.
func (l *sharedLink) report(now time.Duration, h *held, o *outcome) {
	if l != nil {
		l.end(now, h.ticket, l.loans, o)
		h.ticket = 0
	}
}

// end tells the others what became of a request with a ticket, unless a loan has voided that.
func (l *sharedLink) end(now time.Duration, t Ticket, loans int, o *outcome) {
	switch {
	case l == nil || l.lent:
		return
	case t == 0 || l.loans != loans:
		if len(l.strays) == 0 {
			return
		}
		t, l.strays = l.strays[0], l.strays[1:]
	}
	if o.sent {
		l.remote.Report(now, t, o.response)
	} else {
		l.remote.Leave(now, t)
	}
}

// hold lets nothing leave in any process.
func (l *sharedLink) hold(now, d time.Duration, class ratelimits.Class) {
	if l != nil && !l.lent {
		l.remote.Hold(now, d, class)
	}
}

// join gives a waiter in the queue its ticket.
func (l *sharedLink) join(now time.Duration, w *waiter) {
	if l != nil && !l.lent && w.ticket == 0 {
		w.ticket = l.remote.Join(now, w.Arrived-HeadStart)
	}
}

// leave takes the ticket of a waiter back that leaves the queue.
func (l *sharedLink) leave(now time.Duration, w *waiter) {
	if l == nil || w.ticket == 0 {
		return
	}
	l.remote.Leave(now, w.ticket)
	w.ticket = 0
}

// next returns when something may leave. ok is false if only the others can tell.
func (l *sharedLink) next(now time.Duration) (at time.Duration, ok bool) {
	if l.lent { // until a moment ago
		l.endLoan(now)
	}
	if hold := l.bucket.window.HoldWait(now); hold > 0 {
		return now + hold, true
	}
	_, ok = l.remote.Granted(now)
	return now, ok
}

// take takes the permit that was granted first. Tickets are interchangeable: if it was another waiter's, that one gets the ticket of
// the one who leaves.
func (l *sharedLink) take(now time.Duration, w *waiter) Ticket {
	t, _ := l.remote.Granted(now)
	l.remote.Take(now, t)
	if w.ticket != t {
		l.exchange(t, w.ticket)
	}
	w.ticket = 0
	return t
}

// exchange gives whoever waits with one ticket another one.
func (l *sharedLink) exchange(t, other Ticket) {
	for q := range l.bucket.queues.all {
		for w := range q.waiters {
			if w.ticket == t {
				w.ticket = other
				return
			}
		}
	}
}

// close ends the link of a bucket that is forgotten, and returns what was lent.
func (l *sharedLink) close(now time.Duration) {
	if l == nil {
		return
	}
	if l.lent {
		l.endLoan(now)
	}
	l.remote.Close()
}
