package shared

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// want says that a session needs a loan that another session has. For each session that has such loans, the server
// stores a value with one line for each want.
type want struct {
	at      time.Duration // when the session last told the server that it needs the loan, by the server's clock
	session string        // the session that needs the loan
	lent    string        // version of the state that was lent
	bucket  string        // name of the bucket
}

// wantTime is how long a want is valid. The session repeats the want with its calls until the loan is returned.
const wantTime = 1500 * time.Millisecond

// wants returns the wants in a value that are valid at now, a time by the server's clock.
func wants(value string, now time.Duration) (all []want) {
	_, list, _ := strings.Cut(value, " ")
	for line := range strings.Lines(list) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 4)
		if len(fields) < 4 {
			continue
		}
		at, err := strconv.ParseInt(fields[0], 10, 64)
		name, quoted := strconv.Unquote(fields[3])
		w := want{time.Duration(at) * time.Microsecond, fields[1], fields[2], name}
		if err == nil && quoted == nil && (now-w.at).Abs() < wantTime {
			all = append(all, w)
		}
	}
	return all
}

func (w *want) line() string {
	at := strconv.FormatInt(w.at.Microseconds(), 10)
	return at + " " + w.session + " " + w.lent + " " + strconv.Quote(w.bucket) + "\n"
}

// needs holds the loans that this session needs from one other session. Calls for different loans may be made at the
// same time. Only one of them can replace the value on the server, so each call sends all wants.
type needs struct {
	value string          // the latest known value on the server, with the wants of all sessions
	loans map[string]want // by the names of the buckets
}

// wantStep returns a step that tells q.owner that this session needs the loan of a bucket. If the server already has a
// recent want of this session for that loan, the step only loads.
func (s *session) wantStep(q *turn, name string) Step {
	s.agents.mu.Lock()
	defer s.agents.mu.Unlock()
	for owner, n := range s.agents.needs {
		maps.DeleteFunc(n.loans, func(_ string, w want) bool { return (q.at - w.at).Abs() >= wantTime })
		if len(n.loans) == 0 {
			delete(s.agents.needs, owner)
		}
	}
	n := s.agents.needs[q.owner]
	if n == nil {
		n = &needs{loans: map[string]want{}}
		s.agents.needs[q.owner] = n
	}
	n.loans[name] = want{q.at, s.id, q.expected.String(), name}
	if n.says(n.loans[name], wantTime/2) {
		return Step{Key: s.store.keys.wants(q.owner)}
	}
	list := ""
	for _, name := range slices.Sorted(maps.Keys(n.loans)) {
		w := n.loans[name]
		list += w.line()
	}
	for _, w := range wants(n.value, q.at) {
		if w.session != s.id {
			list += w.line()
		}
	}
	return Step{
		Key: s.store.keys.wants(q.owner), Version: versionOf(n.value),
		Value: s.id + "." + strconv.FormatUint(q.number, 10) + " " + list,
		Life:  wantTime, Channels: []string{s.store.keys.channel(q.owner)}, Message: "want ",
	}
}

// says reports whether the known value contains a want of the same session for the same loan that is not older than
// age.
func (n *needs) says(mine want, age time.Duration) bool {
	return slices.ContainsFunc(wants(n.value, mine.at), func(w want) bool {
		return w.session == mine.session && w.bucket == mine.bucket && w.lent == mine.lent && mine.at-w.at <= age
	})
}

// heardWants records the result of a wantStep, which is the third step of a call. It reports whether the server now has
// the want. It returns false if the step had no effect because another session was faster.
func (s *session) heardWants(q *turn, name string, l Loaded) bool {
	s.agents.mu.Lock()
	defer s.agents.mu.Unlock()
	n := s.agents.needs[q.owner]
	if n == nil {
		return l.Replaced
	}
	if n.value = l.Value; l.Replaced {
		n.value = q.steps[2].Value
	}
	return n.says(n.loans[name], wantTime)
}

// toldWants records the wants that another session has sent by message.
func (s *session) toldWants(value string) { s.wantLoans(value, s.engineTime(s.now())) }

// wantLoans records which loans of this session other sessions need.
func (s *session) wantLoans(value string, now time.Duration) {
	for _, w := range wants(value, now) {
		if b := s.named(w.bucket); b != nil {
			b.want(&w)
		} else {
			s.spawn(func() { s.disown(w.bucket, w.lent) })
		}
	}
}

// disown ends a loan of a bucket that this session no longer uses. The loan is on the server because the server has
// gone back to a state in which this session had the loan.
func (s *session) disown(name, lent string) {
	key, era := s.store.keys.name("b", name), s.eraNumber()
	r, err := s.exchange("swap", era, Step{Key: key})
	if err != nil || r.anew {
		return // the session that needs the loan asks again
	}
	state, err := decode(r.values[0].Value)
	if err != nil || state.version.String() != lent || state.owner != s.id {
		return
	}
	now := s.engineTime(s.now())
	state.restart(era, now)
	state.takeOver(now)
	state.version.number++
	_, _ = s.exchange("swap", era, Step{Key: key, Version: lent, Value: state.encode(), Life: keyTime + state.rest(now)})
}
