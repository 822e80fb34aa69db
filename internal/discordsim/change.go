package discordsim

import (
	"cmp"
	"strconv"
	"time"
)

// Change replaces parts of a rule from a given time on.
type Change struct {
	At    time.Duration // since the world began
	Quota Quota         // zero: the quota stays as it was; Unlimited(): no limit from now on
	Hash  string        // "": the hash stays as it was
	// Over is how long the change takes to reach all servers (a roll-out). It reaches them one after the other, at an even
	// rate from At on. During this time changed servers answer some requests, and old servers answer the others. 0: the
	// change reaches all servers at once.
	Over time.Duration
	// Counters says which counters the changed servers use.
	Counters Counters
}

// Counters says whether old and changed servers share counters.
type Counters int

const (
	// CountersOfHash belong to the hash: servers that announce the same hash share counters, and each server applies its
	// own quota to them.
	CountersOfHash Counters = iota
	// CountersKept are the counters used before: old and changed servers share counters, whatever hash they announce.
	CountersKept
	// CountersApart are new counters: changed servers do not share any with old ones, even if they announce the same hash
	// as before.
	CountersApart
)

// version is the state of a rule that applies to one request.
type version struct {
	hash     string
	counters string // name of the counters that count the request
	quota    Quota
	changes  int // number of changes so far
	// settled is the time, since the world began, at which the latest change of hash or counters has reached or will have
	// reached all servers.
	settled time.Duration
	// mixed says that a change of hash or counters has not reached all servers yet. renamed says that such an unfinished
	// change keeps the counters but gives them another hash.
	mixed, renamed bool
}

// at returns the version of the rule at a given time. hash is the operation's own hash, which applies if the rule has
// none. server returns the server's position in roll-outs, from 0 to below 1. The method at calls the function server
// at most once.
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
			v.changes++ // a change of lateness alone does not count, because no answer shows it
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
