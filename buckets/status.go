package buckets

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

// Status is what a manager does at one moment, for a person who asks what waits, why, and until when. It contains no credential and no
// token.
type Status struct {
	// Time is when it was taken, and State what the manager does: "new" before Start, "running", "draining" during Shutdown, or "closed".
	Time  time.Time
	State string
	Stats Stats
	// Edges are the servers, each with what its network in front holds back; Discord is the first. Globals are the global
	// limits of credentials, those for which most requests wait first. There may be more of both, see GlobalsTotal.
	Edges, Globals []GateSnapshot
	// GlobalsTotal is how many credentials there are.
	GlobalsTotal int
	// Declared are the windows of declared limits (WithLimit) for which requests wait, those with the most first. There may be more, see
	// DeclaredTotal.
	Declared []DeclaredSnapshot
	// DeclaredTotal is for how many such windows requests wait.
	DeclaredTotal int
	// Buckets are those in which requests wait, or that are held, the longest wait first: that is the predicted one, or the one there
	// was, if that is longer already. There may be more, see BucketsTotal.
	Buckets []BucketSnapshot
	// BucketsTotal is how many buckets requests wait in or are held, and BucketsSeen how many of those were looked at to find the ones in
	// Buckets. If they differ, others may wait longer.
	BucketsTotal, BucketsSeen int
}

// GateSnapshot is what is known of a limit above buckets at one moment: a global limit, or the edge. It contains no credential.
type GateSnapshot struct {
	// Class is ratelimits.ClassGlobal for the global limit of a credential, ratelimits.ClassEdge for the edge of a server.
	Class ratelimits.Class
	// Server is the server (see Request.Server), empty for Discord. Authentication identifies the credential as in BucketSnapshot, "-" for
	// none, and for the edge.
	Server, Authentication string
	// Limit is the number of requests per second, 0 if there is no limit. Part is what this process may send of it: less than Limit
	// if processes share it, see WithShared.
	Limit, Part int
	// InUse is how many requests count for the limit now.
	InUse int
	// Waiting is how many requests are in line for it, in so many buckets.
	Waiting, Buckets int
	// WaitAfter is how long it is until the next request may leave as far as this limit goes, 0 if one may now, or that depends on
	// an outcome or on another process. HoldAfter is how long nothing may be sent because of a 429, or of Throttle.
	WaitAfter, HoldAfter time.Duration
	// Probing reports that after a 429 one request has to succeed before the others follow.
	Probing bool
}

// MarshalJSON encodes the snapshot with descriptive names: the class by name, times in seconds.
func (s GateSnapshot) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Class          string  `json:"class"`
		Server         string  `json:"server"`
		Authentication string  `json:"authentication"`
		Limit          int     `json:"limit"`
		Part           int     `json:"part"`
		InUse          int     `json:"in_use"`
		Waiting        int     `json:"waiting"`
		Buckets        int     `json:"buckets"`
		WaitAfter      float64 `json:"wait_seconds"`
		HoldAfter      float64 `json:"hold_seconds"`
		Probing        bool    `json:"probing"`
	}{
		s.Class.String(), s.Server, s.Authentication, s.Limit, s.Part, s.InUse, s.Waiting, s.Buckets,
		s.WaitAfter.Seconds(), s.HoldAfter.Seconds(), s.Probing,
	})
}

// MarshalJSON encodes the status with descriptive names: classes by name, times in seconds, but for those of the wall clock.
func (s Status) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Time          time.Time          `json:"time"`
		State         string             `json:"state"`
		Stats         Stats              `json:"stats"`
		Edges         []GateSnapshot     `json:"edges"`
		Globals       []GateSnapshot     `json:"globals"`
		GlobalsTotal  int                `json:"globals_total"`
		Declared      []DeclaredSnapshot `json:"declared"`
		DeclaredTotal int                `json:"declared_total"`
		Buckets       []BucketSnapshot   `json:"buckets"`
		BucketsTotal  int                `json:"buckets_total"`
		BucketsSeen   int                `json:"buckets_seen"`
	}(s))
}

// What is looked at for one Status, so that it takes little time however many wait.
const (
	mostSeen       = 2048 // buckets, credentials, and windows of declared limits
	mostUsersFound = 4096 // routes of one credential
)

// Status returns what the manager does now, with at most top edges, global limits, windows of declared limits, and buckets. It takes little
// time, some milliseconds at most, even with a million buckets or windows, and with as many in which requests wait: it visits only those that
// are busy, and no more than 2048 of them, of the buckets others each time. It locks one at a time. The numbers are read one after the other, so
// they may be slightly inconsistent.
func (m *RESTBucketManager) Status(top int) Status {
	now := m.now()
	s := Status{
		Time: m.settings.clock.Now(), State: m.stateName(), Stats: m.Stats(),
		Edges: m.edgeSnapshots(now, top), GlobalsTotal: m.authentications.Size(),
		Globals: []GateSnapshot{}, Buckets: []BucketSnapshot{}, // never null in JSON
	}
	s.Declared, s.DeclaredTotal = m.declaredSnapshots(now, top)
	busy := m.busyAuthentications()
	s.Globals = append(s.Globals, m.globalSnapshots(now, busy, top)...)
	seen := make([]rankedBucket, 0, mostSeen)
	for _, a := range busy {
		some, total := a.busy.some(max(mostSeen/len(busy), 1))
		s.BucketsTotal += total
		for _, b := range some {
			if rank, busy := b.rank(); busy {
				seen = append(seen, rankedBucket{b, rank})
			} else {
				s.BucketsTotal-- // not any more
			}
		}
	}
	s.BucketsSeen = len(seen)
	slices.SortFunc(seen, func(x, y rankedBucket) int { return cmp.Compare(y.rank, x.rank) })
	s.Buckets = append(s.Buckets, m.namedSnapshots(seen[:min(len(seen), max(top, 0))])...)
	return s
}

