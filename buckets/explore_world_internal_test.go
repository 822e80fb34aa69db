package buckets

import (
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/ratelight/ratelight/internal/wire"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// A small world has a server with two bucket hashes, a manager and at most four requests. Everything that happens is an
// event. The effect of an event depends only on the events before it, so a list of events stands for a state.

const (
	most         = 4 // maximum number of requests at one time
	bucketLimit  = 2 // requests in each bucket and period
	bucketPeriod = 4 * time.Second
	longHold     = time.Minute      // Retry-After of a 429 if nothing is held
	shortHold    = 10 * time.Second // Retry-After of a 429 if there is a hold already
	declaredMost = 2                // requests of all kinds in declaredTime
	declaredTime = 6 * time.Second
	probePatient = 10 * time.Second // how long other requests wait for the outcome of a request that goes first
)

// smallWorld says which events are possible in a world.
type smallWorld struct {
	name     string
	kinds    []kind // the kinds of requests
	answers  []answer
	declared bool // a declared limit applies to all requests
	global   int  // the global limit per second; 0 for none
	evicts   bool
	depth    int // length of stories in a normal test run
	deeper   int // length of stories with RATELIGHT_EXPLORE=1
}

// kind has the properties in which requests differ.
type kind struct {
	route  int
	tenant string
	key    string // Request.Supersedes
}

// event is a number, so that a story can be written as a list of numbers.
type event uint8

const (
	timer   event = iota // time passes until the manager's timer rings; if none is set, for a bucket's period
	second               // a second passes
	collect              // the collector runs
	lift                 // LiftHolds
	arrive               // a request of the first kind arrives; each kind has such an event
	ends    = arrive + most
	cancel  = ends + most*event(answers)
	events  = cancel + most
)

// answer is how a request ends.
type answer uint8

const (
	ok answer = iota
	otherHash
	user
	ofResource
	subLimit
	global
	edge
	lost
	notSent
	answers
)

var answerNames = [answers]string{
	"succeeds", "succeeds, and the route belongs to the other hash from now on",
	"gets a 429 of its bucket, which another client has used up",
	"gets a 429 of its resource", "gets a 429 of a sub-limit", "gets a 429 of the global limit",
	"gets a 429 of the edge", "is lost", "was never sent",
}

// counted is a bucket on the server: a fixed window.
type counted struct {
	until  time.Duration
	used   int
	others bool // another client has also used the bucket
}

type stage uint8

const (
	absent stage = iota
	waits
	flies
)

// actor is a request.
type actor struct {
	stage
	index   int // in life.actors
	kind    kind
	rank    int // in the order of arrival, or the rank of the request that this one supersedes
	version int // in the order of arrival
	before  int // the highest version that was sent before this request
	number  int // in the order of sending
	sent    time.Duration
	after   uint8 // a bit for each scope: this request was sent after the latest 429 of that scope
	newest  bool  // no response to a later request of the route has named a hash
	unaware bool  // this request, or one in flight with it, was sent before the bucket's limit was known

	request *Request
	waiter  *waiter
	lease   Lease
	asked   time.Duration
	leaves  time.Duration // the predicted time at which the request leaves; 0 if there is no valid prediction
}

// life is one story while it happens.
type life struct {
	world   *smallWorld
	manager *RESTBucketManager
	server  *server
	clock   exploreClock
	actors  [most]actor
	ranks   int
	numbers int
	granted []int // indexes of the actors that left because of the latest event
	fault   string
	drains  bool // all requests succeed from now on
	memory
	tells bool
	story []string
}

var (
	exploreSeed = maphash.MakeSeed()
	exploreKey  = wire.NewKey(nil)
	// All managers use this one limit, because the keys of queues contain the address of the limit.
	exploreDeclared = WithLimit(ForAll(), declaredMost, declaredTime)
	exploreStart    = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	exploreRoutes   = [2]routes.CompiledRoute{
		must(routes.CreateMessage.Compile("1")), must(routes.GetChannel.Compile("1")),
	}
	exploreHashes = [2]string{"hash x", "hash y"}
)

func must(r routes.CompiledRoute, err error) routes.CompiledRoute {
	if err != nil {
		panic(err)
	}
	return r
}

func newLife(w *smallWorld) *life {
	l := &life{world: w, clock: exploreClock{at: exploreStart}}
	options := []Option{WithClock(&l.clock), WithGlobalLimit(w.global), WithInvalidBudget(0, 0, 0)}
	if w.declared {
		options = append(options, exploreDeclared)
	}
	m := NewRESTBucketManager(options...)
	m.seed = exploreSeed
	m.key.Store(exploreKey)
	m.state.Store(running) // without the garbage collector's goroutine
	l.manager, l.server = m, m.discord
	l.memory.init()
	for i := range l.actors {
		l.actors[i].index = i
	}
	return l
}

func (l *life) now() time.Duration { return l.manager.now() }

func (l *life) say(format string, values ...any) {
	if l.tells {
		at := l.clock.at.Sub(exploreStart).Seconds()
		l.story = append(l.story, fmt.Sprintf("%7.3f s  ", at)+fmt.Sprintf(format, values...))
	}
}

func (l *life) fail(format string, values ...any) {
	if l.fault == "" {
		l.fault = fmt.Sprintf(format, values...)
		l.say("WRONG: %s", l.fault)
	}
}

// possible returns the events that can happen now, as a bit for each.
func (l *life) possible() (all uint64) {
	may := func(e event) { all |= 1 << e }
	may(timer)
	if !l.clock.set || l.clock.due.Sub(l.clock.at) > time.Second {
		may(second)
	}
	if l.world.evicts {
		may(collect)
	}
	if l.anythingHeld() {
		may(lift)
	}
	free := slices.ContainsFunc(l.actors[:], func(a actor) bool { return a.stage == absent })
	for k := range l.world.kinds {
		if free {
			may(arrive + event(k))
		}
	}
	for i := range l.actors {
		switch l.actors[i].stage {
		case waits:
			may(cancel + event(i))
		case flies:
			for _, a := range l.world.answers {
				may(ends + event(i)*event(answers) + event(a))
			}
		}
	}
	return all
}

// do makes an event happen.
func (l *life) do(e event) {
	l.granted = l.granted[:0]
	switch {
	case e == timer:
		l.wait(bucketPeriod + time.Second)
	case e == second:
		l.wait(time.Second)
	case e == collect:
		l.say("the collector runs")
		l.forgetPredictions()
		l.manager.collect()
	case e == lift:
		l.say("LiftHolds is called")
		l.liftHolds()
		l.manager.LiftHolds()
	case e < ends:
		l.arrive(l.world.kinds[e-arrive])
	case e < cancel:
		l.end(int(e-ends)/int(answers), answer((e-ends)%event(answers)))
	default:
		a := &l.actors[e-cancel]
		l.say("%s is cancelled", a)
		if a.stage != waits || !a.waiter.withdraw() {
			l.fail("%s waits, but cannot be cancelled", a)
			return
		}
		a.reset()
	}
	l.settle()
	l.check()
}

func (a *actor) String() string {
	text := fmt.Sprintf("request %d (%s", a.index, exploreRoutes[a.kind.route].Route())
	if a.kind.tenant != "" {
		text += ", tenant " + a.kind.tenant
	}
	if a.kind.key != "" {
		text += ", key " + a.kind.key
	}
	return text + ")"
}

// reset makes the actor absent.
func (a *actor) reset() { *a = actor{index: a.index} }

// wait lets time pass (see exploreClock.pass), and calls the timer's function if the timer is due.
func (l *life) wait(d time.Duration) {
	if rings := l.clock.pass(d); rings {
		l.say("the timer rings")
		l.clock.ring()
	} else {
		l.say("time passes, and no timer rings")
	}
}

func (l *life) arrive(k kind) {
	i := slices.IndexFunc(l.actors[:], func(a actor) bool { return a.stage == absent })
	l.ranks++
	request := &Request{Route: exploreRoutes[k.route], Authorization: "Bot x", Group: k.tenant, Supersedes: k.key}
	rank := l.ranks
	for o := range l.rivals(k, waits) {
		rank = o.rank
	}
	l.actors[i] = actor{index: i, kind: k, rank: rank, version: l.ranks, request: request}
	l.say("%s arrives", &l.actors[i])
	l.ask(&l.actors[i])
}

// ask lets a request enter the manager, for the first time or after a 429.
func (l *life) ask(a *actor) {
	wait, because, _ := l.manager.Predict(a.request)
	if a.asked, a.leaves = l.now(), 0; wait > 0 && because != WaitsForProbe {
		a.leaves = a.asked + wait
	}
	w := &waiter{ready: make(chan struct{}, 1)}
	queued, _, err := l.manager.enter(context.Background(), w, a.request)
	switch {
	case queued:
		a.stage, a.waiter = waits, w
		l.say("  it waits; the predicted wait is %v", wait)
	default:
		lease, err := l.manager.deliver(w, a.request, err)
		l.resolved(a, lease, err)
	}
}

// settle records the results of waiting requests that have been granted or rejected.
func (l *life) settle() {
	for i := range l.actors {
		a := &l.actors[i]
		if a.stage != waits {
			continue
		}
		select {
		case <-a.waiter.ready:
			lease, err := l.manager.deliver(a.waiter, a.request, a.waiter.err)
			l.resolved(a, lease, err)
		default:
		}
	}
}

func (l *life) resolved(a *actor, lease Lease, err error) {
	a.waiter = nil
	if err != nil {
		l.say("  %s is rejected: %v", a, err)
		l.rejected(a, err)
		a.reset()
		return
	}
	l.numbers++
	a.stage, a.lease, a.sent, a.number, a.after, a.newest = flies, lease, l.now(), l.numbers, 0xFF, true
	if a.kind.key != "" {
		if l.newest[a.kind.route] > a.version {
			l.fail("%s is sent after a newer request with the same key", a)
		}
		a.before, l.newest[a.kind.route] = l.newest[a.kind.route], a.version
	}
	l.say("  %s is sent", a)
	l.granted = append(l.granted, a.index)
}

// end ends a request in flight. The server counts the request at that moment.
func (l *life) end(i int, how answer) {
	a, now := &l.actors[i], l.now()
	if a.stage != flies {
		l.fail("%s is not in flight, although it was in an earlier run of this story", a)
		return
	}
	if how == otherHash {
		l.hashOf[a.kind.route] ^= 1
		l.moved = true
	}
	hash := l.hashOf[a.kind.route]
	c := &l.counted[hash]
	if c.until <= now {
		*c = counted{until: now + bucketPeriod}
		l.forgiven[hash] = false
	}
	l.say("%s %s", a, answerNames[how])
	r := ratelimits.Response{Status: 200, Limited: true, Bucket: exploreHashes[hash], Limit: bucketLimit}
	r.ResetAfter = c.until - now
	refuse := func(class ratelimits.Class, wait time.Duration) {
		r.Status, r.Class, r.HasRetryAfter, r.RetryAfter = 429, class, true, wait
	}
	wait := longHold
	if l.anythingHeld() {
		wait = shortHold
	}
	switch how {
	case ok, otherHash:
		if c.used == bucketLimit {
			l.say("  no: the server has counted %d requests and refuses this one", c.used)
			l.refusedByCount(a, hash, c)
			refuse(ratelimits.ClassUser, c.until-now)
			break
		}
		c.used++
	case user:
		c.used, c.others = bucketLimit, true
		refuse(ratelimits.ClassUser, c.until-now)
	case ofResource:
		refuse(ratelimits.ClassShared, wait)
	case subLimit:
		refuse(ratelimits.ClassSubLimit, wait)
	case global:
		r = ratelimits.Response{}
		refuse(ratelimits.ClassGlobal, wait)
	case edge:
		r = ratelimits.Response{}
		refuse(ratelimits.ClassEdge, wait)
	case lost:
		c.used = min(c.used+1, bucketLimit)
		// The manager cannot know in which bucket the request was counted.
		c.others = c.others || l.known[a.kind.route] == nowhereYet
		r = ratelimits.Response{}
	}
	if r.Limited {
		r.Remaining = bucketLimit - c.used
	}
	if r.Class != ratelimits.ClassOK {
		l.say("  Retry-After: %v", r.RetryAfter)
	}
	ended, lease := *a, a.lease
	a.stage = absent
	l.ended(&ended, how, hash, &r)
	switch how {
	case lost:
		lease.Release()
	case notSent:
		if a.kind.key != "" && l.newest[a.kind.route] == a.version {
			l.newest[a.kind.route] = a.before
		}
		lease.Return()
	default:
		lease.Update(r)
	}
	if r.Class == ratelimits.ClassOK {
		a.reset()
		return
	}
	l.settle()
	l.forgetHolds()
	a.lease = Lease{}
	l.ask(a) // the refused request is acquired again
}

// digest returns the digest of the state: of what the manager and the server know and of what the model needs.
// Predictions are not part of it. So if two stories lead to the same state, only the predictions of the first story are
// checked.
func (l *life) digest(d *digest) uint64 {
	*d = digest{now: l.now()}
	digestOf(d, l.server)
	digestOf(d, &l.memory)
	if l.clock.set {
		d.addTime(l.clock.due.Sub(l.clock.at))
	}
	var all []*actor
	for i := range l.actors {
		if l.actors[i].stage != absent {
			all = append(all, &l.actors[i])
		}
	}
	slices.SortFunc(all, func(a, b *actor) int { return a.rank - b.rank })
	for _, a := range all {
		d.add(uint64(a.stage))
		d.add(uint64(a.kind.route))
		d.add(uint64(len(a.kind.tenant)))
		if a.kind.key != "" {
			d.add(uint64(a.version))
			d.add(uint64(a.before))
		}
		d.add(uint64(a.after))
		if a.newest {
			d.add(3)
		}
		d.add(numberOf(d, a.waiter))
		d.add(numberOf(d, a.lease.held))
		for _, b := range all {
			if b.number < a.number {
				d.add(5)
			}
		}
	}
	return d.sum
}

// exploreClock is a clock that moves only by calls of pass. It has only one timer, the server's.
type exploreClock struct {
	clockwork.Clock
	at, due time.Time
	set     bool
	ring    func()
}

func (c *exploreClock) Now() time.Time                           { return c.at }
func (c *exploreClock) Since(t time.Time) time.Duration          { return c.at.Sub(t) }
func (c *exploreClock) Until(t time.Time) time.Duration          { return t.Sub(c.at) }
func (c *exploreClock) NewTicker(time.Duration) clockwork.Ticker { panic("a ticker was not expected") }

func (c *exploreClock) AfterFunc(d time.Duration, f func()) clockwork.Timer {
	if c.ring != nil {
		panic("a second timer was not expected")
	}
	c.ring = f
	t := exploreTimer{c}
	t.Reset(d)
	return t
}

// pass moves the clock to the instant at which the timer is due, if the timer is set and either d is longer than a
// second or the timer is due within d. Otherwise, it moves the clock by d. It reports whether the timer is due.
func (c *exploreClock) pass(d time.Duration) (rings bool) {
	until := c.at.Add(d)
	if rings = c.set && (d > time.Second || !c.due.After(until)); rings {
		if until = c.due; until.Before(c.at) {
			until = c.at
		}
		c.set = false
	}
	c.at = until
	return rings
}

type exploreTimer struct{ *exploreClock }

func (t exploreTimer) Chan() <-chan time.Time { return nil }

func (t exploreTimer) Stop() bool {
	was := t.set
	t.set = false
	return was
}

func (t exploreTimer) Reset(d time.Duration) bool {
	was := t.set
	t.due, t.set = t.at.Add(d), true
	return was
}
