package buckets

import (
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/ratelight/ratelight/internal/wire"
	"github.com/ratelight/ratelight/routes"
)

// A state is what a manager leaves to the next one. All its times are those of the manager's clock, as its header says what that and the wall
// clock showed.

// ErrState is wrapped by the error of RestoreState for a state that cannot be used: it is damaged, of another version, or was written with
// another key.
var ErrState = wire.ErrState

const (
	stateKind    = 'B'
	stateVersion = 3
	bucketSize   = 128 // of a bucket in the state, as most are
)

// WithStateKey sets a secret that WriteState uses to hash credentials and tokens, which next to the state has to be given to RestoreState.
// Without it, who reads a state cannot find out a token that is as random as those of Discord are, but can confirm a guess.
func WithStateKey(secret []byte) Option {
	kept := wire.NewSecret(secret)
	return func(s *settings) { s.stateKey = kept }
}

// WriteState writes all that the next manager needs to go on without asking Discord anew: to which buckets routes belong, windows and
// holds that are not over, those of declared limits, too, and the invalid requests of the latest period. RestoreState reads it.
//
// After Close or Shutdown it writes what was known at that moment, if it was called before, or RestoreState was: nothing has been sent
// since, so the next manager goes on exactly there. What is written earlier says that more may have been sent since. Requests in flight
// count as lost in both cases.
//
// Credentials and tokens are written as keyed hashes, see WithStateKey. Ids and routes are not hidden, so the state is for its owner's eyes
// only. Of limits that are shared (WithShared) nothing is written: they are kept by the server that processes share.
//
// It does not delay requests: one bucket is locked at a time, and nothing is while w is written to, with one call of Write. The errors
// are those of w, and ErrClosed.
func (m *RESTBucketManager) WriteState(w io.Writer) error {
	b, err := m.takeState()
	if err != nil {
		return err
	}
	if _, err := w.Write(b); err != nil {
		return fmt.Errorf("writing the state: %w", err)
	}
	return nil
}

func (m *RESTBucketManager) takeState() ([]byte, error) {
	m.leaving.Lock()
	defer m.leaving.Unlock()
	m.leaves = true
	switch {
	case m.left != nil:
		return m.left, nil
	case m.state.Load() == ended:
		return nil, fmt.Errorf("nothing was kept of the state: %w", ErrClosed)
	}
	return m.encode(), nil
}

// stateWriter collects a state. Routes are written as their number in a list.
type stateWriter struct {
	b       []byte
	session bool // limits are shared
	numbers map[routes.Route]uint64
	names   []string
}

func (s *stateWriter) number(n uint64)      { s.b = binary.AppendUvarint(s.b, n) }
func (s *stateWriter) flag(f bool)          { s.b = wire.AppendFlag(s.b, f) }
func (s *stateWriter) text(t string)        { s.b = wire.AppendText(s.b, t) }
func (s *stateWriter) time(t time.Duration) { s.b = wire.AppendTime(s.b, t, time.Nanosecond) }

// major writes a major parameter. Ids have all their bits, and so do hashes.
func (s *stateWriter) major(m major) {
	s.number(m.id)
	s.number(m.token)
}

// route writes a route, or 0 for one that cannot be told by its name.
func (s *stateWriter) route(r routes.Route) {
	n, ok := s.numbers[r]
	if !ok {
		if parsed, err := routes.Parse(r.String()); err == nil && parsed == r {
			s.names = append(s.names, r.String())
			n = uint64(len(s.names))
		}
		s.numbers[r] = n
	}
	s.number(n)
}

// key writes what names a limit group. A bucket hash that may contain a token is replaced: the first response names another one then.
func (s *stateWriter) key(m *RESTBucketManager, k groupKey, secret bool) {
	s.number(uint64(k.kind))
	if secret || len(k.hash) > longestShown {
		k.hash = "#" + strconv.FormatUint(m.digest(k.hash), 16)
	}
	s.text(k.hash + k.family) // there is at most one of both
	s.route(k.route)
}

// encode returns the state, in which nothing can have been sent since if the manager is closed.
func (m *RESTBucketManager) encode() []byte {
	exact := m.closed() // before anything is looked at
	s := &stateWriter{b: make([]byte, 0, m.buckets.size()*bucketSize), session: m.session() != nil, numbers: map[routes.Route]uint64{}}
	m.moves.Lock()
	servers := slices.Collect(maps.Values(m.servers))
	s.time(m.throttled.Until())
	m.moves.Unlock()
	s.number(uint64(len(servers)))
	for _, server := range servers {
		s.server(m, server)
	}
	for _, a := range m.authentications.All() {
		if !s.session {
			s.flag(true)
			s.authentication(m, a)
		}
	}
	s.flag(false)
	s.declared(m)

	key := m.key.Load()
	b := append(wire.BeginBlock(stateKind, stateVersion), key.Salt[:]...)
	b = binary.BigEndian.AppendUint64(b, key.Sum(""))
	b = wire.AppendFlag(b, exact)
	b = wire.AppendTime(b, m.now(), time.Nanosecond)
	b = wire.AppendTime(b, time.Duration(m.doubted.Load()), time.Nanosecond)
	b = wire.AppendTime(b, time.Duration(m.settings.clock.Now().UnixNano()), time.Nanosecond)
	b = binary.AppendUvarint(b, uint64(len(s.names)))
	for _, name := range s.names {
		b = wire.AppendText(b, name)
	}
	return wire.EndBlock(append(b, s.b...))
}

