package buckets

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

type randomRequest struct {
	id          int
	r           *Request
	cancel      context.CancelFunc
	lease       Lease
	err         error
	done        bool
	flies       bool
	asked       time.Duration
	granted     time.Duration
	key         string
	hash        string
	rules       []int
	canceled    bool
	ctx         context.Context
	cred, major string
	again       int
}

type randomBucket struct {
	until  time.Duration
	used   int
	limit  int
	period time.Duration
}

func compiled(route routes.Route, p ...string) routes.CompiledRoute {
	c, err := route.Compile(p...)
	if err != nil {
		panic(err)
	}
	return c
}

// Random worlds with declared limits, groups, credentials, tokens in paths, refusals of all kinds,
// moves, evictions, holds
// and restarts. Nobody stands still who can leave, nothing is exceeded that is declared,
// and everything is given back.
// Number 183 and 13328 are those in which a reservation in the queue of a sub-limit stopped a bucket for ever.
func TestRandomWorldsStandStillNowhere(t *testing.T) {
	t.Parallel()
	seeds := []uint64{13328}
	for seed := range uint64(200) {
		seeds = append(seeds, seed)
	}
	for _, seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			if fault := randomWorld(seed, false); fault != "" {
				t.Errorf("world %d: %s", seed, fault)
			}
		})
	}
}

