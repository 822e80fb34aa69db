package shared

import (
	"errors"
	"strconv"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

var exchangeScript = script("exchange",
	"arguments.lua", "bucket.lua", "window.lua", "queue.lua", "report.lua", "loan.lua", "lend.lua", "exchange.lua")

const (
	// loanTime is how long a loan lasts that is not renewed. The scripts know it, too.
	loanTime = 3 * time.Second
	// loanBias divided by three is how long nobody else must have used a bucket before it is lent.
	loanBias = 3 * time.Second
	// mostNames is how many tickets one call brings at most, how many it takes back, and how many outcomes it says, so that it does
	// not keep others waiting at the server.
	mostNames = 500
)

// request is what one call says. It is taken from the agent, which drops it when the call has got through.
type request struct {
	now      time.Duration
	low      uint64
	waiting  int // tickets that are queued at the server after the call
	first    uint64
	known    known
	returned *returned
	flying   []*ticket
	outcomes []outcome
	drops    []uint64
	names    []*ticket
	hold     time.Duration
	class    ratelimits.Class
}

// arguments is a list of arguments that grows.
type arguments []string

func (a *arguments) add(numbers ...int64) {
	for _, n := range numbers {
		*a = append(*a, strconv.FormatInt(n, 10))
	}
}

func (a *arguments) count(n int) { a.add(int64(n)) }

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// until returns the milliseconds from now until t, none if it is past.
func until(t, now time.Duration) int64 { return max(ceilMillis(t-now), 0) }

// arguments writes the request as exchange.lua reads it.
func (q *request) arguments(b *bucket) []string {
	s := b.session
	a := make(arguments, 0, 32+4*len(q.flying)+12*len(q.outcomes)+len(q.drops)+2*len(q.names))
	a = append(a, s.id, b.name, s.store.keys.channel(""))
	lease := s.store.options.lease
	a.add(lease.Milliseconds(), sessionTime.Milliseconds(), loanBias.Milliseconds(), int64(q.low))
	a.count(q.waiting)
	a.add(int64(q.first), q.known.born, int64(q.known.limit), q.known.period.Milliseconds(), until(q.known.end, q.now))
	a.count(int(bit(q.returned != nil)))
	if q.returned != nil {
		q.returned.write(&a, q.now)
	}
	a.count(len(q.flying))
	for _, t := range q.flying {
		a.add(int64(t.number), max(until(t.since+lease, q.now), 1))
	}
	a.count(len(q.outcomes))
	for i := range q.outcomes {
		q.outcomes[i].write(&a, q.now)
	}
	a.count(len(q.drops))
	for _, n := range q.drops {
		a.add(int64(n))
	}
	a.add(q.hold.Milliseconds(), int64(q.class))
	a.count(len(q.names))
	for _, t := range q.names {
		a.add(int64(t.number), (q.now - t.Arrived).Microseconds())
	}
	return a
}

// outcome is what became of a request, until the server knows.
type outcome struct {
	number   uint64
	window   int64 // in which its permit was granted
	at       time.Duration
	sent     time.Duration
	unsent   bool
	response ratelimits.Response
}

func (o *outcome) write(a *arguments, now time.Duration) {
	r := &o.response
	var hold time.Duration
	if r.Class != ratelimits.ClassOK {
		hold = r.AskedWait()
	}
	reset := min(r.ResetAfter, ratelimits.LongestTrust)
	a.add(int64(o.number), o.window, bit(o.unsent), int64(r.Status), int64(r.Class), bit(r.Limited), int64(r.Limit), int64(r.Remaining),
		until(o.at+reset+time.Millisecond, now), reset.Milliseconds(), r.Stamp, until(o.at+hold, now))
}

// returned is the state of a loan that ended, until the server has it.
type returned struct {
	number int64 // of the loan, 0 if it was one that the process gave itself
	state  ratelimits.State
	at     time.Duration
	lost   bool // it is not known what became of the bucket
	alone  bool // others may have used it by themselves at the same time
}

func (r *returned) write(a *arguments, now time.Duration) {
	s := &r.state
	limit := int64(s.Limit)
	if r.lost {
		limit = -1
	}
	rest := until(r.at+s.Reset, now)
	if rest == 0 && s.Limit > 0 {
		s.Used = 0
	}
	a.add(r.number, limit, int64(s.Used), rest, s.Period.Milliseconds(), s.Stamp, until(r.at+s.Hold, now), int64(s.HoldClass),
		bit(s.Probing), bit(s.Unlimited), bit(r.alone))
}

// known is what the last reply said of the bucket.
type known struct {
	at      time.Duration // when it came
	born    int64
	window  int64
	wait    time.Duration // until the first ticket that waits may be granted, from at
	class   ratelimits.Class
	limit   int
	period  time.Duration
	end     time.Duration // when the window is over
	left    int           // permits that may be granted at once
	ahead   int           // tickets of others ahead of our first
	others  int           // tickets of others
	hold    time.Duration // until when
	holding ratelimits.Class
}

// answer is a reply, read.
type answer struct {
	known
	again   int64 // againNames, againAll
	lent    int64 // lentMine, lentOther
	live    int
	loan    int64
	granted []uint64
	state   ratelimits.State
}

const (
	againNames = 1 // the server does not know our tickets
	againAll   = 2 // it has forgotten the bucket
	lentMine   = 1
	lentOther  = 2
)

var errReply = errors.New("shared: the reply of script exchange is malformed: do all processes use the same version?")

// read reads a reply as exchange.lua writes it.
func (r *reply) read() (answer, error) {
	const fixed = 18
	v := r.values
	if len(v) < fixed || v[fixed-1] > int64(len(v)-fixed) || v[fixed-1] < 0 {
		return answer{}, errReply
	}
	a := answer{again: v[0], lent: v[1], live: int(v[12]), loan: v[16]}
	a.known = known{
		at: r.received, born: v[2], window: v[3], wait: millis(v[4]), class: ratelimits.Class(v[5]), limit: int(v[6]), period: millis(v[7]),
		end: r.received + millis(v[8]), left: int(v[9]), ahead: int(v[13]), others: int(v[14]),
		hold: r.received + millis(v[15]), holding: ratelimits.Class(v[10]),
	}
	rest := v[fixed:]
	for _, n := range rest[:v[fixed-1]] {
		a.granted = append(a.granted, uint64(n))
	}
	rest = rest[v[fixed-1]:]
	if a.lent != lentMine {
		return a, nil
	}
	if len(rest) < 5 {
		return answer{}, errReply
	}
	a.state = ratelimits.State{
		Limit: a.limit, Used: int(rest[0]), Reset: millis(rest[1]), Period: a.period, Stamp: rest[2], Probing: rest[3] == 1, Unlimited: rest[4] == 1,
	}
	return a, nil
}
