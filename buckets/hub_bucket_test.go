package buckets_test

import (
	"slices"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
)

// hubReport is what a hub was told of a request.
type hubReport struct {
	key      buckets.SharedKey
	response ratelimits.Response
}

// hubBucket is a bucket that managers share: one window is the truth for all, and one line of tickets.
type hubBucket struct {
	hub    *hub
	key    buckets.SharedKey
	window ratelimits.Window
	line   []*hubTicket // not granted yet
	users  []*hubShare
	timer  *time.Timer

	owner  *hubShare // to whom it is lent, or offered
	until  time.Duration
	wanted bool
	strays []*hubTicket // adopted while it was lent to somebody else
	hold   time.Duration
}

type hubTicket struct {
	id       buckets.Ticket
	share    *hubShare
	arrived  time.Duration
	answered bool
	granted  bool
	taken    bool
	permit   ratelimits.Permit
	sent     time.Duration
	ended    *ratelimits.Response
}

// hubShare is a bucket as one manager uses it.
type hubShare struct {
	*hubBucket
	session *hubSession
	changed func()
	held    []*hubTicket // all of its tickets
	offered bool
	lent    bool
	closed  bool
}

func (s *hubSession) Bucket(key buckets.SharedKey, changed func()) buckets.SharedBucket {
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	b := h.buckets[key]
	if b == nil {
		b = &hubBucket{hub: h, key: key}
		h.buckets[key] = b
	}
	u := &hubShare{hubBucket: b, session: s, changed: changed}
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

// use begins a call, and reports whether there is anything to do.
func (u *hubShare) use(what string) bool {
	switch {
	case u.session.closed, u.closed && (what == "Report" || what == "Leave"): // of what is in flight
		return false
	case u.closed:
		u.hub.misused("%s of a bucket that was closed", what)
		return false
	case u.lent:
		u.hub.misused("%s of a bucket that is lent", what)
		return false
	}
	return true
}

func (u *hubShare) at(now time.Duration) time.Duration { return now + u.session.offset }

// ticket returns a ticket of the share.
func (u *hubShare) ticket(t buckets.Ticket) *hubTicket {
	for _, ticket := range u.held {
		if ticket.id == t {
			return ticket
		}
	}
	return nil
}

func (u *hubShare) issue() *hubTicket {
	u.hub.tickets++
	ticket := &hubTicket{id: u.hub.tickets, share: u}
	u.held = append(u.held, ticket)
	return ticket
}

// others reports whether anybody else waits or has something in flight.
func (u *hubShare) others() bool {
	return slices.ContainsFunc(u.users, func(other *hubShare) bool { return other != u && len(other.held) > 0 }) || len(u.strays) > 0
}

func (u *hubShare) Join(now, arrived time.Duration) buckets.Ticket {
	u.hub.mu.Lock()
	defer u.hub.mu.Unlock()
	if !u.use("Join") {
		return 0
	}
	ticket, i := u.issue(), len(u.line)
	for ticket.arrived = u.at(arrived); i > 0 && u.line[i-1].arrived > ticket.arrived; i-- {
	}
	u.line = slices.Insert(u.line, i, ticket)
	if u.hub.term > 0 && u.owner == nil && !u.others() && !u.hub.silent {
		u.owner, u.offered = u, true
		u.session.notify(u.changed)
		return ticket.id
	}
	u.pump()
	return ticket.id
}

// pump grants what can be granted, and tells all who have to know.
func (b *hubBucket) pump() {
	now := b.hub.now()
	if b.owner != nil && !b.owner.offered && now >= b.until { // it ended without a word
		b.owner, b.wanted, b.window = nil, false, ratelimits.Window{}
		b.flush(now)
	}
	if b.hub.silent || b.hub.err != nil {
		return
	}
	for _, ticket := range b.line {
		if !ticket.answered {
			ticket.answered = true
			ticket.share.session.notify(ticket.share.changed)
		}
	}
	if b.owner != nil {
		if foreign := len(b.strays) > 0 || slices.ContainsFunc(b.line, func(t *hubTicket) bool { return t.share != b.owner }); foreign && !b.wanted {
			b.wanted = true
			b.owner.session.notify(b.owner.changed)
		}
		return
	}
	for len(b.line) > 0 {
		at, ok := b.window.Next(now)
		if !ok {
			return
		}
		if at > now {
			b.ring(at - now)
			return
		}
		ticket := b.line[0]
		b.line = b.line[1:]
		ticket.permit, _ = b.window.Take(now)
		ticket.granted, ticket.sent = true, now
		ticket.share.session.notify(ticket.share.changed)
	}
}

// ring lets the hub look again.
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

// flush takes in what was adopted, and what came of it, while the bucket was lent.
func (b *hubBucket) flush(now time.Duration) {
	for _, ticket := range b.strays {
		ticket.permit = b.window.Adopt(now, ticket.sent)
		if ticket.ended != nil {
			b.window.Report(now, ticket.permit, *ticket.ended)
		}
	}
	b.strays = nil
	b.window.HoldFor(now, b.hold-now, ratelimits.ClassUser)
}

func (u *hubShare) Leave(now time.Duration, t buckets.Ticket) {
	u.hub.mu.Lock()
	defer u.hub.mu.Unlock()
	if !u.use("Leave") {
		return
	}
	ticket := u.ticket(t)
	if ticket == nil {
		u.hub.misused("Leave of ticket %d", t)
		return
	}
	u.drop(ticket)
	if slices.Contains(u.strays, ticket) {
		u.strays = without(u.strays, ticket)
	} else if ticket.granted && (u.owner == nil || u.offered) {
		u.window.Return(u.at(now), ticket.permit)
	}
	u.pump()
}

func (u *hubShare) drop(ticket *hubTicket) {
	u.held = without(u.held, ticket)
	u.line = without(u.line, ticket)
}

func (u *hubShare) Granted(time.Duration) (buckets.Ticket, bool) {
	u.hub.mu.Lock()
	defer u.hub.mu.Unlock()
	if !u.use("Granted") || u.owner != nil {
		return 0, false
	}
	for _, ticket := range u.held {
		if ticket.granted && !ticket.taken {
			return ticket.id, true
		}
	}
	return 0, false
}

func (u *hubShare) Take(now time.Duration, t buckets.Ticket) {
	u.hub.mu.Lock()
	defer u.hub.mu.Unlock()
	if !u.use("Take") {
		return
	}
	ticket := u.ticket(t)
	if ticket == nil || !ticket.granted || ticket.taken {
		u.hub.misused("Take of ticket %d", t)
		return
	}
	ticket.taken = true
	if at := u.at(now); at > ticket.sent { // it was granted some time ago
		u.window.Return(at, ticket.permit)
		ticket.permit, ticket.sent = u.window.Adopt(at, at), at
	}
}

func (u *hubShare) Report(now time.Duration, t buckets.Ticket, r ratelimits.Response) {
	u.hub.mu.Lock()
	defer u.hub.mu.Unlock()
	if !u.use("Report") {
		return
	}
	ticket := u.ticket(t)
	if ticket == nil || !ticket.taken {
		u.hub.misused("Report of ticket %d", t)
		return
	}
	u.hub.reports = append(u.hub.reports, hubReport{u.key, r})
	u.drop(ticket)
	switch {
	case u.offered:
		u.window.Report(u.at(now), ticket.permit, r)
	case u.owner != nil:
		ticket.ended = &r
	default:
		u.window.Report(u.at(now), ticket.permit, r)
		u.pump()
	}
}

func (u *hubShare) Hold(now, d time.Duration, class ratelimits.Class) {
	u.hub.mu.Lock()
	defer u.hub.mu.Unlock()
	if !u.use("Hold") {
		return
	}
	if u.owner != nil {
		u.hold = max(u.hold, u.at(now)+d)
		return
	}
	u.window.HoldFor(u.at(now), d, class)
	for _, other := range u.users {
		other.session.notify(other.changed)
	}
}

func (u *hubShare) Adopt(now, sent time.Duration) buckets.Ticket {
	u.hub.mu.Lock()
	defer u.hub.mu.Unlock()
	if !u.use("Adopt") {
		return 0
	}
	ticket := u.issue()
	ticket.granted, ticket.taken, ticket.sent = true, true, u.at(sent)
	if u.owner == nil {
		ticket.permit = u.window.Adopt(u.at(now), u.at(sent))
	} else if u.owner != u {
		u.strays = append(u.strays, ticket)
		u.pump()
	}
	return ticket.id
}

func (u *hubShare) Forecast(now time.Duration, ahead int) buckets.SharedForecast {
	u.hub.mu.Lock()
	defer u.hub.mu.Unlock()
	if !u.use("Forecast") || u.owner != nil {
		return buckets.SharedForecast{}
	}
	for _, ticket := range u.held { // their places are charged already
		if ticket.granted && !ticket.taken {
			ahead--
		}
	}
	at, waiting := u.at(now), 0
	if ahead < 0 {
		return buckets.SharedForecast{Limit: u.window.Limit(), Period: u.window.Period()}
	}
	for _, ticket := range u.line {
		if ticket.share == u {
			if ahead == 0 {
				break
			}
			ahead--
		}
		waiting++
	}
	return buckets.SharedForecast{
		Wait: u.window.Predict(at, waiting), Class: u.window.WaitClass(at), Limit: u.window.Limit(), Period: u.window.Period(),
	}
}

func (u *hubShare) Answered(t buckets.Ticket) bool {
	u.hub.mu.Lock()
	defer u.hub.mu.Unlock()
	ticket := u.ticket(t)
	return u.use("Answered") && ticket != nil && ticket.answered
}

func (u *hubShare) Err() error {
	u.hub.mu.Lock()
	defer u.hub.mu.Unlock()
	return u.hub.err
}

func (u *hubShare) Loan(now time.Duration) *buckets.SharedLoan {
	u.hub.mu.Lock()
	defer u.hub.mu.Unlock()
	if !u.offered || u.session.closed {
		return nil
	}
	u.offered, u.lent, u.until = false, true, u.hub.now()+u.hub.term
	u.hub.loans++
	loan := &buckets.SharedLoan{Processes: max(u.hub.divides, 1), Permits: map[buckets.Ticket]ratelimits.Permit{}}
	loan.Window = shifted(&u.window, -u.session.offset)
	for _, ticket := range u.held {
		switch {
		case ticket.taken:
			loan.Permits[ticket.id] = ticket.permit.Shift(-u.session.offset, -u.session.offset)
		case ticket.granted:
			loan.Window.Return(now, ticket.permit)
		}
	}
	if state := u.window.State(u.at(now)); loan.Processes > 1 && state.Limit > 0 {
		state.Limit = max(state.Limit/loan.Processes, 1)
		state.Used = min(state.Used, state.Limit)
		loan.Window = ratelimits.NewWindow(now, state)
		for id, permit := range loan.Permits {
			loan.Permits[id] = loan.Window.Adopt(now, permit.Sent())
		}
	}
	for _, ticket := range u.held {
		u.line = without(u.line, ticket)
	}
	u.held = nil
	u.renew(u.until)
	return loan
}

// renew extends a loan in good time, as long as nobody else wants the bucket. A loan that ends is noticed.
func (u *hubShare) renew(until time.Duration) {
	time.AfterFunc(u.hub.term/2, func() {
		u.hub.mu.Lock()
		defer u.hub.mu.Unlock()
		if u.lent && u.until == until && u.hub.renews && u.hub.err == nil && !u.wanted {
			u.until = u.hub.now() + u.hub.term
			u.renew(u.until)
		} else if u.lent && !u.session.closed {
			time.AfterFunc(until-u.hub.now(), func() {
				u.hub.mu.Lock()
				defer u.hub.mu.Unlock()
				if u.lent && u.until == until {
					u.session.notify(u.changed)
					u.pump()
				}
			})
		}
	})
}

func (u *hubShare) Until() time.Duration {
	u.hub.mu.Lock()
	defer u.hub.mu.Unlock()
	if !u.lent || u.owner != u || u.session.closed {
		return 0
	}
	return u.until - u.session.offset
}

func (u *hubShare) Wanted() bool {
	u.hub.mu.Lock()
	defer u.hub.mu.Unlock()
	return u.lent && u.owner == u && u.wanted
}

// shifted returns a copy of a window for another clock.
func shifted(w *ratelimits.Window, by time.Duration) ratelimits.Window {
	moved, _, err := ratelimits.DecodeWindow(w.Append(nil))
	if err != nil {
		panic(err) // it was written just now
	}
	moved.Shift(by, by)
	return moved
}

func (u *hubShare) Return(now time.Duration, w *ratelimits.Window, inFlight []ratelimits.Permit) (tickets []buckets.Ticket) {
	u.hub.mu.Lock()
	defer u.hub.mu.Unlock()
	if u.session.closed {
		return nil
	}
	if !u.lent {
		u.hub.misused("Return of what is not lent")
	}
	at := u.at(now)
	u.lent = false
	u.hub.returned++
	if u.owner == u {
		u.owner, u.wanted, u.window = nil, false, shifted(w, u.session.offset)
		u.flush(at)
	}
	for _, permit := range inFlight {
		ticket := u.issue()
		ticket.granted, ticket.taken, ticket.sent = true, true, u.at(permit.Sent())
		if u.owner == nil {
			ticket.permit = permit.Shift(u.session.offset, u.session.offset)
		} else {
			u.strays = append(u.strays, ticket)
		}
		tickets = append(tickets, ticket.id)
	}
	u.session.notify(func() { // when the manager has joined for those who wait
		u.hub.mu.Lock()
		u.pump()
		u.hub.mu.Unlock()
	})
	return tickets
}

func (u *hubShare) Close() {
	u.hub.mu.Lock()
	defer u.hub.mu.Unlock()
	if u.session.closed {
		return
	}
	if slices.ContainsFunc(u.held, func(t *hubTicket) bool { return !t.taken }) {
		u.hub.misused("close of a bucket while somebody waits: %d tickets", len(u.held))
	}
	u.leave()
}

// leave ends the use.
func (u *hubShare) leave() {
	u.closed, u.lent, u.offered = true, false, false
	u.session.buckets = without(u.session.buckets, u)
	u.users = without(u.users, u)
	if u.owner == u { // nobody knows what became of it
		u.owner, u.wanted, u.window = nil, false, ratelimits.Window{}
		u.flush(u.hub.now())
	}
	for _, ticket := range slices.Clone(u.held) {
		u.drop(ticket)
		u.strays = without(u.strays, ticket)
		if ticket.taken {
			u.window.Lost(u.hub.now(), ticket.permit)
		} else if ticket.granted {
			u.window.Return(u.hub.now(), ticket.permit)
		}
	}
	if len(u.users) == 0 && u.timer != nil {
		u.timer.Stop()
	}
	u.pump()
}
