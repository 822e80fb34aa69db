package ratelimits

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// check fails the test if a 429 could have been avoided. For a log that names its next place, one batch of 429s is
// allowed: until a reset moves, such a log looks like a fixed window to a Window, but the judge remembers more answers
// than a Window does.
func (s *Stage) check() {
	most := 0
	if s.quota.NamesNext {
		most = s.quota.Limit
	}
	if s.Avoidable() > most {
		require.Fail(s.T, "avoidable refusals", "%+v\n%s", s.World.Report().Avoidable, s.story())
	}
}

// quotas draws a limit of any kind.
func quotas(t *rapid.T) discordsim.Quota {
	limit := rapid.SampledFrom([]int{1, 2, 3, 5, 5, 8, 30}).Draw(t, "limit")
	period := rapid.SampledFrom([]time.Duration{second, 100 * ms, 250 * ms, 2 * second, 5 * second}).Draw(t, "period")
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

// lateRule draws a rule whose bucket opens later than announced. In some cases the lateness changes at some moment.
func lateRule(kind func(limit int, period time.Duration) discordsim.Quota) func(*rapid.T) discordsim.Rule {
	return func(t *rapid.T) discordsim.Rule {
		drawn := quotas(t)
		return lately(t, kind(drawn.Limit, drawn.Period))
	}
}

func lately(t *rapid.T, punctual discordsim.Quota) discordsim.Rule {
	unit := punctual.Period / 100
	if punctual.Kind == discordsim.KindLeaky { // with a lateness above a slot, another client may have taken the place
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

// lagRule draws a leaky bucket whose Remaining is one too high.
func lagRule(t *rapid.T) discordsim.Rule {
	quota := quotas(t)
	leaky := discordsim.Leaky(quota.Limit, quota.Period)
	leaky.Lags = true
	return discordsim.Rule{Path: "**", Quota: leaky}
}

// travel returns a function that draws the latencies and the fate of each request.
func travel(t *rapid.T) func(*Flight) {
	base := rapid.SampledFrom([]int{10, 0, 1, 50, 150}).Draw(t, "latency") // ms in each direction
	jitter := rapid.SampledFrom([]int{5, 0, 50}).Draw(t, "jitter")
	faults := rapid.SampledFrom([]int{0, 0, 5, 30}).Draw(t, "faults") // percent
	way := rapid.Custom(func(t *rapid.T) time.Duration {
		d := time.Duration(1+rapid.IntRange(0, jitter*1000).Draw(t, "µs"))*time.Microsecond + time.Duration(base)*ms
		if faults > 0 && rapid.IntRange(0, 60).Draw(t, "slow") == 60 {
			d += 2500 * ms
		}
		return d
	})
	return func(f *Flight) {
		f.There, f.Back = way.Draw(t, "there"), way.Draw(t, "back")
		if rapid.IntRange(1, 100).Draw(t, "fault") <= faults {
			f.fate = fate(rapid.IntRange(1, int(noHeaders)).Draw(t, "fate"))
		}
	}
}

// TestNoScheduleDrawsAnAvoidableRefusal runs random loads with random latencies and faults, and with other clients of
// the bucket. To run more schedules: go test ./ratelimits -run Schedule -rapid.checks=1000000
func TestNoScheduleDrawsAnAvoidableRefusal(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) { play(t, &Window{}).check() })
}

// Buckets open later than announced. A 429 that shows more lateness than the client knew is excused. Other 429s could
// have been avoided, and only few of them are allowed. A fixed window causes such a 429 in one of 100,000 schedules, if
// the network is slower than the period, so that no answer shows which window the answer describes. If places become
// free one at a time, a 429 does not say for which of several late places the client must wait, so the 429 may show too
// little lateness. Therefore a log causes at least one such 429 in one of 2,000 schedules, and more than three in one
// of 100,000 schedules. A leaky bucket causes at least one in one of 18,000 schedules.
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
				require.LessOrEqual(t, s.Avoidable(), kind.most, s.story())
			})
		})
	}
}

// The Remaining of a leaky bucket may be one too high. Even then, there must be no avoidable 429s.
func TestNoScheduleOfALaggingBucketDrawsAnAvoidableRefusal(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) { playRule(t, lagRule, &Window{}).check() })
}

// play runs a random load on a window. The functions change may modify the stage before the load starts.
func play(t *rapid.T, window Player, change ...func(*Stage)) *Stage {
	rule := func(t *rapid.T) discordsim.Rule { return discordsim.Rule{Path: "**", Quota: quotas(t)} }
	return playRule(t, rule, window, change...)
}

