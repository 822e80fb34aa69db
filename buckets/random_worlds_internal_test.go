package buckets

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// The explorer tries all orders of a few events in worlds with one channel and one credential. Random worlds are
// larger: they have several credentials and channels, tokens in paths, tenants, priority, ordered requests, maximum
// waits, declared limits of all kinds, unread 429s and restarts.

// Random events happen in random worlds. No request that can leave may wait, no declared limit may be exceeded, and at
// the end all permits must have been given back. In worlds 183 and 13328 a reservation in the queue of a sub-limit once
// stopped a bucket for ever.
func TestRandomWorldsStandStillNowhere(t *testing.T) {
	t.Parallel()
	seeds := []uint64{13328}
	for seed := range uint64(200) {
		seeds = append(seeds, seed)
	}
	for _, seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			w := newRandomWorld(t, seed)
			defer w.manager.Close()
			w.live()
			if w.fault == "" && w.pick(3) == 0 {
				w.restart()
			}
			w.end()
			if w.fault != "" {
				t.Errorf("world %d: %s\n%s", seed, w.fault, strings.Join(w.story, "\n"))
			}
		})
	}
}

var randomRoutes = []routes.Route{routes.CreateMessage, routes.ListMessages, routes.ExecuteWebhook, routes.GetMyUser}

type randomWorld struct {
	random  *rand.Rand
	manager *RESTBucketManager
	server  *server
	start   time.Time
	rules   []randomRule
	unread  bool // the headers of some 429s arrive before the body

	// The server's state.
	limits   [4]int // the limit of the buckets of each hash
	periods  [4]time.Duration
	sameHash bool // the first two routes share one hash
	renamed  map[string]bool
	buckets  map[string]*randomBucket

	mu       sync.Mutex
	requests []*randomRequest
	charges  map[string][]*randomCharge // by window of a declared limit
	last     map[string]int             // for each kind, the highest id of a granted request
	story    []string
	fault    string
}

// randomRule is a declared limit.
type randomRule struct {
	limit            int
	period           time.Duration
	route            int // index in randomRoutes; -1 for all routes
	across, perMajor bool
}

type randomBucket struct {
	until  time.Duration
	used   int
	limit  int
	period time.Duration
}

// randomCharge is a request that counts for a declared limit.
type randomCharge struct {
	of      *randomRequest
	forGood bool // the request has ended and counts
	until   time.Duration
}

type randomRequest struct {
	Request
	id     int
	ctx    context.Context
	cancel context.CancelFunc
	kind   string // requests of the same kind must leave in order
	hash   string // key of the server's bucket: hash, major parameter and credential
	major  string
	rules  []int

	lease                 Lease
	done, flies, canceled bool
	again                 bool // the request has got a 429 and is acquired again
}

func newRandomWorld(t *testing.T, seed uint64) *randomWorld {
	w := &randomWorld{
		random: rand.New(rand.NewPCG(seed, 7)), start: time.Now(),
		renamed: map[string]bool{}, buckets: map[string]*randomBucket{},
		charges: map[string][]*randomCharge{}, last: map[string]int{},
	}
	options := []Option{WithEviction(0, w.seconds(10)), WithMaxRateLimit(24 * time.Hour), WithLogger(nil)}
	global := 0
	if w.pick(2) == 0 {
		global = 1 + w.pick(4)
	}
	options = append(options, WithGlobalLimit(global))
	for i := range w.pick(4) {
		rule := randomRule{route: w.pick(4) - 1}
		rule.limit, rule.period = 1+w.pick(3), w.seconds(10)
		match, of := ForAll(), []LimitOption{Named(strconv.Itoa(i))}
		if rule.route >= 0 {
			match = ForRoute(randomRoutes[rule.route])
		}
		if rule.across = w.pick(2) == 0; rule.across {
			of = append(of, AcrossCredentials())
		}
		if rule.perMajor = w.pick(3) == 0; rule.perMajor {
			of = append(of, PerMajor())
		}
		w.rules = append(w.rules, rule)
		options = append(options, WithLimit(match, rule.limit, rule.period, of...))
	}
	w.manager = NewRESTBucketManager(options...)
	if err := w.manager.Start(); err != nil {
		t.Fatal(err)
	}
	w.server = w.manager.discord
	for i := range w.limits {
		w.limits[i] = 1 + w.pick(5)
	}
	for i := range w.periods {
		w.periods[i] = w.seconds(8)
	}
	w.sameHash, w.unread = w.pick(3) == 0, w.pick(2) == 0
	return w
}

