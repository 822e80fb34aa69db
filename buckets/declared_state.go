package buckets

import (
	"slices"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

// What a manager leaves to the next of declared limits: their windows in which something is charged, by what names the limit for both.

// declared writes the windows of declared limits.
func (s *stateWriter) declared(m *RESTBucketManager) {
	if s.session {
		s.number(0)
		return
	}
	windows := make(map[*limitRule][]*declaredLimit)
	for key, d := range m.limits.All() {
		windows[key.rule] = append(windows[key.rule], d)
	}
	s.number(uint64(len(m.settings.limits)))
	for _, rule := range m.settings.limits {
		s.text(rule.name)
		s.number(uint64(rule.limit))
		s.time(rule.period)
		for _, d := range windows[rule] {
			s.declaredWindow(d)
		}
		s.flag(false)
	}
}

func (s *stateWriter) declaredWindow(d *declaredLimit) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.unused(d.now(d.manager.now())) {
		return
	}
	s.flag(true)
	s.number(d.key.credential)
	s.major(d.key.major)
	s.number(d.key.rest)
	s.b = d.window.Append(s.b)
}

// declaredState is a declared limit in a state, with its windows.
type declaredState struct {
	name    string
	limit   int
	period  time.Duration
	windows []declaredWindow
}

type declaredWindow struct {
	credential uint64
	major      major
	rest       uint64
	window     ratelimits.Window
}

func (s *state) readDeclared() declaredState {
	d := declaredState{name: s.Text(), limit: s.Int(maxDeclaredLimit), period: s.Time(time.Nanosecond)}
	for s.Flag() {
		d.windows = append(d.windows, declaredWindow{s.Number(), s.major(), s.Number(), s.window()})
	}
	return d
}

// restoreDeclared takes in the windows of a limit, if that is still declared.
func (m *RESTBucketManager) restoreDeclared(now time.Duration, s *declaredState, exact bool) {
	i := slices.IndexFunc(m.settings.limits, func(r *limitRule) bool {
		return r.name == s.name && r.limit == s.limit && r.period == s.period
	})
	if i < 0 {
		return
	}
	for _, w := range s.windows {
		key := limitKey{m.settings.limits[i], w.credential, w.major, w.rest}
		for !m.declaredLimit(key, "").goOn(now, w.window, exact || s.period > longestDoubt) {
		}
	}
}

// goOn continues with a window that another manager has left. It reports false if the limit has been forgotten meanwhile.
func (d *declaredLimit) goOn(now time.Duration, window ratelimits.Window, exact bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.evicted.Load() {
		return false
	}
	d.window = window
	d.window.Declare(d.key.rule.limit, d.key.rule.period) // whatever the state says
	d.window.Resume(d.now(now), exact)
	return true
}

// longestDoubt is the longest period for which a window counts as used up because another manager may have used it up that nobody can ask
// any more. With longer ones nothing would be sent for hours, for what that manager may have sent in its last seconds.
const longestDoubt = 10 * time.Minute

// doubt lets a window that was just made be used up if another manager may have used it up.
func (d *declaredLimit) doubt() {
	doubted, period := time.Duration(d.manager.doubted.Load()), d.key.rule.period
	if doubted > 0 && d.manager.session() == nil && period <= longestDoubt && d.manager.now() < doubted+period {
		d.window.Resume(doubted, false)
	}
}
