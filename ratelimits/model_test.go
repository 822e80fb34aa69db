package ratelimits

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// stage plays requests through a Window against the simulated Discord, in virtual time: the window decides when a
// request leaves, the schedule decides how long it travels and what becomes of it, and the server judges.
type stage struct {
	t      require.TestingT
	start  time.Time
	world  *discordsim.World
	window player
	now    time.Duration
	flying []*flight // by the time of their next event
	draw   func(*flight)
	quota  discordsim.Quota
	late   func() time.Duration                          // how long after an answer was received it is reported; nil: at once
	spoil  func(processed time.Time, header http.Header) // changes how an answer says what it says; nil: not at all

	sent, answered int
	trace          []string
}

// player is what a stage needs of a window.
type player interface {
	Take(now time.Duration) (Permit, bool)
	Next(now time.Duration) (time.Duration, bool)
	Return(now time.Duration, p Permit)
	Report(now time.Duration, p Permit, r Response)
	Lost(now time.Duration, p Permit)
	Limit() int
	Period() time.Duration
	InFlight() int
	String() string
}

// String is for the story of a failure.
func (w *Window) String() string {
	text := fmt.Sprintf("late %v (%d of %d within %d, others %v), %d of %d, in flight %d, uncounted %d, %v, refuted %b, "+
		"count %d until %v, longest %v, probing %v",
		w.readRare().late.by, w.returned, w.opened, w.openedWithin, w.evidence.others, w.charged(0), w.limit, w.inflight, w.uncounted,
		w.Kind(), w.evidence.refuted, w.evidence.fixed.count, w.evidence.fixed.until, w.longest, w.probing)
	for _, c := range w.ledger.list() {
		text += fmt.Sprintf("\n             %+v", c)
	}
	return text
}

// flight is one request under way.
type flight struct {
	permit   Permit
	sequence int64
	there    time.Duration // how long it travels to the server
	back     time.Duration // and its response back
	late     time.Duration // until that is reported
	fate     fate
	arrived  bool
	at       time.Duration // of its next event
	response *discordsim.Response
}

// fate is what becomes of a request.
type fate int

const (
	answered        fate = iota
	broken               // 500, counted by the bucket
	brokenUncounted      // 502, not counted
	lostAfter            // processed, but the response never comes
	lostBefore           // never reaches the server
	unsent               // given back before it was sent
	noHeaders            // an answer without any limits
)

func newStage(t require.TestingT, config discordsim.Config, draw func(*flight)) *stage {
	s := &stage{t: t, window: &Window{}, start: time.Unix(1_700_000_000, 0), draw: draw, quota: config.Rules[0].Quota}
	fateOf := func(want fate) func(discordsim.Call) bool {
		return func(c discordsim.Call) bool { return s.fateOf(c.Request.Sequence) == want }
	}
	config.Global = discordsim.Unlimited()
	config.Faults = append(config.Faults,
		discordsim.Fault{When: fateOf(broken), Status: 500},
		discordsim.Fault{When: fateOf(brokenUncounted), Status: 502, Uncounted: true},
		discordsim.Fault{When: fateOf(lostAfter), Connection: discordsim.ConnectionLostAfter},
		discordsim.Fault{When: fateOf(lostBefore), Connection: discordsim.ConnectionLostBefore},
		withFate(discordsim.NoHeaders(), fateOf(noHeaders)),
	)
	world, err := discordsim.NewWorld(s.start, config)
	require.NoError(t, err)
	s.world = world
	return s
}

func withFate(f discordsim.Fault, when func(discordsim.Call) bool) discordsim.Fault {
	f.When = when
	return f
}

func (s *stage) fateOf(sequence int64) fate {
	for _, f := range s.flying {
		if f.sequence == sequence {
			return f.fate
		}
	}
	return answered
}

func (s *stage) log(format string, arguments ...any) {
	s.trace = append(s.trace, fmt.Sprintf("%10v ", s.now)+fmt.Sprintf(format, arguments...))
}

// send sends one request if the window lets it.
func (s *stage) send() bool {
	for at, ok := s.event(); ok && at <= s.now; at, ok = s.event() {
		s.step() // what is known at this moment is known before
	}
	permit, ok := s.window.Take(s.now)
	if !ok {
		return false
	}
	s.sent++
	f := &flight{permit: permit, sequence: int64(s.sent)}
	s.draw(f)
	if s.window.Limit() == 0 || s.window.Period() < s.quota.Period-tick {
		f.fate = answered // before that is known, no client can tell what a request without an answer has used up
	}
	s.log("send %d fate %d there %v back %v", f.sequence, f.fate, f.there, f.back)
	if f.fate == unsent {
		s.window.Return(s.now, permit)
		return true
	}
	f.at = s.now + f.there
	s.launch(f)
	return true
}

