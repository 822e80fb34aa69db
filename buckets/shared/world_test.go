package shared_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/memoryengine"
	"github.com/ratelight/ratelight/ratelimits"
)

const ms = time.Millisecond

// world is a server and the processes that share limits through it, in virtual time.
type world struct {
	t         *testing.T
	server    server
	start     time.Time
	options   []shared.Option // for all processes
	processes []*process
}

// near makes each call take a millisecond.
func near(string) memoryengine.Fate { return memoryengine.Fate{Before: ms / 2, After: ms / 2} }

// inWorld runs a test in virtual time. Each call to the server takes a millisecond.
func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	atOnce(t, func(w *world) {
		w.server.Decide(near)
		test(w)
	})
}

// atOnce runs a test in virtual time. Calls to the server take no time. All processes have the options.
func atOnce(t *testing.T, test func(w *world), options ...shared.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, server: newServer(), start: time.Now(), options: options}
		defer w.close()
		test(w)
	})
}

// eachWorld runs inWorld as a subtest.
func eachWorld(t *testing.T, name string, test func(t *testing.T, w *world)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { inWorld(t, func(w *world) { test(t, w) }) })
}

// eachAtOnce runs atOnce as a subtest.
func eachAtOnce(t *testing.T, name string, test func(t *testing.T, w *world), options ...shared.Option) {
	t.Helper()
	t.Run(name, func(t *testing.T) { atOnce(t, func(w *world) { test(t, w) }, options...) })
}

func (w *world) close() {
	for _, p := range w.processes {
		for _, s := range p.senders {
			s.stop()
		}
	}
	for _, p := range w.processes {
		p.link.block(false)
		p.session.Close()
	}
	time.Sleep(time.Second) // until all responses have arrived
	w.server.Close()
}

func (w *world) now() time.Duration { return time.Since(w.start) }

// until waits until a condition holds, and returns how long that took.
func (w *world) until(longest time.Duration, condition func() bool) time.Duration {
	w.t.Helper()
	start := w.now()
	for !condition() {
		require.Less(w.t, w.now()-start, longest, "the condition does not hold in time")
		time.Sleep(ms)
	}
	return w.now() - start
}

// fates gives the next calls for a purpose the given fates, one after the other. All other calls take no time.
func (w *world) fates(purpose string, fates ...memoryengine.Fate) {
	w.server.Decide(func(of string) memoryengine.Fate {
		if of != purpose || len(fates) == 0 {
			return memoryengine.Fate{}
		}
		fate := fates[0]
		fates = fates[1:]
		return fate
	})
}

// step moves the server's clock by d. After that, calls take no time.
func (w *world) step(d time.Duration) {
	w.server.StepClock(d)
	w.server.Decide(nil)
}

// evict removes all keys of a kind, such as "b".
func (w *world) evict(kind string) {
	for _, key := range w.server.Keys() {
		if strings.Contains(key, "}:"+kind+":") {
			w.server.Evict(key)
		}
	}
}

// key returns the first key on the server that contains a text, "" if there is none.
func (w *world) key(text string) string {
	for _, key := range w.server.Keys() {
		if strings.Contains(key, text) {
			return key
		}
	}
	return ""
}

// realClock is the bubble's clock.
var realClock = clockwork.NewRealClock()

// process is a process with one session.
type process struct {
	*world
	session shared.Session
	link    *link
	senders []*sender
}

// process returns a new process, whose connection to the server can be broken.
func (w *world) process(options ...shared.Option) *process {
	l := &link{server: w.server}
	p := w.join(l, realClock, options...)
	p.link = l
	return p
}

// join returns a new process with its own engine and clock.
func (w *world) join(engine shared.Engine, clock clockwork.Clock, options ...shared.Option) *process {
	w.t.Helper()
	store, err := shared.New(engine, append(slices.Clip(w.options), options...)...)
	require.NoError(w.t, err)
	p := &process{world: w, session: store.Join(clock, w.start), link: &link{server: w.server}}
	w.processes = append(w.processes, p)
	return p
}

// deaf returns a new process that gets no messages.
func (w *world) deaf() *process { return w.join(struct{ shared.Engine }{w.server}, realClock) }

// distant makes each call take about the time of a round trip (trip).
func (w *world) distant(trip time.Duration) {
	r := rand.New(rand.NewPCG(1, 2))
	half := func() time.Duration { return trip/2 + time.Duration(r.IntN(100))*time.Microsecond }
	w.server.Decide(func(string) memoryengine.Fate { return memoryengine.Fate{Before: half(), After: half()} })
}

