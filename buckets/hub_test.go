package buckets_test

import (
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// hub is a shared.Source in memory for managers in one test. Its answers come at once unless a switch below says
// otherwise. It fails the test when a manager breaks a rule of shared.Source.
type hub struct {
	t     *testing.T
	start time.Time

	mu       sync.Mutex
	silent   bool          // the hub answers no manager
	err      error         // the error that Err returns to every manager
	lends    bool          // a bucket that one manager uses alone is lent to it
	mean     bool          // no manager gets a new part of the global limit
	late     bool          // a hash is discovered while a session ends
	comes    time.Duration // when managers without a part may get one
	lapsed   bool          // no manager's part is valid any more
	sessions []*hubSession
	buckets  map[shared.Key]*hubBucket
	routes   map[string]*hubRoute
	globals  map[string][]*hubGlobal
}

func newHub(t *testing.T) *hub {
	return &hub{
		t: t, start: time.Now(),
		buckets: make(map[shared.Key]*hubBucket), routes: make(map[string]*hubRoute),
		globals: make(map[string][]*hubGlobal),
	}
}

// quietly changes the hub and notifies no manager.
func (h *hub) quietly(change func(h *hub)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change(h)
}

// count returns a number of the hub.
func (h *hub) count(what func(h *hub) int) (n int) {
	h.quietly(func(h *hub) { n = what(h) })
	return n
}

// lent returns how many buckets are lent.
func (h *hub) lent() int {
	return h.count(func(h *hub) (n int) {
		for _, b := range h.buckets {
			if b.owner != nil {
				n++
			}
		}
		return n
	})
}

// set changes a switch and notifies all managers.
func (h *hub) set(change func(h *hub)) {
	h.mu.Lock()
	change(h)
	for _, b := range h.buckets {
		b.pump()
	}
	for _, r := range h.routes {
		r.pump()
	}
	for credential := range h.globals {
		h.share(credential, func(*hubGlobal) bool { return false })
	}
	for _, s := range h.sessions {
		s.wake()
	}
	h.mu.Unlock()
	synctest.Wait()
}

func (h *hub) now() time.Duration { return time.Since(h.start) }

// misused fails the test because a manager broke a rule.
func (h *hub) misused(format string, arguments ...any) {
	h.t.Errorf("misuse of Shared: "+format, arguments...)
}

func (h *hub) Join(_ clockwork.Clock, origin time.Time) shared.Session {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &hubSession{hub: h, offset: origin.Sub(h.start)}
	h.sessions = append(h.sessions, s)
	return s
}

// empty requires that no manager uses anything of the hub any more.
func (h *hub) empty() {
	h.mu.Lock()
	defer h.mu.Unlock()
	require.Empty(h.t, h.sessions)
	for key, b := range h.buckets {
		require.Empty(h.t, b.users, "%+v", key)
	}
	for name, r := range h.routes {
		require.Nil(h.t, r.holder, name)
		require.Empty(h.t, r.askers, name)
	}
	for _, g := range h.globals {
		require.Empty(h.t, g)
	}
}

// hubSession is the session of one manager. The hub's lock guards it and everything that belongs to it.
type hubSession struct {
	hub     *hub
	offset  time.Duration // between the manager's times and the hub's
	closed  bool
	running sync.WaitGroup
	buckets []*hubShare
	finds   []*hubDiscovery
	invalid int
}

// notify calls changed in a goroutine, unless the session is closed.
func (s *hubSession) notify(changed func()) {
	if !s.closed {
		s.running.Go(changed)
	}
}

// wake calls all changed functions of the session.
func (s *hubSession) wake() {
	for _, b := range s.buckets {
		s.notify(b.changed)
	}
	for _, d := range s.finds {
		s.notify(d.changed)
	}
	for _, all := range s.hub.globals {
		for _, g := range all {
			if g.session == s {
				s.notify(g.changed)
			}
		}
	}
}

func (s *hubSession) Credential(text string) string {
	if text == "" {
		return ""
	}
	n := uint64(14695981039346656037)
	for _, c := range []byte(text) {
		n = (n ^ uint64(c)) * 1099511628211
	}
	digits := strconv.FormatUint(n, 16)
	return "0000000000000000"[len(digits):] + digits
}

func (s *hubSession) Invalid() int {
	s.hub.mu.Lock()
	s.invalid++
	s.hub.mu.Unlock()
	return s.Others()
}

func (s *hubSession) Others() (others int) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	for _, other := range s.hub.sessions {
		if other != s {
			others += other.invalid
		}
	}
	return others
}