func (w *randomWorld) pick(n int) int              { return w.random.IntN(n) }
func (w *randomWorld) seconds(n int) time.Duration { return time.Duration(1+w.pick(n)) * time.Second }
func (w *randomWorld) now() time.Duration          { return time.Since(w.start) }

func (w *randomWorld) say(format string, values ...any) {
	w.story = append(w.story, fmt.Sprintf("%10.3f "+format, append([]any{w.now().Seconds()}, values...)...))
}

func (w *randomWorld) fail(format string, values ...any) {
	if w.fault == "" {
		w.fault = fmt.Sprintf(format, values...)
		w.say("WRONG: %s", w.fault)
	}
}

func (w *randomWorld) those(are func(r *randomRequest) bool) (all []*randomRequest) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.requests {
		if are(r) {
			all = append(all, r)
		}
	}
	return all
}

func isInFlight(r *randomRequest) bool { return r.flies }
func isOpen(r *randomRequest) bool     { return !r.done }

// live lets random events happen.
func (w *randomWorld) live() {
	for range 20 + w.pick(120) {
		if w.fault != "" {
			return
		}
		switch k := w.pick(20); {
		case k < 7:
			w.arrive()
		case k < 13:
			if all := w.those(isInFlight); len(all) > 0 {
				w.answer(all[w.pick(len(all))], w.pick(2) == 0)
			}
		case k < 14:
			if all := w.those(func(r *randomRequest) bool { return !r.done && !r.canceled }); len(all) > 0 {
				r := all[w.pick(len(all))]
				w.say("%d is cancelled", r.id)
				r.canceled = true
				r.cancel()
			}
		case k < 15 && w.pick(6) == 0:
			hash := fmt.Sprint("h", w.pick(4))
			w.say("the name of %s changes", hash)
			w.renamed[hash] = !w.renamed[hash]
		case k < 15 && w.pick(4) == 0:
			w.say("the collector runs")
			w.manager.collect()
		case k < 15 && w.pick(4) == 0:
			w.say("LiftHolds")
			w.manager.LiftHolds()
		case k < 16 && w.pick(4) == 0:
			w.say("Throttle")
			w.manager.Throttle(w.seconds(20))
		default:
			time.Sleep(time.Duration(1+w.pick(3000)) * time.Millisecond)
		}
		time.Sleep(time.Millisecond + 123*time.Nanosecond)
		w.check()
	}
}

func (w *randomWorld) arrive() {
	r := &randomRequest{id: len(w.requests)}
	route, channel := w.pick(4), strconv.Itoa(1+w.pick(2))
	var compiled routes.CompiledRoute
	switch route {
	case 2:
		compiled, r.major = must(randomRoutes[route].Compile("77", "token"+channel)), "token"+channel
	case 3:
		compiled = must(randomRoutes[route].Compile())
	default:
		compiled, r.major = must(randomRoutes[route].Compile(channel)), channel
	}
	credential, tenant := []string{"Bot one", "Bot two", ""}[w.pick(3)], []string{"", "", "a", "b"}[w.pick(4)]
	r.Request = Request{Route: compiled, Authorization: credential, Group: tenant}
	hash := route
	if w.sameHash && route == 1 {
		hash = 0
	}
	r.hash = fmt.Sprint("h", hash, "|", r.major, "|", credential)
	if route == 2 { // a token has one bucket for all credentials
		r.hash = fmt.Sprint("h", hash, "|", r.major)
	}
	if w.buckets[r.hash] == nil {
		w.buckets[r.hash] = &randomBucket{limit: w.limits[hash], period: w.periods[hash]}
	}
	ctx := context.Background()
	priority, ordered := w.pick(8) == 0, w.pick(8) == 0
	if priority {
		ctx = ContextWithPriority(ctx)
	}
	if ordered {
		ctx = ContextWithOrdered(ctx)
	}
	if w.pick(8) == 0 {
		ctx = ContextWithMaxWait(ctx, time.Duration(w.pick(20))*time.Second)
	}
	r.ctx, r.cancel = context.WithCancel(ctx)
	r.kind = fmt.Sprint(route, " ", compiled.Path(), credential, tenant, priority, ordered)
	for i, rule := range w.rules {
		if rule.route < 0 || rule.route == route {
			r.rules = append(r.rules, i)
		}
	}
	w.requests = append(w.requests, r)
	w.say("%d arrives: %s, declared limits %v", r.id, r.kind, r.rules)
	w.ask(r)
}

