package proxy

import (
	"container/list"
	"hash/maphash"
	"strings"
	"sync"
	"time"
)

const (
	// maxUnverified is the largest number of Authorizations without a success that may be tried within unverifiedFor. Each
	// of them takes some kilobytes of memory for an hour.
	maxUnverified = 1000
	unverifiedFor = 10 * time.Minute
	// unverifiedRetry is the Retry-After if too many Authorizations have been tried. It is short, because the success of
	// any of these Authorizations makes room at once.
	unverifiedRetry = 5 * time.Second
)

// authorizations has keyed hashes of the Authorizations that were first used within unverifiedFor and have not
// succeeded yet.
type authorizations struct {
	seed maphash.Seed

	mu         sync.Mutex
	unverified map[uint64]*list.Element
	order      list.List // attempts, oldest first
}

// attempt is the first use of an Authorization.
type attempt struct {
	hash uint64
	at   time.Time
}

func newAuthorizations() *authorizations {
	return &authorizations{seed: maphash.MakeSeed(), unverified: make(map[uint64]*list.Element)}
}

// admit reports whether a request with an Authorization that has not succeeded yet may be sent.
func (a *authorizations) admit(authorization string) bool {
	hash, now := maphash.String(a.seed, authorization), time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	for e := a.order.Front(); e != nil && now.Sub(e.Value.(attempt).at) >= unverifiedFor; e = a.order.Front() {
		delete(a.unverified, a.order.Remove(e).(attempt).hash)
	}
	switch {
	case a.unverified[hash] != nil:
		return true
	case len(a.unverified) >= maxUnverified:
		return false
	}
	a.unverified[hash] = a.order.PushBack(attempt{hash, now})
	return true
}

// isToken reports whether the transport removes the given Authorization from a request that has a token in its path.
// The transport keeps only Basic Authorizations, because they are meant for a proxy in front of Discord.
func isToken(authorization string) bool {
	scheme, _, _ := strings.Cut(authorization, " ")
	return !strings.EqualFold(scheme, "Basic")
}

// lift forgets all recorded Authorizations, so that new ones are admitted again.
func (a *authorizations) lift() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.unverified)
	a.order.Init()
}

// verified records that a request with the given Authorization has succeeded. Then the Authorization no longer counts
// against maxUnverified.
func (a *authorizations) verified(authorization string) {
	hash := maphash.String(a.seed, authorization)
	a.mu.Lock()
	defer a.mu.Unlock()
	if e := a.unverified[hash]; e != nil {
		delete(a.unverified, a.order.Remove(e).(attempt).hash)
	}
}
