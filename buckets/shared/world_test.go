package shared_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// world is a server and the processes that share limits on it, in virtual time.
type world struct {
	t         *testing.T
	server    server
	start     time.Time
	processes []*process
}

// inWorld runs a test in a bubble.
func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, server: newServer(), start: time.Now()}
		defer w.close()
		w.server.Decide(func(string) memoryengine.Fate { return memoryengine.Fate{Before: ms / 2, After: ms / 2} })
		test(w)
	})
}

func (w *world) close() {
	for _, p := range w.processes {
		p.session.Close()
	}
	w.server.Close()
}

func (w *world) now() time.Duration { return time.Since(w.start) }

// process is one session.
type process struct {
	*world
	session shared.Session
	link    *link
}

// link is the connection of one process to the server.
type link struct {
	server
	mu    sync.Mutex
	cut   bool
	shut  bool // closed for good
	most  int  // bytes of the values of a call
	calls int
}

var (
	errCut  = errors.New("connection cut")
	errShut = fmt.Errorf("link: %w", shared.ErrClosed)
)

func (l *link) called() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls
}

// close closes the connection for good, as its client does.
func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shut = true
}

// kill cuts the connection, as when the process dies or loses its network.
func (l *link) kill(dead bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = dead
}

func (l *link) Exchange(ctx context.Context, call *shared.Call) (*shared.Reply, error) {
	size := 0
	for _, step := range call.Steps {
		size += len(step.Value)
	}
	l.mu.Lock()
	l.calls++
	cut, shut := l.cut, l.shut
	l.most = max(l.most, size)
	l.mu.Unlock()
	if shut {
		return nil, errShut
	}
	if cut {
		return nil, errCut
	}
	return l.server.Exchange(ctx, call)
}

func (w *world) process(options ...shared.Option) *process {
	w.t.Helper()
	l := &link{server: w.server}
	store, err := shared.New(l, options...)
	require.NoError(w.t, err)
	p := &process{world: w, session: store.Join(clockwork.NewRealClock(), w.start), link: l}
	w.processes = append(w.processes, p)
	return p
}

// user uses a shared.Bucket as a manager does: it takes every permit as soon as it is granted. While a bucket is lent
// to it, it does nothing until it returns the loan.
type user struct {
	*process
	bucket shared.Bucket

	mu       sync.Mutex
	window   ratelimits.Window
	arrivals []time.Duration // of those who wait
	sent     []time.Duration
	flying   []shared.Permit
	lent     bool
	errs     []error
	log      func(p *process)
	asleep   bool // looks at nothing
}

var someKey = shared.Key{Credential: "0123456789abcdef", Hash: "hash", Major: "1"}

func (p *process) use(key shared.Key) *user { return p.useWith(key, (*user).changed) }

func (p *process) useWith(key shared.Key, changed func(*user)) *user {
	u := &user{process: p}
	u.mu.Lock() // there may be news at once
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
			u.log(u.process)
		}
	}
	u.tell()
}

// granted reports whether a request may be sent; it is false while the bucket is lent. u.mu must be held.
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

// tell reports the waiting requests. u.mu must be held.
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

// adopt adds a request in flight that turns out to belong to the bucket.
func (u *user) adopt() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.flying = append(u.flying, u.bucket.Adopt(u.now(), u.now()))
}

// may reports that something may be sent, after which the others know who waits.
func (u *user) may() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	may := u.granted()
	u.tell()
	return may
}

// mayOrOwns reports that something may be sent, or that the bucket is lent and not held.
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

// answer reports the response to the earliest request in flight.
func (u *user) answer(r ratelimits.Response) { u.answerNumber(0, r) }

// answerNumber reports the response to the i-th request in flight, counted from 0.
func (u *user) answerNumber(i int, r ratelimits.Response) {
	u.mu.Lock()
	defer u.mu.Unlock()
	require.Greater(u.t, len(u.flying), i)
	p := u.flying[i]
	u.flying = slices.Delete(u.flying, i, i+1)
	u.bucket.Report(u.now(), p, r)
	u.tell()
}

// giveBack returns the loan with another state, and requests in flight that were sent at those times.
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

// headers is a response with limits.
func headers(limit, remaining int, after time.Duration, stamp int64) ratelimits.Response {
	return ratelimits.Response{Status: 200, Limited: true, Limit: limit, Remaining: remaining, ResetAfter: after, Stamp: stamp}
}

// look makes the race detector order earlier reads of the test before later writes of other goroutines.
func look() {
	looked.Lock()
	defer looked.Unlock()
}

var looked sync.Mutex

// pass lets time pass, and waits until all goroutines are idle.
func pass(d time.Duration) {
	look()
	time.Sleep(d)
	synctest.Wait()
}

// contested returns the users of one bucket in two processes. Both have just used the bucket, so it is not lent. Its
// limit is not known, and the first request is in flight; a is the user that sent it.
func (w *world) contested(options ...shared.Option) (a, b *user) {
	w.t.Helper()
	a, b = w.process(options...).use(someKey), w.process(options...).use(someKey)
	a.join(1)
	pass(10 * ms)
	require.True(w.t, a.lent)
	b.join(1)
	pass(10 * ms)
	require.True(w.t, a.wanted())
	a.giveBack(ratelimits.State{})
	pass(50 * ms)
	require.Equal(w.t, 1, b.leaves())
	return b, a
}

// limited is like contested, but the limit is known: five in a second, of which a has used one.
func (w *world) limited(options ...shared.Option) (a, b *user) {
	a, b = w.contested(options...)
	a.answer(headers(5, 4, time.Second, 1000))
	pass(10 * ms)
	return a, b
}

// punctual is like limited, but the bucket has opened on time once, so at the next opening no request is sent first. A
// new window has begun, in which no request counts yet.
func (w *world) punctual(options ...shared.Option) (a, b *user) {
	w.t.Helper()
	b, a = w.limited(options...)
	b.join(4)
	pass(10 * ms)
	for range 4 {
		b.answer(headers(5, 0, 900*ms, 1000))
	}
	a.join(1)
	pass(950 * ms)
	require.Len(w.t, a.flying, 1)
	a.answer(headers(5, 4, time.Second, 2000))
	pass(10 * ms)
	a.sent, b.sent = a.sent[:1], nil
	return a, b
}

// served reports whether n requests were sent, or the bucket is lent to the user.
func (u *user) served(n int) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.sent) == n || u.lent
}
