package shared_test

import (
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
	t      *testing.T
	server *redistest.Memory
	start  time.Time
}

// inWorld runs a test in a bubble.
func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, server: redistest.NewMemory(), start: time.Now()}
		defer w.server.Close()
		w.server.Decide(func(string) redistest.Fate { return redistest.Fate{Before: ms / 2, After: ms / 2} })
		test(w)
	})
}

func (w *world) now() time.Duration { return time.Since(w.start) }

// process is one session, which the test closes by itself or kills.
type process struct {
	*world
	session buckets.SharedSession
	runner  *mortal
}

// mortal is a connection to the server that can be cut for one process alone.
type mortal struct {
	*redistest.Memory
	mu   sync.Mutex
	dead bool
}

func (w *world) process(options ...shared.Option) *process {
	w.t.Helper()
	store, err := shared.New(w.server, options...)
	require.NoError(w.t, err)
	p := &process{world: w, session: store.Join(clockwork.NewRealClock(), w.start)}
	w.t.Cleanup(p.session.Close)
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
}

var someKey = buckets.SharedKey{Credential: "0123456789abcdef", Hash: "hash", Major: "1"}

func (p *process) use(key buckets.SharedKey) *user {
	u := &user{process: p, waiting: map[buckets.Ticket]bool{}}
	u.bucket = p.session.Bucket(key, u.changed)
	return u
}

func (u *user) changed() {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := u.now()
	if u.bucket == nil {
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
		u.waiting[u.bucket.Join(u.now(), false)] = true
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

// giveBack returns the loan.
func (u *user) giveBack(s ratelimits.State, flying ...time.Duration) []buckets.Ticket {
	u.mu.Lock()
	defer u.mu.Unlock()
	require.NotNil(u.t, u.loan)
	u.loan = nil
	return u.bucket.Return(u.now(), s, flying)
}

func (u *user) leaves() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.sent)
}

// headers is a response with limits.
func headers(limit, remaining int, after time.Duration, stamp int64) ratelimits.Response {
	return ratelimits.Response{Status: 200, Limited: true, Limit: limit, Remaining: remaining, ResetAfter: after, Stamp: stamp}
}

// pass lets time go by, and everything that happens meanwhile.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