func playRule(t *rapid.T, rule func(*rapid.T) discordsim.Rule, window Player, change ...func(*Stage)) *Stage {
	config := discordsim.Config{Rules: []discordsim.Rule{rule(t)}}
	roundings := []discordsim.Rounding{discordsim.RoundUp, discordsim.RoundNearest, discordsim.RoundDown}
	config.Rounding = rapid.SampledFrom(roundings).Draw(t, "rounding")
	quota := config.Rules[0].Quota
	others := rapid.SampledFrom([]int{0, 0, 0, 300, 1500}).Draw(t, "others every") // ms between requests of other clients
	lateness := quota.Lateness != (discordsim.Lateness{}) || len(config.Rules[0].Changes) > 0
	if quota.NamesNext || lateness { // with other clients, perhaps no answer shows the log's period, or the lateness
		others = 0
	}
	if others > 0 {
		config.Foreign = []discordsim.ForeignUse{{
			Request: discordsim.Request{Method: "POST", Path: "/channels/1/messages"}, Every: time.Duration(others) * ms,
		}}
	}
	draw := travel(t)
	if others > 0 {
		// Without headers, a client cannot know when a window ends if another client has opened it.
		all := draw
		draw = func(f *Flight) {
			if all(f); f.fate == broken || f.fate == lostAfter || f.fate == noHeaders {
				f.fate = brokenUncounted
			}
		}
	}
	if lateness { // slow requests would arrive at openings that the client cannot know
		all := draw
		draw = func(f *Flight) {
			all(f)
			f.There, f.Back = f.There%second, f.Back%second
		}
	}
	// If answers are missing, a client cannot know three things: what a log that names its next place counts, what a
	// lagging bucket counts, and how late a bucket is.
	if quota.NamesNext || lateness || quota.Lags {
		all := draw
		draw = func(f *Flight) {
			if all(f); f.fate != unsent {
				f.fate = answered
			}
		}
	}
	pause := rapid.SampledFrom([]int{0, 0, 20, 200, 1000}).Draw(t, "pause") // longest pause in ms
	s := NewStage(t, config, window, draw)
	s.traced = true
	for _, f := range change {
		f(s)
	}
	for range rapid.IntRange(5, 60).Draw(t, "requests") {
		if pause > 0 {
			s.Until(s.Now + time.Duration(rapid.IntRange(0, pause).Draw(t, "pause"))*ms)
		}
		s.Send(1)
	}
	s.Finish()
	return s
}

// TestNoScheduleIsSlow sends bursts with various latencies and without faults. Each burst may take two windows more
// than it needs, because the Window has to learn how the bucket works. Each window may take two round trips longer than
// the period.
func TestNoScheduleIsSlow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s, windows, perWindow := burst(t, &Window{})
		s.endsBy(time.Duration(windows) * perWindow)
	})
}

// burst sends one burst through a window. It returns how many windows the burst may take, and how long each of them may
// be.
func burst(t *rapid.T, window Player, change ...func(*Stage)) (s *Stage, windows int, perWindow time.Duration) {
	quota := quotas(t)
	oneWay := time.Duration(rapid.SampledFrom([]int{1, 10, 50, 150}).Draw(t, "latency")) * ms
	jitter := rapid.SampledFrom([]int{1, 5, 50}).Draw(t, "jitter") // ms
	way := rapid.Custom(func(t *rapid.T) time.Duration {
		return oneWay + time.Duration(rapid.IntRange(0, jitter*1000).Draw(t, "µs"))*time.Microsecond
	})
	config := discordsim.Config{Rules: []discordsim.Rule{{Path: "**", Quota: quota}}}
	s = NewStage(t, config, window, func(f *Flight) { f.There, f.Back = way.Draw(t, "there"), way.Draw(t, "back") })
	s.traced = true
	for _, f := range change {
		f(s)
	}
	requests := rapid.IntRange(1, 60).Draw(t, "requests")
	s.Send(requests)
	s.Finish()
	s.check()
	trip := 2 * (oneWay + time.Duration(jitter)*ms)
	return s, (requests+quota.Limit-1)/quota.Limit + 2, quota.Period + 2*trip + 2*tick
}

// endsBy fails the test if the burst ended after the time bound.
func (s *Stage) endsBy(bound time.Duration) {
	if s.Now > bound {
		require.Fail(s.T, "too slow", "%v at %v, at most %v wanted\n%s", s.Now, s.quota, bound, s.story())
	}
}

// dropResetAfter makes a server name its resets only as times of its own clock, which differs from the client's clock.
// In some cases, the times are in whole seconds.
func dropResetAfter(t *rapid.T) func(*Stage) {
	skew := time.Duration(rapid.IntRange(0, 999).Draw(t, "skew")) * ms
	whole := rapid.SampledFrom([]time.Duration{0, 0, 1, time.Second}).Draw(t, "whole seconds")
	return func(s *Stage) {
		s.spoil = func(processed time.Time, header http.Header) {
			if header.Get("X-RateLimit-Reset") == "" {
				return
			}
			header.Set("Date", processed.Add(skew).UTC().Format(http.TimeFormat))
			reset := time.UnixMilli(ParseStamp(header)).Add(skew)
			if whole > 0 { // rounded down or up
				reset = reset.Add(whole - 1).Truncate(time.Second)
			}
			header.Set("X-RateLimit-Reset", fmt.Sprintf("%.3f", float64(reset.UnixMilli())/1000))
			header.Del("X-RateLimit-Reset-After")
		}
	}
}

// TestNoScheduleWithResetsAloneDrawsAnAvoidableRefusal runs random loads. The server sends X-RateLimit-Reset and Date,
// but no X-RateLimit-Reset-After.
func TestNoScheduleWithResetsAloneDrawsAnAvoidableRefusal(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		play(t, &Window{}, dropResetAfter(t)).check()
	})
}
