package ratelimits

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// Stage lets a window send requests to the simulated Discord, in virtual time. The window decides when a request is
// sent. A function that the test passes decides how long the request travels and what becomes of it. The server judges
// each 429. Exported names are for tests in package ratelimits_test.
type Stage struct {
	T      require.TestingT
	World  *discordsim.World
	Start  time.Time
	Now    time.Duration
	Window Player
	Draw   func(*Flight)
	// Answered is called after each report. It may be nil.
	Answered func(Response)
	Accepted []time.Duration // when the server processed the requests that it accepted
	Refusals []time.Duration // when the 429s arrived at the client

	flying []*Flight // in the order of the times of their next events
	sent   int
	traced bool
	trace  []string
	quota  discordsim.Quota
	// late returns how long after it was received an answer is reported. If late is nil, answers are reported at once.
	late func() time.Duration
	// spoil changes the header of an answer. It may be nil.
	spoil func(processed time.Time, header http.Header)
}

// Player has the methods of Window that a Stage calls.
type Player interface {
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

// Flight is one request that has been sent and whose outcome has not been reported.
type Flight struct {
	There, Back time.Duration // how long the request travels to the server, and the response back

	permit   Permit
	sequence int64
	late     time.Duration // how long after it was received the response is reported
	fate     fate
	arrived  bool
	at       time.Duration // the time of its next event
	response *discordsim.Response
}

// fate is what becomes of a request.
type fate int

const (
	answered        fate = iota
	broken               // the answer is a 500, and the bucket counts the request
	brokenUncounted      // the answer is a 502, and the bucket does not count the request
	lostAfter            // the server processes the request, but the response never comes
	lostBefore           // the request never reaches the server
	unsent               // the permit is given back, and the request is not sent
	noHeaders            // the answer carries no limits
)

// NewStage returns a stage for a window. The server has no global limit, because a Window does not take one into
// account.
func NewStage(t require.TestingT, config discordsim.Config, window Player, draw func(*Flight)) *Stage {
	s := &Stage{T: t, Start: time.Unix(1_700_000_000, 0), Window: window, Draw: draw, quota: config.Rules[0].Quota}
	withFate := func(f discordsim.Fault, want fate) discordsim.Fault {
		f.When = func(c discordsim.Call) bool { return s.fateOf(c.Request.Sequence) == want }
		return f
	}
	config.Global = discordsim.Unlimited()
	config.Faults = append(config.Faults,
		withFate(discordsim.Fault{Status: 500}, broken),
		withFate(discordsim.Fault{Status: 502, Uncounted: true}, brokenUncounted),
		withFate(discordsim.Fault{Connection: discordsim.ConnectionLostAfter}, lostAfter),
		withFate(discordsim.Fault{Connection: discordsim.ConnectionLostBefore}, lostBefore),
		withFate(discordsim.NoHeaders(), noHeaders),
	)
	world, err := discordsim.NewWorld(s.Start, config)
	require.NoError(t, err)
	s.World = world
	return s
}

func (s *Stage) fateOf(sequence int64) fate {
	for _, f := range s.flying {
		if f.sequence == sequence {
			return f.fate
		}
	}
	return answered
}

// Send sends n requests, each of them as soon as the window allows it.
func (s *Stage) Send(n int) {
	for range n {
		for !s.SendNow() {
			s.Wait()
		}
	}
}

// SendUntil sends as many requests as the window allows before the given time, and waits until then.
func (s *Stage) SendUntil(end time.Duration) {
	for s.Now < end {
		if !s.SendNow() {
			s.Wait()
		}
	}
}

// SendEvery sends n requests at the given interval. If the window does not allow a request at that time, the request is
// sent later.
func (s *Stage) SendEvery(distance time.Duration, n int) {
	for range n {
		s.Send(1)
		s.Until(s.Now + distance)
	}
}

// SendOneByOne sends n requests, each of them when the previous one has been answered.
func (s *Stage) SendOneByOne(n int) {
	for range n {
		s.Send(1)
		s.Finish()
	}
}

// SendNow sends one request if the window allows it, after all events up to now. It reports whether it has sent one.
func (s *Stage) SendNow() bool {
	s.Until(s.Now)
	permit, ok := s.Window.Take(s.Now)
	if !ok {
		return false
	}
	s.sent++
	f := &Flight{permit: permit, sequence: int64(s.sent)}
	s.Draw(f)
	if s.Window.Limit() == 0 || s.Window.Period() < s.quota.Period-tick {
		f.fate = answered // while limit and period are unknown, no client can know what an unanswered request has used up
	}
	s.log("send %d fate %d there %v back %v", f.sequence, f.fate, f.There, f.Back)
	if f.fate == unsent {
		s.Window.Return(s.Now, permit)
		return true
	}
	f.at = s.Now + f.There
	s.launch(f)
	return true
}

// launch inserts a flight in the order of events, after flights with the same time.
func (s *Stage) launch(f *Flight) {
	i, _ := slices.BinarySearchFunc(s.flying, f, func(a, b *Flight) int { return cmp.Or(cmp.Compare(a.at, b.at), -1) })
	s.flying = slices.Insert(s.flying, i, f)
}

// Wait advances to the next event, or to the time at which the window may allow a request, whichever comes first. The
// test fails if there is neither.
func (s *Stage) Wait() {
	at, can := s.Window.Next(s.Now)
	switch {
	case len(s.flying) > 0 && (!can || s.flying[0].at <= at):
		s.step()
	case can:
		require.Greater(s.T, at, s.Now, "Next returned the present time, but Take failed:\n%s", s.story())
		require.Less(s.T, at, s.Now+25*time.Hour, "the window does not open within 25 hours:\n%s", s.story())
		s.Now = at
	default:
		require.Fail(s.T, "no request is in flight, and the window waits for an outcome", s.story())
	}
}

// Until processes all events up to the given time.
func (s *Stage) Until(end time.Duration) {
	for len(s.flying) > 0 && s.flying[0].at <= end {
		s.step()
	}
	s.Now = max(s.Now, end)
}

// Finish processes all remaining events.
func (s *Stage) Finish() {
	for len(s.flying) > 0 {
		s.step()
	}
	require.Zero(s.T, s.Window.InFlight(), s.story())
}

// step processes the next event.
func (s *Stage) step() {
	f := s.flying[0]
	s.Now = max(s.Now, f.at)
	if !f.arrived {
		s.arrive(f)
		return
	}
	s.flying = s.flying[1:]
	received := f.at - f.late
	if f.fate == lostAfter || f.fate == lostBefore {
		s.log("lost %d at %v", f.sequence, received)
		s.Window.Lost(received, f.permit)
		return
	}
	s.World.DeliverLate(f.response, s.Start.Add(received), s.Start.Add(s.Now))
	r := ParseResponse(f.response.Status, f.response.Header, f.response.Body)
	s.log("answer %d of %v: %d %v remaining %d reset %v",
		f.sequence, received, r.Status, r.Class, r.Remaining, r.ResetAfter)
	if r.Class != ClassOK {
		s.log("  because %s, %v", f.response.Because, f.response.Verdict)
		s.Refusals = append(s.Refusals, s.Now)
	}
	s.Window.Report(received, f.permit, r)
	s.log("  now %v", s.Window)
	if s.Answered != nil {
		s.Answered(r)
	}
	require.GreaterOrEqual(s.T, s.Window.InFlight(), 0)
}

// arrive lets the server process a request, and sends its response back.
func (s *Stage) arrive(f *Flight) {
	at := s.Start.Add(s.Now)
	f.arrived = true
	f.response = s.World.Handle(at, discordsim.Request{
		Method: "POST", Path: "/channels/1/messages", Sequence: f.sequence, SentAt: s.Start.Add(f.permit.Sent()),
	})
	if f.response.Class == discordsim.ClassNone {
		s.Accepted = append(s.Accepted, s.Now)
	}
	if s.spoil != nil {
		s.spoil(at, f.response.Header)
	}
	s.flying = s.flying[1:]
	if s.late != nil {
		f.late = s.late()
	}
	f.at = s.Now + f.Back + f.late
	s.launch(f)
}

func (s *Stage) log(format string, arguments ...any) {
	if s.traced {
		s.trace = append(s.trace, fmt.Sprintf("%10v ", s.Now)+fmt.Sprintf(format, arguments...))
	}
}

func (s *Stage) story() string {
	var b []byte
	for _, line := range s.trace[max(len(s.trace)-120, 0):] {
		b = append(append(b, line...), '\n')
	}
	return string(b)
}

// Avoidable returns how many refusals could have been avoided.
func (s *Stage) Avoidable() int { return s.World.Report().Avoidable.Total() }

// String describes the window in the log of a failed test.
func (w *Window) String() string {
	text := fmt.Sprintf("late %v (%d of %d within %d, others %v), %d of %d, in flight %d, uncounted %d, %v, refuted %b, "+
		"count %d until %v, longest %v, probing %v",
		w.readRare().late.by, w.returned, w.opened, w.openedWithin, w.evidence.others, w.charged(0), w.limit, w.inflight,
		w.uncounted, w.Kind(), w.evidence.refuted, w.evidence.fixed.count, w.evidence.fixed.until, w.longest, w.probing)
	for _, c := range w.ledger.list() {
		text += fmt.Sprintf("\n             %+v", c)
	}
	return text
}
