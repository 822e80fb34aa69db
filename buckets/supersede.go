package buckets

import (
	"hash/maphash"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// Of the requests with the same key in Request.Supersedes only the newest has to be sent. So at most one of them waits,
// and none leaves after a newer one has left. A newer request is queued with the arrival time of the older request, and
// only then is the older one removed. So the queue of the two requests keeps its rank, its turn and its reservation, in
// any line.

// series is the state of the requests of an account with one key while any of them waits or is in flight. A nil series
// has no requests. The server's mu guards it.
type series struct {
	account *account
	key     uint64
	waiting *waiter // nil: none waits
	sent    uint64  // version of the newest request that was sent, 0: none was
	leases  int     // requests in flight
}

// seriesKey returns the key of an ask's series: a hash of the ask's route, its major parameter and the key that the
// caller has given. The result is 0 if the caller has given no key.
func (m *RESTBucketManager) seriesKey(k *ask, key string) uint64 {
	if key == "" {
		return 0
	}
	return maphash.Comparable(m.seed, struct {
		route routes.Route
		major major
		key   string
	}{k.request.Route.Route(), k.major, key}) | 1
}

// Begin records that the caller makes the request now: of requests with the same key in Request.Supersedes, the one
// that begins later is newer. Without Begin, a request begins with its first AcquireRequest. Call Begin before anything
// that takes long, such as receiving the body. Begin does not block.
func (m *RESTBucketManager) Begin(r *Request) {
	if r.Supersedes != "" {
		r.version = m.versions.Add(1)
	}
}

// seriesOf returns the series of a key, and creates it if there is none.
func (a *account) seriesOf(key uint64) *series {
	s := a.series[key]
	if s == nil {
		if a.series == nil {
			a.series = make(map[uint64]*series)
		}
		s = &series{account: a, key: key}
		a.series[key] = s
	}
	return s
}

// waits records that w starts to wait (n is 1) or stops (n is -1).
func (s *series) waits(w *waiter, n int) {
	switch {
	case n > 0:
		s.waiting = w
	case s.waiting == w: // otherwise a newer request has taken its place
		s.waiting = nil
		s.removeUnused()
	}
}

// sends records that a request is sent, and returns the newest version that was sent before it.
func (s *series) sends(version uint64) (before uint64) {
	before, s.sent = s.sent, version
	s.leases++
	return before
}

// unsent records that the request of a version was not sent after all.
func (s *series) unsent(version, before uint64) {
	if s != nil && s.sent == version {
		s.sent = before
	}
}

func (s *series) end() {
	if s != nil {
		s.leases--
		s.removeUnused()
	}
}

func (s *series) removeUnused() {
	if s.waiting != nil || s.leases > 0 {
		return
	}
	if delete(s.account.series, s.key); len(s.account.series) == 0 {
		s.account.series = nil // a map does not shrink
	}
}

// hasNewer reports whether a request that is newer than the given version waits or was sent.
func (s *series) hasNewer(version uint64) bool {
	return s != nil && (s.sent > version || s.waiting != nil && s.waiting.version > version)
}

// supersedes returns the waiting request whose place an ask takes, nil if the ask takes no place. The error says that
// the ask itself was superseded while it was in flight or before it was queued.
func (k *ask) supersedes() (older *waiter, err error) {
	s := k.account.series[k.series]
	switch {
	case k.series == 0:
		return nil, nil
	case k.request.superseded, k.version != 0 && s.hasNewer(k.version): // without a version the ask is new
		return nil, k.superseded()
	case s == nil:
		return nil, nil
	}
	return s.waiting, nil
}

// placeAt returns the arrival time with which an ask is queued: its own, or that of the request whose place it takes,
// whichever is earlier.
func (k *ask) placeAt(arrived time.Duration, older *waiter) time.Duration {
	if older != nil {
		return min(arrived, older.Arrived)
	}
	return arrived
}

// giveWay gives the place of a superseded ask that is acquired again to the newer request, if the newer request waits.
func (k *ask) giveWay(now time.Duration) {
	s := k.account.series[k.series]
	if s == nil || s.waiting == nil || !k.comesBack || s.waiting.Arrived <= k.request.arrived {
		return
	}
	b := s.waiting.queue.bucket
	b.moveUp(now, s.waiting, k.request.arrived)
	k.account.server.judgeAgain(b) // requests between the two places wait longer
}

func (k *ask) superseded() error {
	return &ratelimits.SupersededError{Route: k.request.Route.Route().String(), Again: k.comesBack}
}

// supersede rejects a waiting request because a newer one has its place. A nil w is ignored.
func (w *waiter) supersede(now time.Duration) {
	if w == nil {
		return
	}
	w.queue.bucket.remove(now, w)
	w.account.server.resolve(w, nil, w.superseded())
}
