package buckets_test

import (
	"iter"
	"slices"
	"time"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/ratelimits"
)

// hubBucket is a bucket that managers share, with one window and one order of waiting requests for all of them.
type hubBucket struct {
	hub    *hub
	key    shared.Key
	window ratelimits.Window
	blank  ratelimits.Window // the window while nothing is known
	users  []*hubShare
	timer  *time.Timer

	owner  *hubShare // the manager to which the bucket is lent
	wanted bool      // another manager needs it
}

// hubPermit is a request in flight, charged in the manager's window and, unless the bucket is lent, in the common one.
type hubPermit struct {
	own, common ratelimits.Permit
	stray       bool // the bucket was lent to another manager, so the common window never counts the request
}

// hubShare is one manager's use of a bucket.
type hubShare struct {
	*hubBucket
	session  *hubSession
	view     *ratelimits.Window
	changed  func()
	arrivals []time.Duration // arrival times of waiting requests, by the hub's clock
	answered int             // how many of arrivals the hub has answered
	granted  []ratelimits.Permit
	flying   []*hubPermit
	lent     bool
	closed   bool
}

func (s *hubSession) Bucket(key shared.Key, window *ratelimits.Window, changed func()) shared.Bucket {
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	b := h.buckets[key]
	if b == nil {
		b = &hubBucket{hub: h, key: key}
		if window.Declared() {
			b.blank.Declare(window.Limit(), window.Period())
			b.window = b.blank
		}
		h.buckets[key] = b
	}
	u := &hubShare{hubBucket: b, session: s, view: window, changed: changed}
	if slices.ContainsFunc(b.users, func(other *hubShare) bool { return other.session == s }) {
		h.misused("two links to one bucket: %+v", key)
	}
	if s.closed {
		return u
	}
	s.buckets, b.users = append(s.buckets, u), append(b.users, u)
	s.notify(changed)
	return u
}

// use begins a call and reports whether the call has any effect. If another manager wants a bucket that is lent to this
// one, use ends the loan.
func (u *hubShare) use(what string, now time.Duration) bool {
	switch {
	case u.session.closed, u.closed && (what == "Report" || what == "Return"): // of requests in flight
		return false
	case u.closed:
		u.hub.misused("%s of a bucket that was closed", what)
		return false
	}
	if u.lent && u.wanted {
		u.end(now)
	}
	return true
}

func (u *hubShare) at(now time.Duration) time.Duration { return now + u.session.offset }

// others reports whether another manager has requests that wait or are in flight.
func (u *hubShare) others() bool {
	return slices.ContainsFunc(u.users, func(other *hubShare) bool {
		return other != u && len(other.arrivals)+len(other.flying) > 0
	})
}

func (u *hubShare) Demand(now time.Duration, waiting int, arrivals iter.Seq[time.Duration]) {
	u.hub.mu.Lock()
	defer u.hub.mu.Unlock()
	if !u.use("Demand", now) {
		return
	}
	before := u.arrivals
	u.arrivals = nil
	for arrived := range arrivals {
		u.arrivals = append(u.arrivals, u.at(arrived))
	}
	if waiting != len(u.arrivals) || !slices.IsSorted(u.arrivals) {
		u.hub.misused("Demand with %d waiting requests and %d arrivals: %v", waiting, len(u.arrivals), u.arrivals)
	}
	for i, arrived := range u.arrivals {
		if u.answered = min(u.answered, len(u.arrivals)); i < u.answered && !slices.Contains(before, arrived) {
			u.answered = i
		}
	}
	for len(u.granted) > len(u.arrivals) {
		u.window.Return(u.at(now), u.granted[0])
		u.granted = u.granted[1:]
	}
	switch {
	case u.lent:
	case u.hub.lends && u.owner == nil && len(u.arrivals) > 0 && !u.others() && !u.hub.silent:
		u.begin(now)
	default:
		u.pump()
	}
}

