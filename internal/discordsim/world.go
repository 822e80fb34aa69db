package discordsim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"
)

// World is the simulated Discord without a transport. It holds all state, and its methods get the time as an argument.
// A World has no lock, starts no goroutine and reads no clock. Use a [Server] unless the test itself decides when
// requests are processed and answered.
type World struct {
	config             Config
	start              time.Time
	now                time.Time
	rules              []*ruleState // the last one is the default
	buckets            map[bucketKey]*bucket
	gates              map[gateKey]*gate
	operations         map[operationKey]*discovery
	invalid            map[string]*invalidCount // by address
	foreign            []*consumer
	chance             *rand.Rand
	sweepFrom, sweepAt int // evict idle buckets and gates when there are sweepAt of them

	report           Report
	evicted          BucketReport
	events, refusals eventLog
}

// recentEvents is the number of events, and the number of refusals, that are kept: always the latest ones.
const recentEvents = 256

// ruleState is a rule, with its counts and with the changes that have been noticed so far.
type ruleState struct {
	Rule
	index     int
	requests  int
	changes   int       // changes that have been noticed
	changed   time.Time // when the latest change was noticed
	described time.Time // when the first honest description after that change was delivered
}

type bucketKey struct{ counters, major, authorization string }

type bucket struct {
	gate
	tally   Tally
	highest int64 // highest sequence number of an accepted request so far
}

// gateKey identifies a gate (a limit) that is not a route's bucket.
type gateKey struct {
	class         Class
	name          string
	index         int
	major         string
	authorization string
}

// NewWorld returns a world that begins at start. The error wraps [ErrConfig].
func NewWorld(start time.Time, config Config) (*World, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	w := &World{
		config:     config,
		start:      start,
		now:        start,
		buckets:    make(map[bucketKey]*bucket),
		gates:      make(map[gateKey]*gate),
		operations: make(map[operationKey]*discovery),
		invalid:    make(map[string]*invalidCount),
		chance:     rand.New(rand.NewPCG(config.Seed, 1)),
		sweepFrom:  1 << 16,
		sweepAt:    1 << 16,
		events:     eventLog{size: recentEvents},
		refusals:   eventLog{size: recentEvents},
	}
	if config.FullLog {
		w.events.size, w.refusals.size = 0, 0
	}
	for i, rule := range append(slices.Clone(config.Rules), *config.Default) {
		w.rules = append(w.rules, &ruleState{Rule: rule, index: i})
	}
	for _, use := range config.Foreign {
		w.foreign = append(w.foreign, newConsumer(use))
	}
	return w, nil
}

// exchange is one request on its way through the limits.
type exchange struct {
	call   Call
	who    Consumer
	rule   *ruleState
	faults appliedFaults
	// The rule, its changes and its variants decide the fields that follow.
	hash          string // as announced
	counters      string // name of the counters
	quota         Quota
	status        int
	unpredictable bool
	renamed       bool      // at present, the counters are announced under more than one hash
	settled       time.Time // when the rule began to use these counters
	discovery     *discovery
	stray         *stray // nil if the request is no stray

	bucket  *bucket // nil before the request has reached it
	refusal refusal

	late      time.Duration // how much later than announced the refusing limit opens, if lateness caused the refusal
	announced time.Time     // when the limit should have opened
	firstLate bool          // the request is the first one refused at that opening
	early     []*gate       // limits that accepted the request earlier than refusals had suggested
}

// refusal says which limit refuses a request, and for how long.
type refusal struct {
	class  Class
	gate   *gate
	retry  time.Duration // the true time until a request would be accepted, not rounded
	code   int
	page   Page
	silent bool
	named  string // the bucket that the refusal names; "": that of the route
	// decreed says that a block has caused the refusal, and not a full counter.
	decreed bool
}

// advance moves the world's time forwards and makes the foreign requests that are due. Time never goes backwards.
func (w *World) advance(now time.Time) time.Time {
	if now.Before(w.now) {
		now = w.now
	}
	w.runForeign(now)
	w.now = now
	return now
}

// begin returns the exchange of a request, with the rule that matches and the call that hooks see.
func (w *World) begin(now time.Time, request Request, who Consumer) *exchange {
	if request.SentAt.IsZero() {
		request.SentAt = now
	}
	op := parseOperation(request.Method, request.Path)
	x := &exchange{who: who, rule: w.rules[len(w.rules)-1]}
	for _, rule := range w.rules {
		if rule.matches(op) {
			x.rule = rule
			break
		}
	}
	if who == Own {
		x.rule.requests++
	}
	x.call = Call{
		Request: request, Now: now, Clock: now.Add(w.config.ClockSkew), Elapsed: now.Sub(w.start),
		Operation: op.String(), Major: op.major, N: x.rule.requests, op: op,
	}
	w.applyRule(x)
	return x
}