func (w *randomWorld) ask(r *randomRequest) {
	AcquireFunc(r.ctx, w.manager, &r.Request, func(lease Lease, err error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		r.done, r.lease, r.flies = true, lease, err == nil
		if err != nil {
			w.say("  %d is rejected: %v", r.id, err)
			return
		}
		w.granted(r)
	})
	synctest.Wait()
}

// granted checks that a request may be sent now, and charges it to its declared limits.
func (w *randomWorld) granted(r *randomRequest) {
	w.say("  %d is granted", r.id)
	if last, ok := w.last[r.kind]; ok && last > r.id && !r.again {
		w.fail("%d leaves after %d, which came later", r.id, last)
	}
	w.last[r.kind] = max(r.id, w.last[r.kind])
	for _, i := range r.rules {
		rule, key := w.rules[i], strconv.Itoa(i)
		if !rule.across {
			key += "|" + r.Authorization
		}
		if rule.perMajor {
			key += "|" + r.major
		}
		w.charges[key] = slices.DeleteFunc(w.charges[key], func(c *randomCharge) bool {
			return c.forGood && c.until+rule.period <= w.now()
		})
		if len(w.charges[key]) >= rule.limit {
			w.fail("%d exceeds the declared limit %s", r.id, key)
		}
		w.charges[key] = append(w.charges[key], &randomCharge{of: r})
	}
	s := w.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.edge.limit.HoldWait(s.now()) > 0 {
		w.fail("%d is granted while the edge is held", r.id)
	}
	if a := s.accounts[w.manager.hash(&r.Request)]; a != nil && a.global.limit.HoldWait(s.now()) > 0 {
		w.fail("%d is granted while its credential is held", r.id)
	}
}

// ended records that a request has ended. If the request counts for its declared limits, it counts for a period from
// now on.
func (w *randomWorld) ended(r *randomRequest, counts bool) {
	r.flies = false
	for key, all := range w.charges {
		if !counts {
			w.charges[key] = slices.DeleteFunc(all, func(c *randomCharge) bool { return c.of == r && !c.forGood })
			continue
		}
		for _, c := range all {
			if c.of == r && !c.forGood {
				c.forGood, c.until = true, w.now()
			}
		}
	}
}

// answer ends a request, which the server counts at this moment. Unless good is true, the response may also be a random
// 429 or error.
func (w *randomWorld) answer(r *randomRequest, good bool) {
	synctest.Wait() // time has passed, so calls may have ended
	b, hash := w.buckets[r.hash], r.hash[:2]
	if w.renamed[hash] {
		hash += "x"
	}
	if w.now() >= b.until {
		b.until, b.used = w.now()+b.period, 0
	}
	b.used++
	response := ratelimits.Response{
		Status: 200, Limited: true, Bucket: hash, Limit: b.limit, Remaining: max(b.limit-b.used, 0),
		ResetAfter: b.until - w.now(),
	}
	refuse := func(class ratelimits.Class, wait time.Duration) {
		response.Status, response.Class, response.HasRetryAfter, response.RetryAfter = 429, class, true, wait
	}
	switch {
	case b.used > b.limit:
		refuse(ratelimits.ClassUser, response.ResetAfter)
	case !good:
		wait := w.seconds(40)
		switch w.pick(14) {
		case 0:
			response = ratelimits.Response{}
			refuse(ratelimits.ClassGlobal, wait)
		case 1:
			response = ratelimits.Response{}
			refuse(ratelimits.ClassEdge, wait)
		case 2:
			refuse(ratelimits.ClassShared, wait)
		case 3:
			refuse(ratelimits.ClassSubLimit, wait)
		case 4:
			w.say("%d is lost", r.id)
			w.ended(r, true)
			r.lease.Release()
			return
		case 5:
			w.say("%d was never sent", r.id)
			w.ended(r, false)
			r.lease.Return()
			return
		case 6:
			response = ratelimits.Response{Status: 502}
		case 7:
			if w.unread {
				classes := []ratelimits.Class{ratelimits.ClassGlobal, ratelimits.ClassEdge, ratelimits.ClassUser}
				class := classes[w.pick(3)]
				refuse(class, wait)
				w.say("%d gets the headers of a 429 of class %v", r.id, class)
				r.lease.Refused(response)
				return
			}
		}
	}
	w.say("%d gets %d, class %v, %d remain, reset after %v, retry after %v", r.id, response.Status, response.Class,
		response.Remaining, response.ResetAfter, response.RetryAfter)
	w.ended(r, response.Class == ratelimits.ClassOK)
	r.lease.Update(response)
	if response.Class != ratelimits.ClassOK && w.pick(3) > 0 && !r.canceled {
		r.done, r.again = false, true
		w.ask(r)
	}
}