func (s *stateWriter) server(m *RESTBucketManager, server *server) {
	s.text(server.name)
	m.moves.Lock()
	edge := server.edge // there may be another one after each start
	m.moves.Unlock()
	s.gate(edge)
	if !s.session {
		server.budget.mu.Lock()
		now := m.now()
		for age, n := range server.budget.counts.Counts(now) {
			s.number(uint64(n))
			s.time(now - age)
		}
		server.budget.mu.Unlock()
	}
	s.number(0)
	holds := maps.Collect(server.holds.All())
	secrets := m.secretKeys(server) // later, so that theirs are known
	for r, until := range holds {
		s.flag(true)
		s.key(m, r.groupKey, secrets[r.groupKey])
		s.major(r.major)
		s.time(until)
	}
	s.flag(false)
}

// secretKeys returns what names limit groups of a server whose hashes contain tokens.
func (m *RESTBucketManager) secretKeys(server *server) map[groupKey]bool {
	secrets := map[groupKey]bool{}
	for _, a := range m.authentications.All() {
		if a.server != server {
			continue
		}
		m.moves.Lock()
		for key, group := range a.groups {
			if group.secret.Load() {
				secrets[key] = true
			}
		}
		m.moves.Unlock()
	}
	return secrets
}

func (s *stateWriter) gate(g *gate) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.manager.now()
	s.time(now + g.limit.HoldWait(now))
	s.time(now + g.limit.Busy(now))
	s.number(uint64(g.refusals.Row()))
	s.flag(g.probing)
	s.time(g.limit.Late())
}

func (s *stateWriter) authentication(m *RESTBucketManager, a *authentication) {
	m.moves.Lock()
	groups := slices.SortedFunc(maps.Values(a.groups), func(a, b *limitGroup) int { return int(a.kind) - int(b.kind) })
	entries := slices.Collect(maps.Keys(a.routes))
	m.moves.Unlock()
	s.number(a.digest)
	s.text(a.server.name)
	s.flag(a.anonymous)
	s.gate(a.global)
	s.number(uint64(len(groups)))
	numbers := make(map[*limitGroup]uint64, len(groups))
	for i, group := range groups {
		numbers[group] = uint64(i + 1)
		s.key(m, group.groupKey, group.secret.Load())
		for _, b := range group.all() {
			s.bucket(b)
		}
		s.flag(false)
		s.number(uint64(group.lastLimit.Load()))
		s.time(time.Duration(group.lastPeriod.Load()))
		s.time(time.Duration(group.lastLate.Load()))
		s.number(uint64(group.latestLimit.Load()))
	}
	for _, e := range entries {
		if e.hinted.Load() {
			continue // the routes of its family are the hint
		}
		s.flag(true)
		s.route(e.route)
		s.number(numbers[e.group.Load()])
		s.number(uint64(e.limit.Load()))
		s.time(time.Duration(e.unstableUntil.Load()))
		s.flag(e.byError.Load())
		if byMajor := e.groupsByMajor.Load(); byMajor != nil {
			for major, group := range byMajor.All() {
				s.number(numbers[group])
				if numbers[group] > 0 {
					s.major(major)
				}
			}
		}
		s.number(0)
	}
	s.flag(false)
}

// bucket writes a bucket, unless nothing is known of it that its limit group does not tell.
func (s *stateWriter) bucket(b *bucket) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tellGroup()
	now := b.now()
	held := b.window.HoldWait(now) > 0 || b.queues != nil && len(b.queues.subLimits) > 0
	if b.window.Limit() == 0 && !held && (b.window.Unlimited() || b.window.InFlight() == 0) {
		return
	}
	s.flag(true)
	s.major(b.major)
	s.b = b.window.Append(s.b)
	if b.queues != nil {
		for key, q := range b.queues.subLimits {
			if q.hold.Wait(now) > 0 {
				s.flag(true)
				s.number(key)
				s.time(q.hold.Until())
				s.number(uint64(q.refusals.Row()))
			}
		}
	}
	s.flag(false)
}
