package shared_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/redistest"
	"github.com/ratelight/ratelight/ratelimits"
)

const ms = time.Millisecond

// world is a server and the processes that share limits on it, in virtual time.
type world struct {
	t         *testing.T
	server    *redistest.Memory
	start     time.Time
	processes []*process
}

// inWorld runs a test in a bubble.
func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, server: redistest.NewMemory(), start: time.Now()}
		defer w.close()
		w.server.Decide(func(string) redistest.Fate { return redistest.Fate{Before: ms / 2, After: ms / 2} })
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
	session buckets.SharedSession
	link    *link
}

// link is the connection of one process to the server.
type link struct {
	*redistest.Memory
	mu    sync.Mutex
	cut   bool
	shut  bool // closed for good
	most  int  // arguments of a call
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

func (l *link) Run(ctx context.Context, script *shared.Script, keys []string, arguments ...string) ([]int64, error) {
	l.mu.Lock()
	l.calls++
	cut, shut := l.cut, l.shut
	l.most = max(l.most, len(arguments))
	l.mu.Unlock()
	if shut {
		return nil, errShut
	}
	if cut {
		return nil, errCut
	}
	return l.Memory.Run(ctx, script, keys, arguments...)
}

func (w *world) process(options ...shared.Option) *process {
	w.t.Helper()
	l := &link{Memory: w.server}
	store, err := shared.New(l, options...)
	require.NoError(w.t, err)
	p := &process{world: w, session: store.Join(clockwork.NewRealClock(), w.start), link: l}
	w.processes = append(w.processes, p)
	return p
}

// user is what a manager does with a bucket, as far as it concerns the seam: it takes every permit as soon as it is granted.
type user struct {
	*process
	bucket buckets.SharedBucket

	mu      sync.Mutex
	waiting map[buckets.Ticket]bool
	sent    []time.Duration
	flying  []buckets.Ticket
	loan    *buckets.SharedLoan
	errs    []error
	log     func(p *process)
	asleep  bool // looks at nothing
}

var someKey = buckets.SharedKey{Credential: "0123456789abcdef", Hash: "hash", Major: "1"}

func (p *process) use(key buckets.SharedKey) *user {
	u := &user{process: p, waiting: map[buckets.Ticket]bool{}}
	u.bucket = p.session.Bucket(key, u.changed)
	return u
}

func (u *user) changed() {
	look()
	u.mu.Lock()
	defer u.mu.Unlock()
	now := u.now()
	if u.bucket == nil || u.asleep {
		return
	}
	if err := u.bucket.Err(); err != nil {
		u.errs = append(u.errs, err)
	}
	if u.loan == nil {
		u.loan = u.bucket.Loan(now)
		if u.loan != nil {
			clear(u.waiting)
			return
		}
	}
	for {
		t, ok := u.bucket.Granted(now)
		if !ok {
			return
		}
		u.bucket.Take(now, t)
		delete(u.waiting, t)
		u.sent = append(u.sent, now)
		u.flying = append(u.flying, t)
		if u.log != nil {
			u.log(u.process)
		}
	}
}

func (u *user) join(n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for range n {
		u.waiting[u.bucket.Join(u.now(), u.now())] = true
	}
}

// answer reports what came of the request that was sent first.
func (u *user) answer(r ratelimits.Response) {
	u.mu.Lock()
	defer u.mu.Unlock()
	require.NotEmpty(u.t, u.flying)
	t := u.flying[0]
	u.flying = u.flying[1:]
	u.bucket.Report(u.now(), t, r)
}

// giveBack returns the loan with another state, and requests in flight that were sent at those times.
func (u *user) giveBack(s ratelimits.State, flying ...time.Duration) []buckets.Ticket {
	u.mu.Lock()
	defer u.mu.Unlock()
	require.NotNil(u.t, u.loan)
	u.loan = nil
	w := ratelimits.NewWindow(u.now(), s)
	var permits []ratelimits.Permit
	for _, sent := range flying {
		permits = append(permits, w.Adopt(u.now(), sent))
	}
	return u.bucket.Return(u.now(), &w, permits)
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

// look orders what a test has read of users, when all was quiet, before what happens when time goes on.
func look() {
	looked.Lock()
	defer looked.Unlock()
}

var looked sync.Mutex

// pass lets time go by, and everything that happens meanwhile.
func pass(d time.Duration) {
	look()
	time.Sleep(d)
	synctest.Wait()
}

// contested returns a user in each of two processes, of a bucket that both have used just now, so that it is not lent. Its limit is
// not known, and the request that finds out is in flight; the user that sent it comes first.
func (w *world) contested(options ...shared.Option) (a, b *user) {
	w.t.Helper()
	a, b = w.process(options...).use(someKey), w.process(options...).use(someKey)
	a.join(1)
	pass(10 * ms)
	require.NotNil(w.t, a.loan)
	b.join(1)
	pass(10 * ms)
	require.True(w.t, a.bucket.Wanted())
	a.giveBack(ratelimits.State{})
	pass(50 * ms)
	require.Equal(w.t, 1, b.leaves())
	return b, a
}

// limited lets the two of contested know the limit: five in a second, of which a has used one.
func (w *world) limited(options ...shared.Option) (a, b *user) {
	a, b = w.contested(options...)
	a.answer(headers(5, 4, time.Second, 1000))
	pass(10 * ms)
	return a, b
}

// served reports that as many requests were sent, or that it is up to the user itself.
func (u *user) served(n int) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.sent) == n || u.loan != nil
}