func (m *RESTBucketManager) stateName() string {
	return [...]string{fresh: "new", running: "running", draining: "draining", ended: "closed"}[m.state.Load()]
}

// busyAuthentications returns those in whose buckets somebody waits, or that are held.
func (m *RESTBucketManager) busyAuthentications() (busy []*authentication) {
	for a := range m.listed.All() {
		if busy = append(busy, a); len(busy) == mostSeen {
			break
		}
	}
	return busy
}

// rankedBucket is a bucket with the time by which it is ranked among others.
type rankedBucket struct {
	*bucket
	rank time.Duration
}

// rank returns the longest wait that somebody has in the bucket. It reports false if nobody waits in it, and it is not held any more.
func (b *bucket) rank() (rank time.Duration, busy bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	b.noteBusy()
	held := max(b.window.HoldWait(now), b.queues.longestHold(now))
	if b.queues.length() == 0 && held == 0 {
		return 0, false
	}
	return max(b.predictNext(now), b.waited(now)), true
}

// namedSnapshots returns the snapshots of buckets, with their routes.
func (m *RESTBucketManager) namedSnapshots(ranked []rankedBucket) (all []BucketSnapshot) {
	of := make(map[*authentication]users)
	for _, b := range ranked {
		a := b.group.authentication
		if _, known := of[a]; !known {
			of[a] = usersAmong(m.routesOf(a))
		}
		s := b.lockedSnapshot()
		if s.Waiting == 0 && s.HoldAfter == 0 && s.SubLimitAfter == 0 { // not any more
			continue
		}
		s.Routes = of[a].of(b.bucket)
		all = append(all, s)
	}
	return all
}

// routesOf returns what is known of the routes of an authentication. If there are very many, some are missing.
func (m *RESTBucketManager) routesOf(a *authentication) (entries []*routeEntry) {
	m.moves.Lock()
	defer m.moves.Unlock()
	for e := range a.routes {
		if entries = append(entries, e); len(entries) == mostUsersFound {
			break
		}
	}
	return entries
}

// edgeSnapshots returns those of at most n servers, Discord first.
func (m *RESTBucketManager) edgeSnapshots(now time.Duration, n int) []GateSnapshot {
	m.moves.Lock()
	edges := make(map[string]*gate)
	for name, s := range m.servers {
		edges[name] = s.edge
	}
	m.moves.Unlock()
	all := []GateSnapshot{}
	for _, name := range slices.Sorted(maps.Keys(edges)) { // that of Discord is empty
		if len(all) < n {
			s := edges[name].snapshot(now)
			s.Server = name
			all = append(all, s)
		}
	}
	return all
}

// globalSnapshots returns those of at most n authentications: of those that are busy, and of others if there is room.
func (m *RESTBucketManager) globalSnapshots(now time.Duration, busy []*authentication, n int) (all []GateSnapshot) {
	for _, a := range busy {
		all = append(all, a.global.snapshot(now))
	}
	for _, a := range m.authentications.All() {
		if len(all) >= n {
			break
		}
		if !slices.Contains(busy, a) {
			all = append(all, a.global.snapshot(now))
		}
	}
	slices.SortStableFunc(all, func(x, y GateSnapshot) int {
		return cmp.Or(cmp.Compare(y.Waiting, x.Waiting), cmp.Compare(y.HoldAfter, x.HoldAfter), cmp.Compare(y.InUse, x.InUse),
			cmp.Compare(x.Authentication, y.Authentication))
	})
	return all[:min(len(all), max(n, 0))]
}

// snapshot returns what is known of the gate, but for the server of an edge.
func (g *gate) snapshot(now time.Duration) GateSnapshot {
	g.mu.Lock()
	defer g.mu.Unlock()
	hasPart := g.syncPart(now)
	s := GateSnapshot{
		Class: g.class, Authentication: "-",
		Limit: g.most(), Part: g.limit.Limit(), InUse: g.limit.InUse(now),
		Waiting: g.waiting, Buckets: g.queues.Len(),
		HoldAfter: g.limit.HoldWait(now), Probing: g.probing,
	}
	if g.authentication != nil {
		s.Server, s.Authentication = g.authentication.server.name, g.authentication.shown()
	}
	if !hasPart {
		s.Part = 0
	}
	if g.reading == 0 { // else an outcome tells
		s.WaitAfter = max(g.limit.Wait(now), g.part.wait(now), g.probeUntil-now, 0)
	}
	return s
}

// GlobalWait returns how long a request of a credential to a server (see Request.Server) that came now would wait for the global limit, 0
// if it would not, or nothing is known of the credential. The authorization is as for Acquire.
func (m *RESTBucketManager) GlobalWait(server, authorization string) time.Duration {
	a, _ := m.authentications.Load(m.digestOf(&Request{Server: server, Authorization: authorization}))
	if a == nil {
		return 0
	}
	return a.global.predict(m.now(), &ask{}, nil, 0).wait
}