// link is the connection of one process to the server.
type link struct {
	server
	late time.Duration // how much later replies arrive

	mu      sync.Mutex
	cut     bool
	blocked chan struct{} // calls wait until this channel is closed; nil: calls do not wait
	most    int           // size of the largest call, in bytes of the call's values
	calls   int
	lives   int // how often calls asked whether a session is alive
}

var errCut = errors.New("connection cut")

func (l *link) called() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls
}

// largest returns the size of the largest call since largest was last called, in bytes of the call's values.
func (l *link) largest() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	most := l.most
	l.most = 0
	return most
}

// kill makes all calls fail at once, as if the process were dead or had no network.
func (l *link) kill(dead bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = dead
}

// block makes calls wait, or lets them continue.
func (l *link) block(blocked bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case blocked && l.blocked == nil:
		l.blocked = make(chan struct{})
	case !blocked && l.blocked != nil:
		close(l.blocked)
		l.blocked = nil
	}
}

func (l *link) Exchange(ctx context.Context, call *shared.Call) (*shared.Reply, error) {
	size := 0
	lives := 0
	for _, step := range call.Steps {
		size += len(step.Value)
		if strings.Contains(step.Key, "}:p:") && step.Value == "" {
			lives++
		}
	}
	l.mu.Lock()
	l.calls++
	l.lives += lives
	cut, blocked := l.cut, l.blocked
	l.most = max(l.most, size)
	l.mu.Unlock()
	switch {
	case cut:
		return nil, errCut
	case blocked != nil:
		select {
		case <-blocked:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	reply, err := l.server.Exchange(ctx, call)
	time.Sleep(l.late)
	return reply, err
}

// user uses a bucket as a manager does: it takes every permit as soon as the permit is granted. While the bucket is
// lent to the user's process, the user does nothing until the test returns the loan.
type user struct {
	*process
	bucket shared.Bucket

	mu       sync.Mutex
	window   ratelimits.Window
	arrivals []time.Duration // of waiting requests
	sent     []time.Duration
	flying   []shared.Permit
	lent     bool
	errs     []error
	log      func() // called for each request that is sent
	asleep   bool   // if set, the user does nothing when the state changes
}

var someKey = shared.Key{Credential: "0123456789abcdef", Hash: "hash", Major: "1"}

func (p *process) use(key shared.Key) *user { return p.useWith(key, (*user).changed) }

func (p *process) useWith(key shared.Key, changed func(*user)) *user {
	u := &user{process: p}
	u.mu.Lock() // changed may be called at once
	defer u.mu.Unlock()
	u.bucket = p.session.Bucket(key, &u.window, func() { changed(u) })
	return u
}

func (u *user) changed() {
	look()
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.asleep || u.lent {
		return
	}
	if err := u.bucket.Err(); err != nil {
		u.errs = append(u.errs, err)
	}
	for u.granted() && len(u.arrivals) > 0 {
		now := u.now()
		p, ok := u.bucket.Take(now)
		if !ok {
			break
		}
		u.arrivals = u.arrivals[1:]
		u.sent = append(u.sent, now)
		u.flying = append(u.flying, p)
		if u.log != nil {
			u.log()
		}
	}
	u.tell()
}

// granted reports whether a request may be sent now. It returns false if the bucket is lent to the process. u.mu must
// be held.
func (u *user) granted() bool {
	now := u.now()
	at, ok := u.bucket.Next(now)
	if u.lent = u.bucket.Predict(now, 0).Own; u.lent {
		u.arrivals = nil
		return false
	}
	if ok && at > now {
		time.AfterFunc(at-now, u.changed)
	}
	return ok && at <= now
}

// tell reports the waiting requests, unless the bucket is lent to the process. u.mu must be held.
func (u *user) tell() {
	if !u.lent {
		u.bucket.Demand(u.now(), len(u.arrivals), slices.Values(u.arrivals))
	}
}

func (u *user) join(n int) { u.joinAt(u.now(), n) }

// joinAt adds n waiting requests that arrived at the given time.
func (u *user) joinAt(arrived time.Duration, n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.lent {
		return
	}
	for range n {
		u.arrivals = append(u.arrivals, arrived)
	}
	slices.Sort(u.arrivals)
	u.tell()
}

// leave removes the last n waiting requests.
func (u *user) leave(n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.arrivals = u.arrivals[:len(u.arrivals)-n]
	u.tell()
}

// adopt adopts a request that was sent without a permit, as a manager does when it learns the request's bucket.
func (u *user) adopt() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.flying = append(u.flying, u.bucket.Adopt(u.now(), u.now()))
}

// may returns whether a request may be sent now. It also reports the waiting requests to the bucket.
func (u *user) may() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	may := u.granted()
	u.tell()
	return may
}