func (s *stage) launch(f *flight) {
	i, _ := slices.BinarySearchFunc(s.flying, f, func(a, b *flight) int {
		if a.at != b.at {
			return int(a.at - b.at)
		}
		return -1 // behind those of the same time
	})
	s.flying = slices.Insert(s.flying, i, f)
}

// event is the time at which something next happens to a request, false if none is under way.
func (s *stage) event() (time.Duration, bool) {
	if len(s.flying) == 0 {
		return 0, false
	}
	return s.flying[0].at, true
}

// step lets the next event happen.
func (s *stage) step() {
	f := s.flying[0]
	s.now = max(s.now, f.at)
	at := s.start.Add(s.now)
	if !f.arrived {
		f.arrived = true
		f.response = s.world.Handle(at, discordsim.Request{
			Method: "POST", Path: "/channels/1/messages", Sequence: f.sequence, SentAt: s.start.Add(f.permit.Sent()),
		})
		if s.spoil != nil {
			s.spoil(at, f.response.Header)
		}
		s.flying = s.flying[1:]
		if s.late != nil {
			f.late = s.late()
		}
		f.at = s.now + f.back + f.late
		s.launch(f)
		return
	}
	s.flying = s.flying[1:]
	received := f.at - f.late
	if f.fate == lostAfter || f.fate == lostBefore {
		s.log("lost %d at %v", f.sequence, received)
		s.window.Lost(received, f.permit)
		return
	}
	s.world.DeliverLate(f.response, s.start.Add(received), at)
	r := ParseResponse(f.response.Status, f.response.Header, f.response.Body)
	s.log("answer %d of %v: %d %v remaining %d reset %v", f.sequence, received, r.Status, r.Class, r.Remaining, r.ResetAfter)
	if r.Class != ClassOK {
		s.log("  because %s, %v", f.response.Because, f.response.Verdict)
	} else if f.fate == answered {
		s.answered++
	}
	s.window.Report(received, f.permit, r)
	s.log("  now %v", s.window)
	require.GreaterOrEqual(s.t, s.window.InFlight(), 0)
}

// wait lets time pass until the window may let a request leave or something happens, and fails if neither ever will.
func (s *stage) wait() {
	at, can := s.window.Next(s.now)
	event, any := s.event()
	switch {
	case any && (!can || event <= at):
		s.step()
	case can:
		require.Greater(s.t, at, s.now, "the window said now, but gave nothing:\n%s", s.story())
		require.Less(s.t, at, s.now+25*time.Hour, "stopped for ever:\n%s", s.story())
		s.now = at
	default:
		require.Fail(s.t, "nothing is under way, and the window waits for ever", s.story())
	}
}

// finish lets everything that is under way end.
func (s *stage) finish() {
	for len(s.flying) > 0 {
		s.step()
	}
	require.Zero(s.t, s.window.InFlight(), s.story())
}

func (s *stage) story() string {
	var b []byte
	for _, line := range s.trace[max(len(s.trace)-120, 0):] {
		b = append(append(b, line...), '\n')
	}
	return string(b)
}

// check fails if the server refused something that could have been avoided. Of a log that names its next place the
// judge remembers more answers than a Window, which looks like a fixed window for as long as none moves a reset: there
// it may be one batch.
func (s *stage) check() {
	report, most := s.world.Report(), 0
	if s.quota.NamesNext {
		most = s.quota.Limit
	}
	if report.Avoidable.Total() > most {
		require.Fail(s.t, "avoidable refusals", "%+v\n%s", report.Avoidable, s.story())
	}
}

// quotas draws a limit of any kind.
func quotas(t *rapid.T) discordsim.Quota {
	limit := rapid.SampledFrom([]int{1, 2, 3, 5, 5, 8, 30}).Draw(t, "limit")
	period := rapid.SampledFrom([]time.Duration{time.Second, 100 * ms, 250 * ms, 2 * time.Second, 5 * time.Second}).Draw(t, "period")
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 0:
		return discordsim.Fixed(limit, period)
	case 1:
		return discordsim.Aligned(limit, period, period/3)
	case 2:
		return discordsim.Sliding(limit, period)
	case 3:
		return discordsim.SlidingNext(limit, period)
	}
	return discordsim.Leaky(limit, period)
}