// pump grants permits to the requests that can leave, and notifies the managers for which something has changed.
func (b *hubBucket) pump() {
	now := b.hub.now()
	if b.hub.silent || b.hub.err != nil {
		return
	}
	for _, u := range b.users {
		if u.answered < len(u.arrivals) {
			u.answered = len(u.arrivals)
			u.session.notify(u.changed)
		}
	}
	if b.owner != nil {
		if b.owner.others() && !b.wanted {
			b.wanted = true
			b.owner.session.notify(b.owner.changed)
		}
		return
	}
	for first := b.first(); first != nil; first = b.first() {
		at, ok := b.window.Next(now)
		if !ok {
			return
		}
		if at > now {
			b.ring(at - now)
			return
		}
		permit, _ := b.window.Take(now)
		first.granted = append(first.granted, permit)
		first.session.notify(first.changed)
	}
}

// first returns the manager whose request waits first, or nil.
func (b *hubBucket) first() (first *hubShare) {
	for _, u := range b.users {
		n := len(u.granted)
		if n < len(u.arrivals) && (first == nil || u.arrivals[n] < first.arrivals[len(first.granted)]) {
			first = u
		}
	}
	return first
}

// ring makes the hub call pump after d.
func (b *hubBucket) ring(d time.Duration) {
	if b.timer != nil {
		b.timer.Stop()
	}
	b.timer = time.AfterFunc(d, func() {
		b.hub.mu.Lock()
		defer b.hub.mu.Unlock()
		if len(b.users) > 0 {
			b.pump()
		}
	})
}

func (u *hubShare) Next(now time.Duration) (time.Duration, bool) {
	u.hub.mu.Lock()
	defer u.hub.mu.Unlock()
	switch {
	case !u.use("Next", now):
		return 0, false
	case u.lent:
		return u.view.Next(now)
	}
	if hold := u.view.HoldWait(now); hold > 0 {
		return now + hold, true
	}
	return now, len(u.granted) > 0
}

func (u *hubShare) Take(now time.Duration) (shared.Permit, bool) {
	u.hub.mu.Lock()
	defer u.hub.mu.Unlock()
	p := &hubPermit{}
	switch {
	case !u.use("Take", now):
		return nil, false
	case u.lent:
		own, ok := u.view.Take(now)
		if !ok {
			return nil, false
		}
		p.own = own
	case len(u.granted) == 0:
		return nil, false
	default: // the permit was granted some time ago
		p.own = u.view.Adopt(now, now)
		u.window.Return(u.at(now), u.granted[0])
		p.common = u.window.Adopt(u.at(now), u.at(now))
		u.granted, u.arrivals, u.answered = u.granted[1:], u.arrivals[1:], u.answered-1
	}
	u.flying = append(u.flying, p)
	return p, true
}

func (u *hubShare) Adopt(now, sent time.Duration) shared.Permit {
	u.hub.mu.Lock()
	defer u.hub.mu.Unlock()
	if !u.use("Adopt", now) {
		return nil
	}
	p := &hubPermit{own: u.view.Adopt(now, sent)}
	u.flying = append(u.flying, p)
	if p.stray = u.owner != nil && u.owner != u; u.owner == nil {
		p.common = u.window.Adopt(u.at(now), u.at(sent))
	}
	return p
}

func (u *hubShare) Report(now time.Duration, p shared.Permit, r ratelimits.Response) {
	u.hub.mu.Lock()
	defer u.hub.mu.Unlock()
	if !u.use("Report", now) {
		return
	}
	permit := u.land("Report", p)
	if permit == nil {
		return
	}
	u.view.Report(now, permit.own, r)
	if u.owner == nil && !permit.stray {
		u.window.Report(u.at(now), permit.common, r)
		u.pump()
	}
}

func (u *hubShare) Return(now time.Duration, p shared.Permit) {
	u.hub.mu.Lock()
	defer u.hub.mu.Unlock()
	if !u.use("Return", now) {
		return
	}
	permit := u.land("Return", p)
	if permit == nil {
		return
	}
	u.view.Return(now, permit.own)
	if u.owner == nil && !permit.stray {
		u.window.Return(u.at(now), permit.common)
		u.pump()
	}
}

// land removes a request from those in flight.
func (u *hubShare) land(what string, p shared.Permit) *hubPermit {
	permit, ok := p.(*hubPermit)
	if !ok || !slices.Contains(u.flying, permit) {
		u.hub.misused("%s of %v", what, p)
		return nil
	}
	u.flying = without(u.flying, permit)
	return permit
}