// randomWorld runs one world and returns what went wrong, empty if nothing did. verbose prints what happens.
func randomWorld(seed uint64, verbose bool) (fault string) {
	rnd := rand.New(rand.NewPCG(seed, 7))
	pick := func(n int) int { return rnd.IntN(n) }
	type rule struct {
		limit            int
		period           time.Duration
		matches          func(routes.Route) bool
		across, perMajor bool
	}
	opts := []Option{WithExpireAfter(time.Duration(1+pick(10)) * time.Second),
		WithMaxRateLimit(24 * time.Hour), WithLogger(nil)}
	if pick(2) == 0 {
		opts = append(opts, WithGlobalLimit(1+pick(4)))
	} else {
		opts = append(opts, WithGlobalLimit(0))
	}
	nr := pick(4)
	var rules []rule
	all := []routes.Route{routes.CreateMessage, routes.ListMessages, routes.ExecuteWebhook, routes.GetMyUser}
	for i := range nr {
		match := []Match{ForAll(), ForRoute(all[0]), ForRoute(all[1]), ForRoute(all[2])}
		k := pick(4)
		ru := rule{limit: 1 + pick(3), period: time.Duration(1+pick(10)) * time.Second}
		ru.matches = func(r routes.Route) bool { return k == 0 || r == all[k-1] }
		o := []LimitOption{Named(fmt.Sprint("r", i))}
		if ru.across = pick(2) == 0; ru.across {
			o = append(o, AcrossCredentials())
		}
		if ru.perMajor = pick(3) == 0; ru.perMajor {
			o = append(o, PerMajor())
		}
		opts = append(opts, WithLimit(match[k], ru.limit, ru.period, o...))
		rules = append(rules, ru)
	}
	m := NewRESTBucketManager(opts...)
	if err := m.Start(); err != nil {
		panic(err)
	}
	defer m.Close()
	s := m.discord
	start := time.Now()
	now := func() time.Duration { return time.Since(start) }
	var mu sync.Mutex
	var reqs []*randomRequest
	say := func(f string, a ...any) {
		if verbose {
			fmt.Printf("%10.3f "+f+"\n", append([]any{now().Seconds()}, a...)...)
		}
	}
	lastDump := ""
	fail := func(f string, a ...any) {
		if fault == "" {
			say("%s", lastDump)
			fault = fmt.Sprintf("%.3f ", now().Seconds()) + fmt.Sprintf(f, a...)
			say("FAULT %s", fault)
		}
	}
	renamed := map[string]bool{}
	srv := map[string]*randomBucket{}
	limits := [4]int{1 + pick(5), 1 + pick(5), 1 + pick(5), 1 + pick(5)}
	periods := [4]time.Duration{}
	for i := range periods {
		periods[i] = time.Duration(1+pick(8)) * time.Second
	}
	sameHash := pick(3) == 0
	declaredGrants := map[string][]time.Duration{}
	lastGranted := map[string]int{}
	ledger := pick(2) == 0
	var ask func(*randomRequest)
	arrive := func() {
		q := &randomRequest{id: len(reqs), asked: now()}
		ri := pick(4)
		ch := strconv.Itoa(1 + pick(2))
		var c routes.CompiledRoute
		major := ch
		switch ri {
		case 0, 1:
			c = compiled(all[ri], ch)
		case 2:
			c = compiled(all[ri], "77", "token"+ch)
			major = "tok" + ch
		case 3:
			c = compiled(all[ri])
			major = ""
		}
		cred := []string{"Bot one", "Bot two", ""}[pick(3)]
		group := []string{"", "", "a", "b"}[pick(4)]
		q.r = &Request{Route: c, Authorization: cred, Group: group}
		h := ri
		if sameHash && ri == 1 {
			h = 0
		}
		home := cred
		if ri == 2 {
			home = ""
		}
		q.hash = fmt.Sprint("h", h, "|", major, "|", home)
		if srv[q.hash] == nil {
			srv[q.hash] = &randomBucket{limit: limits[h], period: periods[h]}
		}
		ctx := context.Background()
		prio := pick(8) == 0
		ord := pick(8) == 0
		if prio {
			ctx = ContextWithPriority(ctx)
		}
		if ord {
			ctx = ContextWithOrdered(ctx)
		}
		switch pick(8) {
		case 0:
			ctx = ContextWithMaxWait(ctx, time.Duration(pick(20))*time.Second)
		}
		ctx, q.cancel = context.WithCancel(ctx)
		q.key = fmt.Sprint(ri, c.Path(), cred, group, prio, ord)
		for i, ru := range rules {
			if ru.matches(all[ri]) {
				q.rules = append(q.rules, i)
			}
		}
		q.ctx, q.cred, q.major = ctx, cred, major
		reqs = append(reqs, q)
		say("arrive %d %s prio=%v ord=%v rules=%v", q.id, q.key, prio, ord, q.rules)
		ask(q)
	}
	ask = func(q *randomRequest) {
		ctx, cred, major := q.ctx, q.cred, q.major
		AcquireFunc(ctx, m, q.r, func(l Lease, err error) {
			mu.Lock()
			defer mu.Unlock()
			q.done, q.err, q.lease, q.granted = true, err, l, now()
			if err != nil {
				say("  rejected %d %v", q.id, err)
				return
			}
			say("  granted %d", q.id)
			q.flies = true
			if last, ok := lastGranted[q.key]; ok && last > q.id && q.again == 0 {
				fail("order: %d after %d of %s", q.id, last, q.key)
			}
			lastGranted[q.key] = max(q.id, lastGranted[q.key])
			for _, i := range q.rules {
				ru := rules[i]
				k := fmt.Sprint(i)
				if !ru.across {
					k += "|" + cred
				}
				if ru.perMajor {
					k += "|" + major
				}
				g := declaredGrants[k]
				n := 0
				for _, at := range g {
					if at+ru.period > now() {
						n++
					}
				}
				if n >= ru.limit {
					fail("declared %s exceeded by %d", k, q.id)
				}
				declaredGrants[k] = append(g, now())
			}
			s.mu.Lock()
			n := s.now()
			if s.edge.limit.HoldWait(n) > 0 {
				fail("edge held and granted %d", q.id)
			}
			a := s.accounts[m.hash(q.r)]
			if a != nil && a.global.limit.HoldWait(n) > 0 {
				fail("global held and granted %d", q.id)
			}
			s.mu.Unlock()
		})
		synctest.Wait()
	}
	check := func(what string) {
		synctest.Wait()
		s.mu.Lock()
		before := s.counts.granted
		drift := false
		for _, b := range s.busy {
			for q := range b.queues.all {
				if q.waiting.Len() > 0 && q.reserved != nil {
					if at, ok := q.opens(s.now()); !ok || at != q.reservedAt {
						drift = true
					}
				}
			}
		}
		dump := ""
		n := s.now()
		if verbose {
			for _, b := range s.busy {
				for q := range b.queues.all {
					if q.waiting.Len() == 0 {
						continue
					}
					where := "none"
					if q.line != nil {
						where = fmt.Sprintf("%T", q.line.limit)
						if d, ok := q.line.limit.(*declaredLimit); ok {
							where += d.key.rule.name
						}
						where += fmt.Sprint(" due ", q.line.due-past)
					}
					if q.line != nil {
						k := &q.waiting.Head().Value.ask
						at, ok := q.line.limit.nextFor(n, k)
						where += fmt.Sprint(" next ", at-past, ok, " behind1 ", q.line.limit.behind(n, 1)-past, " delays ",
							q.line.delays(n, q), " first ", q.line.first() == q, " ids ")
						if r := q.line.reserved; r != nil {
							at, ok := r.opens(n)
							where += fmt.Sprint(" resAt ", r.reservedAt-past, " now ", at-past, ok)
						}
					}
					for w := range q.waiting.All {
						for _, z := range reqs {
							if z.r == w.request {
								where += fmt.Sprint(" #", z.id)
							}
						}
					}
					res := ""
					for _, l := range q.reserved {
						res += fmt.Sprintf(" %T", l.limit)
						if d, ok := l.limit.(*declaredLimit); ok {
							res += d.key.rule.name
						}
					}
					dump += fmt.Sprintf("   queue %v %q n=%d rank %v at %v in %s reserved%s route %v\n", b.major,
						q.key.group, q.waiting.Len(), q.rank(), q.reservedAt-past, where, res, q.waiting.Head().Value.request.Route.Path())
				}
			}
		}
		lastDump = dump
		s.touch(&s.edgeLine)
		for _, d := range s.declared {
			s.touch(&d.line)
		}
		for _, a := range s.accounts {
			s.touch(&a.globalLine)
			for _, d := range a.declared {
				s.touch(&d.line)
			}
		}
		for _, b := range s.buckets {
			b.changed()
		}
		s.unlock(n)
		s.mu.Lock()
		after := s.counts.granted
		s.mu.Unlock()
		synctest.Wait()
		if after != before && !drift {
			fail("standstill: %d left when everything was looked at, after %s", after-before, what)
		}
	}
	forget := func(q *randomRequest) {
		for _, g := range declaredGrants {
			for i := range g {
				if g[i] == q.granted {
					g[i] = -time.Hour
				}
			}
		}
	}
	answer := func(q *randomRequest, good bool) {
		q.flies = false
		b := srv[q.hash]
		hash := q.hash[:2]
		if renamed[hash] {
			hash += "x"
		}
		if now() >= b.until {
			b.until, b.used = now()+b.period, 0
		}
		b.used++
		r := ratelimits.Response{Status: 200, Limited: true, Bucket: hash, Limit: b.limit,
			Remaining: max(b.limit-b.used, 0), ResetAfter: b.until - now()}
		if b.used > b.limit {
			r.Status, r.Class, r.HasRetryAfter, r.RetryAfter = 429, ratelimits.ClassUser, true, r.ResetAfter
		} else if !good {
			d := time.Duration(1+pick(40)) * time.Second
			refuse := func(c ratelimits.Class) {
				r.Status, r.Class, r.HasRetryAfter, r.RetryAfter = 429, c, true, d
			}
			switch pick(14) {
			case 0:
				refuse(ratelimits.ClassGlobal)
				r.Limited, r.Bucket = false, ""
			case 1:
				refuse(ratelimits.ClassEdge)
				r.Limited, r.Bucket = false, ""
			case 2:
				refuse(ratelimits.ClassShared)
			case 3:
				refuse(ratelimits.ClassSubLimit)
			case 4:
				say("lost %d", q.id)
				q.lease.Release()
				return
			case 5:
				say("return %d", q.id)
				forget(q)
				q.lease.Return()
				return
			case 6:
				say("502 %d", q.id)
				q.lease.Update(ratelimits.Response{Status: 502})
				return
			case 7:
				if ledger {
					say("unread %d", q.id)
					x := r
					x.Status, x.Class, x.HasRetryAfter, x.RetryAfter = 429, []ratelimits.Class{ratelimits.ClassGlobal,
						ratelimits.ClassEdge, ratelimits.ClassUser}[pick(3)], true, d
					q.lease.Refused(x)
					q.flies = true
					return
				}
			}
		}
		say("answer %d %d class=%v remaining=%d reset=%v retry=%v", q.id, r.Status, r.Class, r.Remaining,
			r.ResetAfter, r.RetryAfter)
		if r.Class != ratelimits.ClassOK {
			forget(q)
		}
		q.lease.Update(r)
		if r.Class != ratelimits.ClassOK && pick(3) > 0 && !q.canceled {
			q.done = false
			q.again++
			say("again %d", q.id)
			ask(q)
		}
	}
	pending := func(f func(*randomRequest) bool) (x []*randomRequest) {
		mu.Lock()
		defer mu.Unlock()
		for _, q := range reqs {
			if f(q) {
				x = append(x, q)
			}
		}
		return x
	}
	flying := func(q *randomRequest) bool { return q.flies }
	waiting := func(q *randomRequest) bool { return !q.done && !q.canceled }
	for range 20 + pick(120) {
		if fault != "" {
			break
		}
		what := ""
		switch k := pick(20); {
		case k < 7:
			what = "arrive"
			arrive()
		case k < 13:
			if x := pending(flying); len(x) > 0 {
				what = "answer"
				answer(x[pick(len(x))], pick(2) == 0)
			}
		case k < 14:
			if x := pending(waiting); len(x) > 0 {
				q := x[pick(len(x))]
				what = "cancel"
				say("cancel %d", q.id)
				q.canceled = true
				q.cancel()
			}
		case k < 15 && pick(6) == 0:
			what = "rename"
			h := fmt.Sprint("h", pick(4))
			renamed[h] = !renamed[h]
			say("rename %s", h)
		case k < 15 && pick(4) == 0:
			what = "collect"
			say("collect")
			m.collect()
		case k < 15 && pick(4) == 0:
			what = "lift"
			say("lift")
			m.LiftHolds()
		case k < 16 && pick(4) == 0:
			what = "throttle"
			say("throttle")
			m.Throttle(time.Duration(1+pick(20)) * time.Second)
		default:
			what = "time"
			time.Sleep(time.Duration(1+pick(3000)) * time.Millisecond)
		}
		time.Sleep(time.Millisecond + 123*time.Nanosecond)
		check(what)
	}
	// drain
	if fault == "" && pick(3) == 0 {
		say("close")
		m.Close()
		synctest.Wait()
		if x := pending(func(q *randomRequest) bool { return !q.done }); len(x) > 0 {
			fail("waits after close")
		}
		if pick(2) == 0 {
			for _, q := range pending(flying) {
				q.lease.Release()
				q.flies = false
			}
		}
		if err := m.Start(); err != nil {
			panic(err)
		}
		clear(declaredGrants)
		for range 20 {
			arrive()
			if x := pending(flying); len(x) > 0 && pick(2) == 0 {
				answer(x[pick(len(x))], pick(2) == 0)
			}
			time.Sleep(time.Duration(1+pick(1000)) * time.Millisecond)
			check("restart")
		}
	}
	for i := 0; fault == "" && i < 4000; i++ {
		for _, q := range pending(flying) {
			answer(q, true)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Duration(50+pick(400)) * time.Millisecond)
		check("drain")
		if len(pending(func(q *randomRequest) bool { return !q.done || q.flies })) == 0 {
			break
		}
	}
	if x := pending(func(q *randomRequest) bool { return !q.done }); fault == "" && len(x) > 0 {
		fail("never ended: %d of %d, first %d %s", len(x), len(reqs), x[0].id, x[0].key)
	}
	if fault == "" {
		time.Sleep(time.Minute)
		s.mu.Lock()
		if s.waiting != 0 || s.budget.inFlight != 0 || m.waiting.Load() != 0 {
			fail("counts %d %d", s.waiting, s.budget.inFlight)
		}
		for _, b := range s.buckets {
			if b.inFlight != nil || b.reading != 0 || b.window.InFlight() != 0 {
				fail("bucket %v in flight reading %d window %d", b.major, b.reading, b.window.InFlight())
			}
			if b.queues != nil && len(b.queues.subLimits) == 0 {
				fail("queues stay")
			}
		}
		for _, a := range s.accounts {
			if a.inFlight != 0 || a.waiting != 0 || a.global.reading != 0 ||
				a.globalLine.queues.Len() != 0 || a.globalLine.waiting != 0 {
				fail("account counts")
			}
			for _, d := range a.declared {
				if d.asked != 0 || d.reserved != nil || d.window.InFlight() != 0 || d.waiting != 0 {
					fail("declared counts")
				}
			}
		}
		for _, d := range s.declared {
			if d.asked != 0 || d.reserved != nil || d.window.InFlight() != 0 || d.waiting != 0 {
				fail("declared counts")
			}
		}
		if s.edge.reading != 0 || s.edgeLine.reserved != nil || s.edgeLine.waiting != 0 {
			fail("edge")
		}
		s.mu.Unlock()
	}
	for _, q := range reqs {
		q.cancel()
		if q.flies {
			q.lease.Release()
		}
	}
	synctest.Wait()
	return fault
}
