package buckets

import (
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/ratelight/ratelight/internal/wire"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// errUsed is returned by RestoreState when it is too late.
var errUsed = errors.New("manager has sent requests already: restore the state after Start, before the first request")

// RestoreState goes on from a state of WriteState. Call it after Start and before the first request. Routes that were known are known then,
// and nothing is asked for that was known; what responses say otherwise replaces it.
//
// Where the state was written before Close, the manager that has written it may have gone on sending until this moment: each bucket is
// used up for one of its periods, and the global limits for two seconds. Then one request goes first where it is not proven how the bucket
// fills up. What that manager has found out since it wrote the state is found out again. Windows of declared limits are used up for one of
// their periods, too, if that is ten minutes or shorter; longer ones go on as they were written.
//
// Windows of a limit that is not declared any more, with the same name, limit and period, are forgotten.
//
// Holds and windows last as long from now on as they had to last when the state was written. Only what the wall clock says has passed since
// beyond an hour is taken off, so that a clock that was set by an hour ends none of them early. So for a program that runs now and then, less
// than an hour apart, holds end only by the time in which it runs.
//
// It reads exactly what WriteState has written. The errors are those of r; ErrState; ErrNotStarted, ErrClosed, and one for a manager that is
// in use. With an error nothing has changed.
func (m *RESTBucketManager) RestoreState(r io.Reader) error {
	m.leaving.Lock()
	m.leaves = true
	m.leaving.Unlock()
	data, err := wire.ReadBlock(r, stateKind, stateVersion)
	if err != nil {
		return err
	}
	s, err := m.decode(data)
	if err != nil {
		return err
	}
	s.globalLimit = m.globalLimitOf(&Request{})
	m.moves.Lock()
	defer m.moves.Unlock()
	if err := m.admits(&Request{}); err != nil {
		return err
	}
	if m.authentications.Size() > 0 {
		return errUsed
	}
	m.restore(s)
	return nil
}

// state is a state that was read. Its times are already those of the manager that reads it, but for windows.
type state struct {
	*wire.Reader
	key            *wire.Key
	exact          bool // nothing was sent since
	written        time.Duration
	early, late    time.Duration // from the clock of the manager that has written it, at least and at most
	doubted        time.Duration
	throttled      time.Duration
	routes         []routes.Route
	servers        []serverState
	authentication []authenticationState
	declared       []declaredState
	globalLimit    int // of requests without a credential; that of others is told when one comes
}

type serverState struct {
	name    string
	edge    gateState
	invalid []invalidState
	holds   map[resource]time.Duration
}

type invalidState struct {
	at time.Duration
	n  int
}

type gateState struct {
	until, busy time.Duration
	late        time.Duration // that the seconds of the limit open
	row         int
	probing     bool
}

type authenticationState struct {
	digest    uint64
	server    string
	anonymous bool
	global    gateState
	groups    []groupState
	entries   []entryState
}

type groupState struct {
	groupKey
	buckets       []*bucketState
	limit, latest int
	period, late  time.Duration
}

type bucketState struct {
	major     major
	window    ratelimits.Window
	subLimits []subLimitState
}

type subLimitState struct {
	key   uint64
	until time.Duration
	row   int
}

type entryState struct {
	route    routes.Route
	group    int // its number, from 1 on; 0: none
	limit    int
	unstable time.Duration
	byError  bool
	byMajor  map[major]int
}

// mostRequests bounds everything that is a number of requests.
const mostRequests = 100_000_000

// at reads an instant, 0 for none. Nothing lasts longer than LongestTrust from when it was written.
func (s *state) at() time.Duration {
	t := s.Time(time.Nanosecond)
	switch {
	case t == 0:
		return 0
	case t < 0 || t > s.written+2*ratelimits.LongestTrust:
		s.Fail()
		return 0
	}
	return max(min(t, s.written+ratelimits.LongestTrust)+s.late, 1)
}

func (s *state) major() major { return major{s.Number(), s.Number()} }

// route reads a route, the zero one if it could not be told by its name.
func (s *state) route() routes.Route {
	if n := s.Int(len(s.routes)); n > 0 {
		return s.routes[n-1]
	}
	return routes.Route{}
}

func (s *state) groupKey() groupKey {
	k := groupKey{kind: groupKind(s.Int(int(kinds) - 1)), hash: s.Text(), route: s.route()}
	if k.kind.unknown() {
		k.hash, k.family = "", k.hash
	}
	return k
}

// usable reports that there is a route if there has to be one.
func (k groupKey) usable() bool {
	return k.route.IsZero() == (k.kind == hashGroup || k.kind == foreignGroup || k.family != "")
}

func (s *state) gate() gateState {
	return gateState{until: s.at(), busy: s.at(), row: s.Int(255), probing: s.Flag(), late: s.Time(time.Nanosecond)}
}

// decode reads a state.
func (m *RESTBucketManager) decode(data []byte) (*state, error) {
	s := &state{Reader: wire.NewReader(data, wire.ErrDamaged)}
	var salt [16]byte
	copy(salt[:], s.Bytes(len(salt)))
	s.key = wire.KeyWithSalt(m.settings.stateKey, salt)
	if check := s.Fixed(); s.Err == nil && check != s.key.Sum("") {
		return nil, fmt.Errorf("%w: it was written with another key", ErrState)
	}
	now := m.now()
	s.exact = s.Flag()
	if s.written = s.Time(time.Nanosecond); s.written < 0 {
		s.Fail()
	}
	doubted := s.Time(time.Nanosecond)
	wall := time.Unix(0, int64(s.Time(time.Nanosecond)))
	least, most := wire.Elapsed(wall, m.settings.clock.Now())
	s.early, s.late = now-s.written-most, now-s.written-least
	if doubted > 0 && doubted <= s.written {
		s.doubted = max(doubted+s.late, 1)
	}
	for n := s.Count(); n > 0 && s.Err == nil; n-- {
		route, err := routes.Parse(s.Text())
		if err != nil {
			s.Fail()
		}
		s.routes = append(s.routes, route)
	}
	s.throttled = s.at()
	for n := s.Count(); n > 0 && s.Err == nil; n-- {
		s.servers = append(s.servers, s.server())
	}
	for s.Flag() {
		s.authentication = append(s.authentication, s.readAuthentication())
	}
	for n := s.Count(); n > 0 && s.Err == nil; n-- {
		s.declared = append(s.declared, s.readDeclared())
	}
	if len(s.Data) > 0 {
		s.Fail()
	}
	return s, s.Err
}

func (s *state) server() serverState {
	server := serverState{name: s.Text(), edge: s.gate(), holds: map[resource]time.Duration{}}
	for n := s.Int(mostRequests); n > 0; n = s.Int(mostRequests) {
		server.invalid = append(server.invalid, invalidState{s.at(), n})
	}
	for s.Flag() {
		r := resource{s.groupKey(), s.major()}
		if until := s.at(); r.usable() {
			server.holds[r] = until
		}
	}
	return server
}

func (s *state) readAuthentication() authenticationState {
	a := authenticationState{digest: s.Number(), server: s.Text(), anonymous: s.Flag(), global: s.gate()}
	for n := s.Count(); n > 0 && s.Err == nil; n-- {
		group := groupState{groupKey: s.groupKey()}
		for s.Flag() {
			group.buckets = append(group.buckets, s.bucket())
		}
		group.limit, group.period = s.Int(mostRequests), s.Time(time.Nanosecond)
		group.late, group.latest = s.Time(time.Nanosecond), s.Int(math.MaxInt32)
		a.groups = append(a.groups, group)
	}
	for s.Flag() {
		e := entryState{route: s.route(), group: s.Int(len(a.groups)), limit: s.Int(math.MaxInt32), unstable: s.at(), byError: s.Flag()}
		for group := s.Int(len(a.groups)); group > 0; group = s.Int(len(a.groups)) {
			if e.byMajor == nil {
				e.byMajor = map[major]int{}
			}
			e.byMajor[s.major()] = group
		}
		a.entries = append(a.entries, e)
	}
	return a
}

func (s *state) bucket() *bucketState {
	b := &bucketState{major: s.major(), window: s.window()}
	for s.Flag() {
		b.subLimits = append(b.subLimits, subLimitState{s.Number(), s.at(), s.Int(255)})
	}
	return b
}

// window reads a window, and moves it to the manager's clock.
func (s *state) window() (w ratelimits.Window) {
	if s.Err == nil {
		var err error
		if w, s.Data, err = ratelimits.DecodeWindow(s.Data); err != nil || w.Reset() > s.written+2*ratelimits.LongestTrust {
			s.Fail()
		}
		w.Shift(s.early, s.late)
	}
	return w
}

// restore takes in a state. The lock for moves is held.
func (m *RESTBucketManager) restore(s *state) {
	now := m.now()
	m.key.Store(s.key)
	m.throttled.Extend(now, s.throttled-now)
	m.doubted.Store(int64(s.doubted))
	if !s.exact {
		m.doubted.Store(int64(now))
		if m.settings.globalLimit > 0 || m.settings.globalOf != nil {
			m.throttled.Extend(now, ratelimits.GlobalPatience)
		}
	}
	shared := m.session() != nil
	for _, state := range s.servers {
		server := m.server(state.name)
		server.edge.restore(now, state.edge)
		for _, invalid := range state.invalid {
			if !shared { // the others have counted it
				server.budget.add(invalidState{min(invalid.at, now), invalid.n})
			}
		}
		for r, until := range state.holds {
			if until > now {
				server.holds.Store(r, until)
			}
		}
	}
	for i := range s.authentication {
		if !shared {
			m.restoreAuthentication(now, &s.authentication[i], s)
		}
	}
	for i := range s.declared {
		if !shared {
			m.restoreDeclared(now, &s.declared[i], s.exact)
		}
	}
}

func (g *gate) restore(now time.Duration, s gateState) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.limit.Hold(now, max(s.until, s.busy)-now)
	g.limit.ExpectLate(now, s.late)
	for range s.row {
		g.refusals.Again(now, false)
	}
	g.probing = s.probing
	g.open.Store(g.opens(now))
}