// lateRule draws how much later than announced a bucket of a kind opens at first, and perhaps from a later moment on.
func lateRule(kind func(limit int, period time.Duration) discordsim.Quota) func(*rapid.T) discordsim.Rule {
	return func(t *rapid.T) discordsim.Rule {
		drawn := quotas(t)
		return lately(t, kind(drawn.Limit, drawn.Period))
	}
}

func lately(t *rapid.T, punctual discordsim.Quota) discordsim.Rule {
	unit := punctual.Period / 100
	if punctual.Kind == discordsim.KindLeaky { // a longer lateness than a slot may be the place of another client
		unit /= time.Duration(punctual.Limit)
	}
	late := func() discordsim.Quota {
		by := rapid.SampledFrom([]time.Duration{30, 0, 5, 1}).Draw(t, "late by")
		random := rapid.SampledFrom([]time.Duration{0, 0, 5, 30}).Draw(t, "late at random by")
		return punctual.Late(by*unit, random*unit)
	}
	rule := discordsim.Rule{Path: "**", Quota: late()}
	if rapid.Bool().Draw(t, "for a time") {
		other := rapid.SampledFrom([]discordsim.Quota{punctual, late()}).Draw(t, "then")
		rule.Changes = []discordsim.Change{
			{At: 10 * punctual.Period, Quota: other}, {At: 30 * punctual.Period, Quota: rule.Quota},
		}
	}
	return rule
}

// lagRule draws a leaky bucket whose Remaining lags behind its level.
func lagRule(t *rapid.T) discordsim.Rule {
	quota := quotas(t)
	leaky := discordsim.Leaky(quota.Limit, quota.Period)
	leaky.Lags = true
	return discordsim.Rule{Path: "**", Quota: leaky}
}

// travel draws latencies and fates.
func travel(t *rapid.T) func(*flight) {
	base := rapid.SampledFrom([]int{10, 0, 1, 50, 150}).Draw(t, "latency") // ms, one way
	jitter := rapid.SampledFrom([]int{5, 0, 50}).Draw(t, "jitter")
	faults := rapid.SampledFrom([]int{0, 0, 5, 30}).Draw(t, "faults") // percent
	way := rapid.Custom(func(t *rapid.T) time.Duration {
		d := time.Microsecond + time.Duration(base)*ms + time.Duration(rapid.IntRange(0, jitter*1000).Draw(t, "µs"))*time.Microsecond
		if faults > 0 && rapid.IntRange(0, 60).Draw(t, "slow") == 60 {
			d += 2500 * ms
		}
		return d
	})
	return func(f *flight) {
		f.there, f.back = way.Draw(t, "there"), way.Draw(t, "back")
		if rapid.IntRange(1, 100).Draw(t, "fault") <= faults {
			f.fate = fate(rapid.IntRange(1, int(noHeaders)).Draw(t, "fate"))
		}
	}
}

// TestNoScheduleDrawsAnAvoidableRefusal plays random loads over random latencies, faults and other users of the bucket.
// To play more of them: go test ./ratelimits -run Schedule -rapid.checks=1000000
func TestNoScheduleDrawsAnAvoidableRefusal(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) { play(t, &Window{}).check() })
}

// Buckets open later than announced. Refusals that show more of that than the client knew are excused, and those from
// which no client can tell lateness from another client's requests teach nothing. Of a fixed window others are left in
// one of 100,000 schedules: the network is slower than its period, and no answer tells which window it speaks of. Where
// places come back one by one, a 429 does not tell for which of those that are late it asks to wait, and may show too
// little: of a log in one of 2,000 schedules (more than three in one of 100,000), of a leaky bucket in one of 18,000.
func TestLateBucketsRefuseFewRequestsThatCouldHaveWaited(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]struct {
		of   func(int, time.Duration) discordsim.Quota
		most int
	}{
		"fixed": {discordsim.Fixed, 0}, "log": {discordsim.Sliding, 3}, "leaky": {discordsim.Leaky, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				s := playRule(t, lateRule(kind.of), &Window{})
				require.LessOrEqual(t, s.world.Report().Avoidable.Total(), kind.most, s.story())
			})
		})
	}
}

// The bucket's Remaining lags behind its level.
func TestNoScheduleOfALaggingBucketDrawsAnAvoidableRefusal(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) { playRule(t, lagRule, &Window{}).check() })
}

