package spectacles

import (
	"context"
	"crypto/hmac"
	cryptorand "crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/ratelimits"
)

const (
	// After each failed call, the session pauses. The pause grows from firstPause to longestPause.
	firstPause   = 100 * time.Millisecond
	longestPause = time.Second
	// closeTimeout bounds how long Close waits until the remaining reports have been sent.
	closeTimeout = time.Second
)

var (
	errClosed  = errors.New("spectacles: session closed")
	errTooLate = errors.New("spectacles: the call reached the server after its timeout")
)

// session is one manager's use of a Store.
type session struct {
	store  *Store
	clock  clockwork.Clock
	origin time.Time
	id     string
	names  atomic.Uint64

	context context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	buckets map[*bucket]struct{}
	globals map[*global]struct{}
	heldTo  time.Duration // end of the hold of the global limit

	// At our time engineAt, or shortly before it, the server's clock showed engine, in milliseconds since 1970.
	engine   int64
	engineAt time.Duration

	since   time.Duration // end of the first failed call after the last success
	pause   time.Duration // pause after the latest failed call; 0 if the last call succeeded
	retryAt time.Duration
}

func newSession(store *Store, clock clockwork.Clock, origin time.Time) *session {
	id := make([]byte, 8)
	_, _ = cryptorand.Read(id) // never fails
	s := &session{
		store: store, clock: clock, origin: origin, id: hex.EncodeToString(id),
		buckets: map[*bucket]struct{}{}, globals: map[*global]struct{}{},
	}
	s.context, s.cancel = context.WithCancel(context.Background())
	return s
}

func (s *session) now() time.Duration { return s.clock.Since(s.origin) }

// name returns a name for a request. The name is unique among the requests of all processes.
func (s *session) name() string { return s.id + ":" + strconv.FormatUint(s.names.Add(1), 10) }

// spawn runs f in a goroutine that Close waits for. It does nothing and returns false once the session is closed.
func (s *session) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.running.Go(f)
	return true
}

func (s *session) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// Credential implements shared.Session. No key contains the result, because Spectacles has only one set of counters for
// each prefix.
func (s *session) Credential(authorization string) string {
	if authorization == "" {
		return ""
	}
	mac := hmac.New(sha256.New, []byte("spectacles:"+s.store.prefix))
	mac.Write([]byte(authorization))
	return hex.EncodeToString(mac.Sum(nil)[:8])
}

// Bucket implements shared.Session.
func (s *session) Bucket(key shared.Key, window *ratelimits.Window, changed func()) shared.Bucket {
	b := &bucket{session: s, keys: s.store.keys(key), window: window, changed: changed}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.buckets[b] = struct{}{}
	}
	return b
}

func (s *session) forget(b *bucket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.buckets, b)
}

// Invalid implements shared.Session. Spectacles does not count invalid responses.
func (s *session) Invalid() int { return 0 }

// Others implements shared.Session.
func (s *session) Others() int { return 0 }

// Close implements shared.Session. It tries to give back unused permits and to report outcomes, for a second at most.
func (s *session) Close() {
	for _, b := range s.all() {
		b.Close()
	}
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	giveUp := s.clock.AfterFunc(closeTimeout, s.cancel)
	s.running.Wait()
	giveUp.Stop()
	s.cancel()
	for _, b := range s.all() {
		b.stop()
	}
}

func (s *session) all() []*bucket {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*bucket, 0, len(s.buckets))
	for b := range s.buckets {
		all = append(all, b)
	}
	return all
}

// call runs a script and returns the reply. It records the server's time in the reply. The script's first argument is
// the time after which the script must have no effect.
func (s *session) call(script *shared.Script, keys []string, arguments ...string) ([]int64, error) {
	start := s.now()
	ctx, cancel := context.WithTimeout(s.context, s.store.timeout)
	defer cancel()
	reply, err := s.store.runner.Run(ctx, script, keys, append([]string{s.notAfter(start)}, arguments...)...)
	end := s.now()
	switch {
	case s.context.Err() != nil:
		return nil, errClosed
	case err == nil && len(reply) < 2:
		err = errors.New("spectacles: the reply is too short")
	}
	if err != nil {
		s.failed(end)
		return nil, err
	}
	s.succeeded(end, reply[1])
	switch reply[0] {
	case replyTooLate:
		return nil, errTooLate
	case replyNotOurs:
		return nil, notOurs(reply, keys)
	}
	return reply, nil
}

func notOurs(reply []int64, keys []string) error {
	if len(reply) == 4 && reply[2] >= 1 && int(reply[2]) <= len(keys) && reply[3] >= 1 && int(reply[3]) < len(problems) {
		return &shared.KeyError{Key: keys[reply[2]-1], Problem: problems[reply[3]]}
	}
	return errors.New("spectacles: a key holds a foreign value")
}

// notAfter returns, for a call that starts now, a time by the server's clock until which the caller certainly waits for
// the reply. It returns "0" if the server's clock is not known.
func (s *session) notAfter(start time.Duration) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.engine == 0 {
		return "0"
	}
	return strconv.FormatInt(s.engine+(start+s.store.timeout-s.engineAt).Milliseconds(), 10)
}

func (s *session) failed(now time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pause == 0 {
		s.since = now
	}
	if now >= s.retryAt {
		s.pause = min(max(s.pause*3/2, firstPause), longestPause)
		s.retryAt = now + s.pause
	}
}

func (s *session) succeeded(now time.Duration, engine int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.engine, s.engineAt = engine, now
	s.pause, s.retryAt = 0, 0
}

// away returns how long the server has been unavailable (d), 0 if it is available, and the time of the next attempt to
// call it (next).
func (s *session) away(now time.Duration) (d, next time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pause == 0 {
		return 0, 0
	}
	return max(now-s.since, 1), s.retryAt
}