func (b *budget) add(s invalidState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counts.Add(s.at, s.n)
}

func (m *RESTBucketManager) restoreAuthentication(now time.Duration, s *authenticationState, all *state) {
	if _, ok := m.authentications.Load(s.digest); ok {
		return
	}
	a := m.newAuthentication(s.digest, s.server, s.anonymous, all.globalLimit)
	m.addAuthentication(a)
	a.global.restore(now, s.global)
	if a.global.holdWait(now) > 0 {
		a.global.noteHeld()
	}
	groups := make([]*limitGroup, len(s.groups)+1)
	for i := range s.groups {
		state := &s.groups[i]
		if !state.usable() {
			continue
		}
		group := a.group(state.groupKey)
		groups[i+1] = group
		group.latestLimit.Store(int32(state.latest))
		group.accepted.Store(true) // as far as is known
		for i := range state.buckets {
			m.restoreBucket(group, state.buckets[i], all.exact)
		}
		group.lastLimit.Store(int64(state.limit))
		group.lastPeriod.Store(int64(min(max(state.period, 0), ratelimits.LongestTrust)))
		group.lastLate.Store(int64(min(max(state.late, 0), ratelimits.LongestTrust)))
	}
	for i := range s.entries {
		state := &s.entries[i]
		group := groups[state.group]
		if e, _ := m.findEntry(state.route, s.digest); e != nil || group == nil || state.route.IsZero() {
			continue
		}
		e := m.addEntry(a, state.route, group, false)
		e.use()
		e.limit.Store(int32(state.limit))
		e.unstableUntil.Store(int64(min(state.unstable, now+unstableFor)))
		e.byError.Store(state.byError)
		a.restoreFamily(e)
		for major, i := range state.byMajor {
			if groups[i] != nil {
				e.assignMajor(major, groups[i])
			}
		}
	}
}

func (m *RESTBucketManager) restoreBucket(group *limitGroup, s *bucketState, exact bool) {
	b := m.lockedBucket(group, s.major)
	defer b.mu.Unlock()
	now := b.now()
	b.window = s.window
	b.window.Resume(now, exact)
	for _, state := range s.subLimits {
		q := b.subLimit(now, state.key)
		q.hold.Extend(now, min(state.until-now, ratelimits.LongestTrust))
		for range state.row {
			q.refusals.Again(now, false)
		}
	}
	b.dispatchNow(now)
	b.noteBusy()
}

// doubt holds a bucket that was just made and has the period of others, if another manager may have used it up that nobody can ask any more.
func (m *RESTBucketManager) doubt(b *bucket, period time.Duration) {
	doubted := time.Duration(m.doubted.Load())
	if doubted == 0 || period == 0 {
		return
	}
	now := m.now()
	b.window.HoldFor(now, doubted+period-now, ratelimits.ClassOK)
}