func (s *hubSession) Close() {
	h := s.hub
	h.mu.Lock()
	for _, d := range s.finds {
		if h.late {
			d.route.hash = "late"
			s.notify(d.changed)
		}
	}
	s.closed = true
	for _, b := range slices.Clone(s.buckets) {
		b.leave()
	}
	for _, d := range slices.Clone(s.finds) {
		d.leave()
	}
	for credential := range h.globals {
		h.share(credential, func(g *hubGlobal) bool { return g.session == s })
	}
	h.sessions = without(h.sessions, s)
	h.mu.Unlock()
	s.running.Wait()
}

func without[T comparable](all []T, one T) []T {
	return slices.DeleteFunc(all, func(other T) bool { return other == one })
}

// hubGlobal is one manager's part of a global limit.
type hubGlobal struct {
	session     *hubSession
	credential  string
	limit, part int
	need        int
	held        time.Duration // end of the hold, by the hub's clock
	changed     func()
}

func (s *hubSession) Global(credential string, limit int, changed func()) shared.Global {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	g := &hubGlobal{session: s, credential: credential, limit: limit, changed: changed}
	for _, other := range s.hub.globals[credential] {
		g.held = max(g.held, other.held)
	}
	if !s.closed {
		s.hub.globals[credential] = append(s.hub.globals[credential], g)
	}
	if g.held > 0 {
		s.notify(changed)
	}
	return g
}

// share gives an equal part of a limit to each manager that has ever needed one, and removes those for which leaves
// returns true.
func (h *hub) share(credential string, leaves func(*hubGlobal) bool) {
	h.globals[credential] = slices.DeleteFunc(h.globals[credential], leaves)
	for _, g := range h.globals[credential] {
		if part := g.limit / max(len(h.sessions), 1); g.need > 0 && !h.silent && !h.mean && g.part != part {
			g.part = part
			g.session.notify(g.changed)
		}
	}
}

func (g *hubGlobal) Part(time.Duration) (part int, until time.Duration) {
	g.session.hub.mu.Lock()
	defer g.session.hub.mu.Unlock()
	if g.session.closed {
		return 0, 0
	}
	if g.part == 0 || g.session.hub.lapsed {
		return 0, g.session.hub.comes - g.session.offset
	}
	return g.part, 1 << 62
}

func (g *hubGlobal) Need(_ time.Duration, waiting, leaving int) {
	g.session.hub.mu.Lock()
	defer g.session.hub.mu.Unlock()
	if waiting < 0 || leaving < 0 || waiting+leaving < 1 {
		g.session.hub.misused("need of %d and %d", waiting, leaving)
	}
	g.need = waiting + leaving
	g.session.hub.share(g.credential, func(*hubGlobal) bool { return false })
}

func (g *hubGlobal) HoldWait(now time.Duration) time.Duration {
	g.session.hub.mu.Lock()
	defer g.session.hub.mu.Unlock()
	return max(g.held-now-g.session.offset, 0)
}

func (g *hubGlobal) Hold(now, d time.Duration) {
	h := g.session.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	until := now + g.session.offset + d
	for _, other := range h.globals[g.credential] {
		if until > other.held {
			other.held = until
			other.session.notify(other.changed)
		}
	}
}

func (g *hubGlobal) Err() error {
	g.session.hub.mu.Lock()
	defer g.session.hub.mu.Unlock()
	return g.session.hub.err
}

func (g *hubGlobal) Close() {
	g.session.hub.mu.Lock()
	defer g.session.hub.mu.Unlock()
	g.session.hub.share(g.credential, func(other *hubGlobal) bool { return other == g })
}

