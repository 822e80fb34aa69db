package ratelimits_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
)

// trip is how long a request travels to the server, and its response back.
type trip struct{ there, back time.Duration }

// travel draws the trips of one story, one after the other.
type travel func() trip

// steady is a round trip that always takes the same time, half of it each way.
func steady(roundTrip time.Duration) travel {
	return func() trip { return trip{roundTrip / 2, roundTrip - roundTrip/2} }
}

// between draws each way by itself, always the same ones in the same order.
func between(seed uint64, shortest, longest time.Duration) travel {
	chance := rand.New(rand.NewPCG(seed, 7))
	way := func() time.Duration { return shortest + time.Duration(chance.Int64N(int64(longest-shortest))) }
	return func() trip { return trip{way(), way()} }
}

// alternating takes one trip and then the other, again and again.
func alternating(one, other trip) travel {
	return func() trip {
		one, other = other, one
		return other
	}
}

// message is what all requests of these stories ask.
var message = discordsim.Request{Method: "POST", Path: "/channels/1/messages"}

// served is a Window whose requests go to the simulated Discord, in virtual time.
type served struct {
	ratelimits.Window
	t        testing.TB
	world    *discordsim.World
	start    time.Time
	now      time.Duration
	travel   travel
	flying   []*flight
	answered func(ratelimits.Response) // called after each report, may be nil

	accepted []time.Duration // when the server processed them
	refusals []time.Duration // when the 429s came back
}

// flight is a request under way: to the server, or, with a response, back.
type flight struct {
	permit   ratelimits.Permit
	trip     trip
	at       time.Duration // of the next event
	response *discordsim.Response
}

func serve(t testing.TB, rule discordsim.Rule, travel travel) *served {
	t.Helper()
	return serveConfig(t, discordsim.Config{Rules: []discordsim.Rule{rule}}, travel)
}

// serveConfig serves all of a configuration but the global limit, of which a Window knows nothing.
func serveConfig(t testing.TB, config discordsim.Config, travel travel) *served {
	t.Helper()
	config.Global = discordsim.Unlimited()
	start := time.Unix(1_700_000_000, 0)
	world, err := discordsim.NewWorld(start, config)
	require.NoError(t, err)
	return &served{t: t, world: world, start: start, travel: travel}
}

func always(quota discordsim.Quota) discordsim.Rule {
	return discordsim.Rule{Path: "**", Quota: quota}
}

// send sends n requests, each as early as the window lets it leave.
func (s *served) send(n int) {
	s.t.Helper()
	for range n {
		for !s.sendNow() {
			s.wait()
		}
	}
}

// sendUntil sends as many as the window lets leave before the given time, and waits until then.
func (s *served) sendUntil(end time.Duration) {
	s.t.Helper()
	for s.now < end {
		if !s.sendNow() {
			s.wait()
		}
	}
}

// sendEvery sends n requests at the given distance, or as soon as possible after it.
func (s *served) sendEvery(distance time.Duration, n int) {
	s.t.Helper()
	for range n {
		s.send(1)
		s.until(s.now + distance)
	}
}

// sendNow sends a request, if it may leave and everything known by now is known.
func (s *served) sendNow() bool {
	s.until(s.now)
	permit, granted := s.Take(s.now)
	if granted {
		way := s.travel()
		s.flying = append(s.flying, &flight{permit: permit, trip: way, at: s.now + way.there})
	}
	return granted
}

// wait lets time pass until the next event or the time at which the next request may leave.
func (s *served) wait() {
	s.t.Helper()
	at, certain := s.Next(s.now)
	event, any := s.event()
	switch {
	case any && (!certain || event.at <= at):
		s.until(event.at)
	default:
		require.True(s.t, certain, "stopped for ever: nothing is in flight, and no time will help")
		require.Greater(s.t, at, s.now, "nothing may leave at the time that Next named")
		s.now = at
	}
}

// until lets everything happen that happens up to that time.
func (s *served) until(end time.Duration) {
	for event, any := s.event(); any && event.at <= end; event, any = s.event() {
		s.now = max(s.now, event.at)
		s.happen(event)
	}
	s.now = max(s.now, end)
}

// finish lets everything under way end.
func (s *served) finish() {
	for event, any := s.event(); any; event, any = s.event() {
		s.until(event.at)
	}
}

func (s *served) event() (next *flight, any bool) {
	for _, f := range s.flying {
		if next == nil || f.at < next.at {
			next = f
		}
	}
	return next, next != nil
}

func (s *served) happen(f *flight) {
	moment := s.start.Add(s.now)
	if f.response == nil {
		request := message
		request.SentAt = s.start.Add(f.permit.Sent())
		f.response = s.world.Handle(moment, request)
		if f.response.Class == discordsim.ClassNone {
			s.accepted = append(s.accepted, s.now)
		}
		f.at = s.now + f.trip.back
		return
	}
	s.flying = slices.DeleteFunc(s.flying, func(other *flight) bool { return other == f })
	s.world.Deliver(f.response, moment)
	response := ratelimits.ParseResponse(f.response.Status, f.response.Header, f.response.Body)
	if response.Class != ratelimits.ClassOK {
		s.refusals = append(s.refusals, s.now)
	}
	s.Report(s.now, f.permit, response)
	if s.answered != nil {
		s.answered(response)
	}
}

// rulesOfEveryKind are the same limit, counted in every way there is.
func rulesOfEveryKind(limit int, period time.Duration) map[string]discordsim.Rule {
	return map[string]discordsim.Rule{
		"fixed":       always(discordsim.Fixed(limit, period)),
		"aligned":     always(discordsim.Aligned(limit, period, period/3)),
		"sliding log": always(discordsim.Sliding(limit, period)),
		"leaky":       always(discordsim.Leaky(limit, period)),
	}
}
