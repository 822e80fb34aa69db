package proxy

import (
	"container/list"
	"hash/maphash"
	"sync"
	"time"

	"github.com/ratelight/ratelight/routes"
)

const (
	// maxUnverified is how many Authorizations may be tried in unverifiedFor with which nothing has succeeded yet. Each may cause a few
	// 401s, of which Discord allows an address 10,000 in that time, and takes some kilobytes for an hour.
	maxUnverified = 1000
	unverifiedFor = 10 * time.Minute
	// unverifiedRetry is when to come back if there are too many: one that turns out to work makes room at once.
	unverifiedRetry = 5 * time.Second
	// maxVerified is how many are remembered that work. The one that was not used for longest is forgotten first.
	maxVerified = 20_000
)

// authorizations are the values of the Authorization header that have been used, by keyed hashes. One is unverified until a request with it
// succeeds that needs one.
type authorizations struct {
	seed maphash.Seed

	mu         sync.Mutex
	known      map[uint64]*list.Element
	unverified list.List // the oldest first
	verified   list.List // the one used last first
}

// used is one of them.
type used struct {
	hash     uint64
	verified bool
	since    time.Time // that it is unverified
}

func newAuthorizations() *authorizations {
	return &authorizations{seed: maphash.MakeSeed(), known: make(map[uint64]*list.Element)}
}

// admit reports whether a request with that Authorization may be sent.
func (a *authorizations) admit(authorization string) bool {
	hash, now := maphash.String(a.seed, authorization), time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	e := a.known[hash]
	if e != nil && e.Value.(*used).verified {
		a.verified.MoveToFront(e)
		return true
	}
	for first := a.unverified.Front(); first != nil && now.Sub(first.Value.(*used).since) >= unverifiedFor; first = a.unverified.Front() {
		delete(a.known, a.unverified.Remove(first).(*used).hash)
	}
	switch {
	case a.known[hash] != nil:
		return true
	case a.unverified.Len() >= maxUnverified:
		return false
	}
	a.known[hash] = a.unverified.PushBack(&used{hash: hash, since: now})
	return true
}

// succeeded takes in that Discord has accepted a request with that Authorization.
func (a *authorizations) succeeded(authorization string) {
	hash := maphash.String(a.seed, authorization)
	a.mu.Lock()
	defer a.mu.Unlock()
	switch e := a.known[hash]; {
	case e == nil: // it took long
	case e.Value.(*used).verified:
		return
	default:
		a.unverified.Remove(e)
	}
	a.known[hash] = a.verified.PushFront(&used{hash: hash, verified: true})
	if a.verified.Len() > maxVerified {
		delete(a.known, a.verified.Remove(a.verified.Back()).(*used).hash)
	}
}

// public are routes that answer also without an Authorization, so that their success proves nothing.
var public = map[routes.Route]bool{
	routes.GetGateway: true, routes.InviteResolve: true, routes.ListStickerPacks: true, routes.GetStickerPack: true, routes.ListVoiceRegions: true,
	routes.GetGuildWidget: true, routes.GetGuildWidgetPNG: true, routes.GetGuildTemplate: true,
}

// needsAuthorization reports that a request to the route succeeds only with an Authorization that is valid, as far as is known. It is
// not sent where there is a token in the path.
func needsAuthorization(r routes.Route) bool { return r.Name() != "" && !r.TokenInPath() && !public[r] }