// play plays a random load on a window, on a stage that may be changed before.
func play(t *rapid.T, window player, change ...func(*stage)) *stage {
	return playRule(t, func(t *rapid.T) discordsim.Rule { return discordsim.Rule{Path: "**", Quota: quotas(t)} }, window, change...)
}

func playRule(t *rapid.T, rule func(*rapid.T) discordsim.Rule, window player, change ...func(*stage)) *stage {
	config := discordsim.Config{
		Rules:    []discordsim.Rule{rule(t)},
		Rounding: rapid.SampledFrom([]discordsim.Rounding{discordsim.RoundUp, discordsim.RoundNearest, discordsim.RoundDown}).Draw(t, "rounding"),
	}
	others := rapid.SampledFrom([]int{0, 0, 0, 300, 1500}).Draw(t, "others every") // ms
	lateness := config.Rules[0].Quota.Lateness != (discordsim.Lateness{}) || len(config.Rules[0].Changes) > 0
	if config.Rules[0].Quota.NamesNext || lateness { // if others use it, no answer need ever tell the period of such a log, or lateness
		others = 0
	}
	if others > 0 {
		config.Foreign = []discordsim.ForeignUse{{
			Request: discordsim.Request{Method: "POST", Path: "/channels/1/messages"}, Every: time.Duration(others) * ms,
		}}
	}
	draw := travel(t)
	if others > 0 {
		// Without headers one cannot tell the end of a window that somebody else has opened.
		all := draw
		draw = func(f *flight) {
			if all(f); f.fate == broken || f.fate == lostAfter || f.fate == noHeaders {
				f.fate = brokenUncounted
			}
		}
	}
	if lateness { // and what is slow meets openings of which it cannot know
		all := draw
		draw = func(f *flight) {
			all(f)
			f.there, f.back = f.there%second, f.back%second
		}
	}
	if config.Rules[0].Quota.NamesNext || lateness || config.Rules[0].Quota.Lags { // nor, without all of them, what such a log counts, or how late it is
		all := draw
		draw = func(f *flight) {
			if all(f); f.fate != unsent {
				f.fate = answered
			}
		}
	}
	pause := rapid.SampledFrom([]int{0, 0, 20, 200, 1000}).Draw(t, "pause") // ms, at most
	s := newStage(t, config, draw)
	s.window = window
	for _, f := range change {
		f(s)
	}
	for range rapid.IntRange(5, 60).Draw(t, "requests") {
		if pause > 0 {
			until := s.now + time.Duration(rapid.IntRange(0, pause).Draw(t, "pause"))*ms
			for at, ok := s.event(); ok && at <= until; at, ok = s.event() {
				s.step()
			}
			s.now = max(s.now, until)
		}
		for !s.send() {
			s.wait()
		}
	}
	s.finish()
	return s
}

// TestNoScheduleIsSlow sends bursts through latencies of all kinds, without faults, and wants each load to end within
// the windows that it needs: two more than that for finding out how the bucket works, each at most two round trips
// longer.
func TestNoScheduleIsSlow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		if s, bound := burst(t, &Window{}); s.now > bound {
			require.Fail(t, "too slow", "%v at %v, at most %v wanted\n%s", s.now, s.quota, bound, s.story())
		}
	})
}

// burst plays one burst on a window, and returns how long it may take.
func burst(t *rapid.T, window player, change ...func(*stage)) (s *stage, bound time.Duration) {
	quota := quotas(t)
	oneWay := time.Duration(rapid.SampledFrom([]int{1, 10, 50, 150}).Draw(t, "latency")) * ms
	jitter := rapid.SampledFrom([]int{1, 5, 50}).Draw(t, "jitter") // ms
	way := rapid.Custom(func(t *rapid.T) time.Duration {
		return oneWay + time.Duration(rapid.IntRange(0, jitter*1000).Draw(t, "µs"))*time.Microsecond
	})
	s = newStage(t, discordsim.Config{Rules: []discordsim.Rule{{Path: "**", Quota: quota}}}, func(f *flight) {
		f.there, f.back = way.Draw(t, "there"), way.Draw(t, "back")
	})
	s.window = window
	for _, f := range change {
		f(s)
	}
	requests := rapid.IntRange(1, 60).Draw(t, "requests")
	for range requests {
		for !s.send() {
			s.wait()
		}
	}
	s.finish()
	s.check()
	windows := (requests+quota.Limit-1)/quota.Limit + 2
	trip := 2 * (oneWay + time.Duration(jitter)*ms)
	return s, time.Duration(windows) * (quota.Period + 2*trip + 2*tick)
}