// hubRoute is the state of the discovery of a route's bucket.
type hubRoute struct {
	hub    *hub
	hash   string
	holder *hubDiscovery // has the permission to probe
	askers []*hubDiscovery
	probes int // how often the permission was given
}

type hubDiscovery struct {
	session *hubSession
	route   *hubRoute
	asks    bool
	may     bool
	changed func()
}

func (s *hubSession) Discovery(credential, route string, changed func()) shared.Discovery {
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.routes[credential+" "+route]
	if r == nil {
		r = &hubRoute{hub: h}
		h.routes[credential+" "+route] = r
	}
	d := &hubDiscovery{session: s, route: r, changed: changed}
	s.finds = append(s.finds, d)
	s.notify(changed)
	return d
}

// pump gives the permission to probe to the next manager that asked.
func (r *hubRoute) pump() {
	if r.hash != "" && !r.hub.silent {
		r.askers = nil // they use the hash
	}
	if r.holder != nil || len(r.askers) == 0 || r.hub.silent || r.hub.err != nil {
		return
	}
	r.holder, r.askers = r.askers[0], r.askers[1:]
	r.holder.may = true
	r.probes++
	r.holder.session.notify(r.holder.changed)
	for _, d := range r.askers {
		d.session.notify(d.changed) // another manager has the permission
	}
}

func (d *hubDiscovery) Ask(time.Duration) {
	d.route.hub.mu.Lock()
	defer d.route.hub.mu.Unlock()
	if d.session.closed {
		return
	}
	if d.asks {
		d.route.hub.misused("asked twice")
	}
	d.asks = true
	d.route.askers = append(d.route.askers, d)
	if d.route.pump(); !d.may && !d.route.hub.silent {
		d.session.notify(d.changed)
	}
}

func (d *hubDiscovery) May(time.Duration) bool {
	d.route.hub.mu.Lock()
	defer d.route.hub.mu.Unlock()
	return d.may
}

func (d *hubDiscovery) Sent(time.Duration) {
	d.route.hub.mu.Lock()
	defer d.route.hub.mu.Unlock()
	if !d.may {
		d.route.hub.misused("a probe was sent without permission")
	}
	d.may = false
}

func (d *hubDiscovery) Hash() string {
	d.route.hub.mu.Lock()
	defer d.route.hub.mu.Unlock()
	if d.route.hub.silent {
		return ""
	}
	return d.route.hash
}

func (d *hubDiscovery) Found(_ time.Duration, hash string) {
	r := d.route
	r.hub.mu.Lock()
	defer r.hub.mu.Unlock()
	if d.session.closed {
		return
	}
	if r.holder != d {
		r.hub.misused("found %q without permission", hash)
		return
	}
	r.holder, d.asks, d.may = nil, false, false
	if hash != "" {
		r.hash = hash
		for _, s := range r.hub.sessions {
			for _, other := range s.finds {
				if other.route == r {
					s.notify(other.changed)
				}
			}
		}
	}
	r.pump()
}

func (d *hubDiscovery) Err() error {
	d.route.hub.mu.Lock()
	defer d.route.hub.mu.Unlock()
	return d.route.hub.err
}

func (d *hubDiscovery) Close() {
	d.route.hub.mu.Lock()
	defer d.route.hub.mu.Unlock()
	d.leave()
}

func (d *hubDiscovery) leave() {
	r := d.route
	d.session.finds = without(d.session.finds, d)
	r.askers = without(r.askers, d)
	if r.holder == d {
		r.holder = nil
		r.pump()
	}
}

// fleet starts n managers that share a hub and send to the same simulated Discord.
func fleet(t *testing.T, h *hub, n int, config discordsim.Config, options ...buckets.Option) []*world {
	t.Helper()
	options = append([]buckets.Option{buckets.WithShared(h)}, options...)
	all := []*world{newWorld(t, config, options...)}
	for len(all) < n {
		time.Sleep(7 * time.Millisecond) // so that their times differ
		m := started(t, append([]buckets.Option{buckets.WithMaxRateLimit(time.Hour)}, options...)...)
		all = append(all, &world{Server: all[0].Server, manager: m, sent: 1000 * len(all)})
	}
	return all
}
