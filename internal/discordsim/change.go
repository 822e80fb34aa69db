package discordsim

import (
	"cmp"
	"strconv"
	"time"
)

// Change replaces parts of a rule from a moment on.
type Change struct {
	At    time.Duration // since the world began
	Quota Quota         // zero: as before; Unlimited(): no limit any more
	Hash  string        // "": as before
	// Over is how long the change takes to reach all servers, evenly from At on (a roll-out). Meanwhile some requests
	// are answered in the new way and some in the old one. 0: it reaches all of them at once.
	Over time.Duration
	// Counters says with which counters the changed servers count.
	Counters Counters
}

// Counters says whether old and new servers count together.
type Counters int

const (
	// CountersOfHash belong to the hash: servers that announce one hash count together, each with the quota it knows.
	CountersOfHash Counters = iota
	// CountersKept are the same as before: old and new servers count together, whatever hash they announce.
	CountersKept
	// CountersApart are new: servers that have changed count separately, even if they announce the same hash as before.
	CountersApart
)

// version is the state of a rule that applies to one request.
type version struct {
	hash     string
	counters string // name of the counters that count the request
	quota    Quota
	changes  int // changes so far
	// settled is when the latest change of hash or counters is or was complete, since the world began.
	settled time.Duration
	// mixed: that change is not complete. Some servers use other counters or, if renamed, announce another hash for the
	// same ones.
	mixed, renamed bool
}

// at returns the version of the rule at a moment. hash is that of the operation, for a rule without any. server returns
// the position of the server in roll-outs; at calls it at most once.
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
				continue // the change has not reached this server
			}
		}
		if moves || change.Quota.Kind != KindNone && change.Quota.punctual() != v.quota.punctual() {
			v.changes++ // lateness alone does not count, as no answer tells it
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