// applyRule fills in what the rule, its changes and its variants decide.
func (w *World) applyRule(x *exchange) {
	var own string
	if x.rule.Hash == "" {
		own = x.call.op.hash()
	}
	v := x.rule.at(x.call.Elapsed, own, func() float64 {
		if x.rule.Server != nil {
			return x.rule.Server(x.call)
		}
		return w.chance.Float64()
	})
	x.hash, x.counters, x.quota, x.unpredictable, x.renamed = v.hash, v.counters, v.quota, v.mixed, v.renamed
	x.settled = w.start.Add(v.settled)
	if v.changes != x.rule.changes {
		x.rule.changes, x.rule.changed, x.rule.described = v.changes, x.call.Now, time.Time{}
	}
	x.status = cmp.Or(x.rule.Status, http.StatusOK)
	if x.rule.Vary != nil {
		variant := x.rule.Vary(x.call)
		if err := variant.Quota.validate(); err != nil {
			panic(fmt.Errorf("variant of %s: %w", &x.rule.Rule, err))
		}
		if variant.Hash != "" {
			x.hash, x.counters = variant.Hash, variant.Hash
		}
		x.status = cmp.Or(variant.Status, x.status)
		if variant.Quota.Kind != KindNone {
			x.quota = variant.Quota
		}
		if variant.Lateness != (Lateness{}) && x.quota.limited() {
			x.quota.Lateness = variant.Lateness
		}
		x.unpredictable = x.unpredictable || variant.Unpredictable
	}
	if x.rule.Announce != "" {
		x.unpredictable = true
	}
}

// pickFaults chooses the first fault that applies. Faults of the rule come before faults of the world. If the chosen
// fault has Also set, the search goes on.
func (w *World) pickFaults(x *exchange) {
	overall := x.call
	overall.N = w.report.Requests
	_ = x.pick(x.rule.Faults, x.call, w.chance) || x.pick(w.config.Faults, overall, w.chance)
}

// pick adds the faults that apply. It reports whether the search for faults is over.
func (x *exchange) pick(faults []Fault, call Call, rng *rand.Rand) bool {
	for i := range faults {
		if f := &faults[i]; f.applies(call, rng) {
			x.faults = append(x.faults, f)
			if !f.Also {
				return true
			}
		}
	}
	return false
}

// Handle processes one request at the given time and returns the answer. The client learns nothing from the answer
// until [World.Deliver] is called. If now is earlier than the time of an earlier call, that earlier call's time is
// used.
func (w *World) Handle(now time.Time, request Request) *Response {
	now = w.advance(now)
	w.report.Requests++
	x := w.begin(now, request, Own)
	if w.report.First.IsZero() || x.call.Request.SentAt.Before(w.report.First) {
		w.report.First = x.call.Request.SentAt
	}
	w.report.Last = now
	w.pickFaults(x)
	x.discovery = w.discover(x)
	w.impose(x)

	response := &Response{}
	switch {
	case x.faults.connection() == ConnectionLostBefore:
		response.Connection, response.lost = ConnectionLostBefore, true
	case w.edgeRefuses(x):
		w.writeEdge(response, now, x.refusal)
	case w.globalRefuses(x):
		response.Header = w.apiHeader(now)
		w.writeRefusal(response, x)
		x.faults.spoil(x.call, response)
	default:
		refused := w.routeRefuses(x)
		response.Header = w.apiHeader(now)
		w.writeDescription(response, x)
		if refused {
			w.writeRefusal(response, x)
		} else {
			w.writeAnswer(response, x)
			w.countError(x, response)
		}
		x.faults.spoil(x.call, response)
	}
	if x.refusal.gate != nil {
		response.Verdict, response.Because = w.judge(x)
	}
	response.lost = response.Connection != ConnectionKept
	w.teach(response, x)
	x.discovery.note(response, x)
	w.account(response, x)
	w.sweep(now)
	return response
}

// writeDescription adds the limit headers, unless there is no limit or a fault answers with a server error.
func (w *World) writeDescription(response *Response, x *exchange) {
	if x.refusal.named != "" {
		w.describe(response.Header, x.call.Now, x.refusal.named, stated(x.refusal.gate.counter, x.call.Now))
		return
	}
	status, _ := x.faults.answer()
	if x.bucket.counter == nil || x.refusal.gate == nil && status >= http.StatusInternalServerError {
		return
	}
	state := x.faults.state(stated(x.bucket.counter, x.call.Now))
	if x.refusal.class == ClassUser { // because of lateness or a block, the wait may be longer than the announced reset
		state.Remaining, state.ResetAfter = 0, max(state.ResetAfter, x.refusal.retry)
	}
	w.describe(response.Header, x.call.Now, cmp.Or(x.rule.Announce, x.hash), state)
}

// writeAnswer answers an accepted request.
func (w *World) writeAnswer(response *Response, x *exchange) {
	response.Status = x.status
	if x.rule.Body != "" {
		response.Body = []byte(x.rule.Body)
	}
	status, body := x.faults.answer()
	if status != 0 {
		response.Status, response.Body = status, nil
	}
	if body != "" {
		response.Body = []byte(body)
	}
	if response.Body == nil {
		response.Body = defaultBody(response.Status)
	}
	switch {
	case response.Status >= http.StatusInternalServerError:
		response.Header.Set("Content-Type", "text/plain")
	case response.Status == http.StatusNoContent: // as Discord does; libraries would try to parse empty JSON
		response.Header.Set("Content-Type", "text/html; charset=utf-8")
	}
	response.handle = x.faults.handle()
}