// mayOrOwns returns whether a request may be sent now, or the bucket is lent to the process and not held. It also
// reports the waiting requests to the bucket.
func (u *user) mayOrOwns() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	may := u.granted() || u.lent && u.window.HoldWait(u.now()) == 0
	u.tell()
	return may
}

func (u *user) until() time.Duration { return shared.LoanUntil(u.bucket) }

func (u *user) wanted() bool { return shared.LoanWanted(u.bucket) }

func (u *user) forecast(ahead int) shared.Forecast {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.bucket.Predict(u.now(), ahead)
}

// answer reports the response to the oldest request in flight.
func (u *user) answer(r ratelimits.Response) { u.answerNumber(0, r) }

// answerNumber reports the response to the request in flight with index i, in the order in which they were sent.
func (u *user) answerNumber(i int, r ratelimits.Response) {
	u.mu.Lock()
	defer u.mu.Unlock()
	require.Greater(u.t, len(u.flying), i)
	p := u.flying[i]
	u.flying = slices.Delete(u.flying, i, i+1)
	u.bucket.Report(u.now(), p, r)
	u.tell()
}

// giveBack returns the loan. The returned state is the given one, with requests in flight that were sent at the given
// times.
func (u *user) giveBack(s ratelimits.State, flying ...time.Duration) []shared.Permit {
	u.mu.Lock()
	defer u.mu.Unlock()
	require.True(u.t, u.lent)
	u.lent = false
	u.window = ratelimits.NewWindow(u.now(), s)
	permits := shared.EndLoan(u.bucket, u.now(), flying)
	u.tell()
	return permits
}

func (u *user) leaves() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.sent)
}

func (u *user) inFlight() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.flying)
}

// headers returns a response whose headers name a limit.
func headers(limit, remaining int, after time.Duration, stamp int64) ratelimits.Response {
	return ratelimits.Response{
		Status: 200, Limited: true, Limit: limit, Remaining: remaining, ResetAfter: after, Stamp: stamp,
	}
}

// look tells the race detector that the test's earlier reads of a user happened before the user's later changes.
func look() {
	looked.Lock()
	defer looked.Unlock()
}

var looked sync.Mutex

// pass lets d pass, and then waits until all goroutines are blocked.
func pass(d time.Duration) {
	look()
	time.Sleep(d)
	synctest.Wait()
}

// lent returns users of one bucket in two processes. The bucket is lent to the first process.
func (w *world) lent(options ...shared.Option) (a, b *user) {
	w.t.Helper()
	a, b = w.process(options...).use(someKey), w.process(options...).use(someKey)
	a.join(1)
	pass(10 * ms)
	require.True(w.t, a.lent)
	return a, b
}

// contested returns users of one bucket in two processes. Both have just used the bucket, so it is not lent. The
// bucket's limit is not known yet. The first user has a request in flight whose response will name the limit.
func (w *world) contested(options ...shared.Option) (a, b *user) {
	w.t.Helper()
	a, b = w.lent(options...)
	b.join(1)
	pass(10 * ms)
	require.True(w.t, a.wanted())
	a.giveBack(ratelimits.State{})
	pass(50 * ms)
	require.Equal(w.t, 1, b.leaves())
	return b, a
}

// limited returns the users of contested after the first response: the limit is five requests a second, and user a has
// sent one request.
func (w *world) limited(options ...shared.Option) (a, b *user) {
	a, b = w.contested(options...)
	a.answer(headers(5, 4, time.Second, 1000))
	pass(10 * ms)
	return a, b
}

// usedUp returns the users of limited after user a has used up the window, which ends after the given time.
func (w *world) usedUp(after time.Duration) (a, b *user) {
	w.t.Helper()
	a, b = w.limited()
	a.join(4)
	pass(10 * ms)
	for range 4 {
		a.answer(headers(5, 0, after, 1000))
	}
	return a, b
}

// served reports whether the user has sent n requests or the bucket is lent to the user's process.
func (u *user) served(n int) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.sent) == n || u.lent
}