// check checks that no waiting request can leave, and that Status shows every bucket that is held or has waiting
// requests.
func (w *randomWorld) check() {
	synctest.Wait()
	busy, shown := map[string]bool{}, map[string]bool{}
	note := func(in map[string]bool, b LimitSnapshot) {
		in[strings.Join([]string{b.Authentication, b.Hash, b.Route, b.Major}, " ")] = true
	}
	for b := range w.manager.Buckets() {
		if b.Waiting > 0 || b.HoldAfter > 0 || b.SubLimitAfter > 0 {
			note(busy, b)
		}
	}
	for _, b := range w.manager.Status(1 << 20).Buckets {
		note(shown, b)
	}
	if fmt.Sprint(busy) != fmt.Sprint(shown) {
		w.fail("Status shows %v instead of %v", shown, busy)
	}
	s := w.server
	s.mu.Lock()
	before, isDelayed := s.counts.granted, false
	for _, b := range s.busy { // if a reservation's instant has changed, the server checks it only at the old one
		for q := range b.queues.all {
			if q.waiting.Len() > 0 && q.reserved != nil {
				at, ok := q.opens(s.now())
				isDelayed = isDelayed || !ok || at != q.reservedAt
			}
		}
	}
	s.touchAll()
	s.unlock(s.now())
	s.mu.Lock()
	after := s.counts.granted
	s.mu.Unlock()
	synctest.Wait()
	if after != before && !isDelayed {
		w.fail("%d waiting requests could have left earlier, but the server did not check them", after-before)
	}
}

// restart closes the manager while requests wait, and starts it again.
func (w *randomWorld) restart() {
	w.say("Close")
	w.manager.Close()
	synctest.Wait()
	if len(w.those(isOpen)) > 0 {
		w.fail("some requests wait after Close")
	}
	if w.pick(2) == 0 {
		for _, r := range w.those(isInFlight) {
			r.lease.Release()
			r.flies = false
		}
	}
	if err := w.manager.Start(); err != nil {
		w.fail("%v", err)
	}
	clear(w.charges)
	for range 20 {
		w.arrive()
		if all := w.those(isInFlight); len(all) > 0 && w.pick(2) == 0 {
			w.answer(all[w.pick(len(all))], w.pick(2) == 0)
		}
		time.Sleep(time.Duration(1+w.pick(1000)) * time.Millisecond)
		w.check()
	}
}

// end lets all requests succeed until none is left, and checks that all permits were given back.
func (w *randomWorld) end() {
	for i := 0; w.fault == "" && i < 4000; i++ {
		for _, r := range w.those(isInFlight) {
			w.answer(r, true)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Duration(50+w.pick(400)) * time.Millisecond)
		w.check()
		if len(w.those(func(r *randomRequest) bool { return !r.done || r.flies })) == 0 {
			break
		}
	}
	if all := w.those(isOpen); len(all) > 0 {
		w.fail("%d of %d requests still wait, the first is %d: %s", len(all), len(w.requests), all[0].id, all[0].kind)
	}
	if w.fault == "" {
		time.Sleep(time.Minute)
		w.manager.leftOver(func(what string, n int) { w.fail("in the end there are %d %s", n, what) })
	}
	for _, r := range w.requests {
		r.cancel()
		if r.flies {
			r.lease.Release()
		}
	}
	synctest.Wait()
}
