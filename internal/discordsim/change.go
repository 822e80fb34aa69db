package discordsim

import (
	"cmp"
	"strconv"
	"time"
)

// Change is a new state of a limit from a moment on.
type Change struct {
	At    time.Duration // since the world began
	Quota Quota         // zero: as before; Unlimited(): no limit any more
	Hash  string        // "": as before
	// Over is how long the change takes to reach all servers, evenly from At on (a roll-out). In the meantime some requests are
	// answered in the new way and some in the old one. 0: it reaches all of them at once.
	Over time.Duration
	// Counters says what the servers that have changed count in.
	Counters Counters
}

// Counters says whether old and new servers count together.
type Counters int

const (
	// CountersOfHash belong to the hash: those that announce one hash count together, with the quota that each of them knows.
	CountersOfHash Counters = iota
	// CountersKept are the same as before: old and new servers count together, whatever hash they announce.
	CountersKept
	// CountersApart are new ones: servers that have changed count by themselves, even if they announce the same hash as before.
	CountersApart
)

// version is what a rule says to one request.
type version struct {
	hash     string
	counters string // names what the request is counted in
	quota    Quota
	changes  int // how many have happened
	// settled is when the last change of hash or counters that has begun is or was complete, since the world began.
	settled time.Duration
	// mixed: that is not complete. Then servers count elsewhere, or (renamed) in the same counters under another hash.
	mixed, renamed bool
}

// at is what the rule says at a moment. hash is that of the operation, for a rule without any. server is asked at most once.
func (r *Rule) at(elapsed time.Duration, hash string, server func() float64) version {
	v := version{hash: cmp.Or(r.Hash, hash), quota: r.Quota}
	v.counters = v.hash
	asked, position := false, 0.0
	for i, change := range r.Changes {
		if change.At > elapsed {
			break
		}
		moves := change.Hash != "" || change.Counters == CountersApart
		if moves {
			v.settled = max(v.settled, change.At+change.Over)
		}
		if into := elapsed - change.At; into < change.Over {
			if !asked {
				asked, position = true, server()
			}
			v.mixed = v.mixed || moves
			v.renamed = v.renamed || moves && change.Counters == CountersKept
			if position >= float64(into)/float64(change.Over) {
				continue // it has not reached this server
			}
		}
		if moves || change.Quota.Kind != KindNone && change.Quota.punctual() != v.quota.punctual() {
			v.changes++ // not by lateness alone, as no answer says anything of that
		}
		v.hash = cmp.Or(change.Hash, v.hash)
		switch {
		case change.Counters == CountersApart:
			v.counters = v.hash + "#" + strconv.Itoa(i+1)
		case change.Counters == CountersOfHash && change.Hash != "":
			v.counters = v.hash
		}
		if change.Quota.Kind != KindNone {
			v.quota = change.Quota
		}
	}
	return v
}