func (u *hubShare) Hold(now, d time.Duration, class ratelimits.Class) {
	u.hub.mu.Lock()
	defer u.hub.mu.Unlock()
	if !u.use("Hold", now) {
		return
	}
	u.view.HoldFor(now, d, class)
	if u.owner != nil {
		return // the common window is that of the owner
	}
	u.window.HoldFor(u.at(now), d, class)
	for _, other := range u.users {
		other.session.notify(other.changed)
	}
}

func (u *hubShare) Predict(now time.Duration, ahead int) (f shared.Forecast) {
	u.hub.mu.Lock()
	defer u.hub.mu.Unlock()
	if u.lent {
		return shared.Forecast{Wait: u.view.Predict(now, ahead), Class: u.view.WaitClass(now), Certain: true, Own: true}
	}
	f.Wait, f.Class, f.Certain = u.view.HoldWait(now), u.view.HoldClass(now), ahead < u.answered
	rank := len(u.granted) // these requests are charged already
	if u.session.closed || u.owner != nil || ahead < rank {
		return f
	}
	waiting := ahead - rank
	for _, other := range u.users {
		for _, arrived := range other.arrivals[len(other.granted):] {
			if other != u && (ahead >= len(u.arrivals) || arrived < u.arrivals[ahead]) {
				waiting++
			}
		}
	}
	at := u.at(now)
	if wait := u.window.Predict(at, waiting); wait > f.Wait {
		f.Wait, f.Class = wait, u.window.WaitClass(at)
	}
	return f
}

func (u *hubShare) Err() error {
	u.hub.mu.Lock()
	defer u.hub.mu.Unlock()
	if u.lent {
		return nil
	}
	return u.hub.err
}

// begin starts a loan: from now on the manager's own window decides.
func (u *hubShare) begin(now time.Duration) {
	u.owner, u.lent = u, true
	for _, permit := range u.granted {
		u.window.Return(u.at(now), permit)
	}
	u.granted = nil
	*u.view = shifted(&u.window, -u.session.offset)
	for _, p := range u.flying {
		p.own = p.common.Shift(-u.session.offset, -u.session.offset)
	}
	u.session.notify(u.changed)
}

// shifted returns a copy of a window for another clock.
func shifted(w *ratelimits.Window, by time.Duration) ratelimits.Window {
	moved, _, err := ratelimits.DecodeWindow(w.Append(nil))
	if err != nil {
		panic(err) // Append has just written it
	}
	moved.Shift(by, by)
	return moved
}

// end ends a loan: from now on the common window decides.
func (u *hubShare) end(now time.Duration) {
	u.lent, u.owner, u.wanted = false, nil, false
	u.window = shifted(u.view, u.session.offset)
	for _, p := range u.flying {
		p.common = p.own.Shift(u.session.offset, u.session.offset)
	}
	u.session.notify(func() { // after the manager has called Demand
		u.hub.mu.Lock()
		u.pump()
		u.hub.mu.Unlock()
	})
}

func (u *hubShare) Close() {
	u.hub.mu.Lock()
	defer u.hub.mu.Unlock()
	if u.session.closed {
		return
	}
	if u.lent {
		u.end(u.hub.now() - u.session.offset)
	}
	u.leave()
}

// leave ends the manager's use of the bucket.
func (u *hubShare) leave() {
	u.closed, u.lent = true, false
	u.session.buckets = without(u.session.buckets, u)
	u.users = without(u.users, u)
	if u.owner == u { // the state of the lent window is lost
		u.owner, u.wanted, u.window = nil, false, u.blank
	}
	for _, permit := range u.granted {
		u.window.Return(u.hub.now(), permit)
	}
	for _, p := range u.flying {
		if !p.stray {
			u.window.Lost(u.hub.now(), p.common)
		}
	}
	u.granted, u.flying, u.arrivals = nil, nil, nil
	if len(u.users) == 0 && u.timer != nil {
		u.timer.Stop()
	}
	u.pump()
}
