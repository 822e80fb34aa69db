package ratelimits_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
)

// The buckets of these tests allow two requests in ten seconds, and open 0.3 s later than announced. Every request is
// answered at the moment at which it is sent. Each test has rounds, which are so far apart that the bucket is empty at
// the beginning of each round.
const (
	lateBy    = 300 * ms
	round     = time.Minute
	roundings = 5 * rounding
)

// lateKind says how a bucket of one kind answers if it is empty and two requests are sent, one second apart.
type lateKind struct {
	kind   ratelimits.Kind
	second time.Duration // the reset-after of the second request's response
	first  time.Duration // the reset-after of the first response, when the first place is free
}

var lateKinds = []lateKind{
	{ratelimits.KindFixed, 9 * second, 10 * second},
	{ratelimits.KindLog, 10 * second, 10 * second},
	{ratelimits.KindLeaky, 9 * second, 5 * second},
	{ratelimits.KindNext, 9 * second, 10 * second},
}

func forEachLateKind(t *testing.T, story func(t *testing.T, k lateKind, b *bucket)) {
	t.Parallel()
	for _, k := range lateKinds {
		t.Run(k.kind.String(), func(t *testing.T) {
			t.Parallel()
			b := newBucket(t)
			for i := range 3 { // in these rounds the bucket is punctual, and responses prove its kind
				at := k.fill(b, time.Duration(i)*round)
				b.exchange(at, k.next(0))
			}
			require.Equal(t, k.kind, b.Kind())
			story(t, k, b)
		})
	}
}

// fill uses up the bucket, and returns the announced time at which it opens.
func (k lateKind) fill(b *bucket, now time.Duration) time.Duration {
	b.t.Helper()
	b.exchange(now, ok(2, 1, k.first))
	b.exchange(now+second, ok(2, 0, k.second))
	_, granted := b.Take(now + second)
	require.False(b.t, granted)
	return now + k.first + rounding
}

// next returns the response to a request that takes the first free place. late is how long after the announced time the
// request takes that place.
func (k lateKind) next(late time.Duration) ratelimits.Response {
	switch k.kind {
	case ratelimits.KindFixed:
		return ok(2, 1, 10*second)
	case ratelimits.KindLog:
		return ok(2, 0, 10*second)
	case ratelimits.KindLeaky:
		return ok(2, 0, 10*second)
	}
	return ok(2, 0, second-late) // the time until the second request's place is free
}

// opensAt asserts when the next request may be sent. Rounding errors are allowed.
func (b *bucket) opensAt(now, want time.Duration) {
	b.t.Helper()
	assert.InDelta(b.t, want, b.opens(now), float64(roundings), "wanted %v", want)
}

// refuseLate sends a request at the announced opening. The request is refused. refuseLate returns the time of that
// opening.
func (k lateKind) refuseLate(b *bucket, now time.Duration) (opened time.Duration) {
	b.t.Helper()
	opened = k.fill(b, now)
	b.opensAt(now+second, opened)
	b.Report(opened, b.send(opened), refused(2, lateBy))
	b.closedUntil(opened, opened+lateBy+rounding)
	b.exchange(opened+lateBy+rounding, k.next(lateBy))
	return opened
}

func TestOneRefusalShowsHowLateABucketOpens(t *testing.T) {
	forEachLateKind(t, func(t *testing.T, k lateKind, b *bucket) {
		k.refuseLate(b, 10*round)
		by, known := b.Late()
		assert.True(t, known)
		assert.InDelta(t, lateBy, by, float64(roundings))
		assert.Equal(t, k.kind, b.Kind(), "the 429 must not change the kind")
		for i := range time.Duration(5) {
			now := (11 + i) * round
			opened := k.fill(b, now)
			assert.InDelta(t, opened+lateBy, now+second+b.Predict(now+second, 0), float64(roundings))
			b.opensAt(now+second, opened+lateBy)
			b.exchange(opened+lateBy+roundings, k.next(lateBy+roundings))
		}
	})
}

// No response has shown yet how late the bucket opens. So one request must try the first opening, while the others wait
// for the response to this request.
func TestTheFirstOpeningIsTriedByOne(t *testing.T) {
	t.Parallel()
	for _, r := range []ratelimits.Response{ok(5, 4, second), bare} {
		b := &bucket{t: t}
		b.exchange(0, ok(5, 0, second))
		p := b.burst(firstEnd, 1)
		b.Report(firstEnd, p[0], r)
		b.burst(firstEnd, 4)
		_, known := b.Late()
		assert.True(t, known)
	}
}

func TestTheOneThatTriesTheFirstOpeningIsNotWaitedForLong(t *testing.T) {
	t.Parallel()
	b := &bucket{t: t}
	b.exchange(0, ok(5, 0, second))
	tries := b.burst(firstEnd, 1)
	b.closedUntil(firstEnd, firstEnd+second/2) // no longer lateness was ever measured
	b.burst(firstEnd+second/2, 4)
	_, known := b.Late()
	assert.False(t, known)
	b.Report(20*second, tries[0], ok(5, 4, second))
	_, known = b.Late()
	assert.True(t, known)
}

// A request that gets an error or no answer does not show that the bucket is open. So the next request must try the
// opening again.
func TestTheFirstOpeningIsTriedUntilOneSucceeds(t *testing.T) {
	t.Parallel()
	b := &bucket{t: t}
	b.exchange(0, ok(5, 0, second))
	for _, r := range []ratelimits.Response{broken, {}} {
		b.Report(firstEnd, b.burst(firstEnd, 1)[0], r)
	}
	b.Return(firstEnd, b.burst(firstEnd, 1)[0])
	b.burst(firstEnd, 1)
}

func TestABucketThatWasNotUsedAtItsOpeningIsNotTried(t *testing.T) {
	t.Parallel()
	b := &bucket{t: t}
	b.exchange(0, ok(5, 0, second))
	b.burst(firstEnd+second, 5)
}

// Several requests were in flight together before the bucket opened. All their 429s show the same lateness, so they
// must not increase the wait.
func TestWhatIsRefusedTogetherShowsTheSame(t *testing.T) {
	t.Parallel()
	b := fixed(t, 5, 10*second)
	for range 3 {
		b.exchange(2*second, ok(5, 0, 8*second))
		if b.Remaining(2*second) == 0 {
			break
		}
	}
	end := 10*second + rounding
	permits := b.burst(end, 5)
	for i, p := range permits {
		b.Report(end+time.Duration(i)*ms, p, refused(5, lateBy-time.Duration(i)*ms))
	}
	assert.Equal(t, ratelimits.KindFixed, b.Kind())
	b.closedUntil(end+5*ms, end+lateBy+rounding)
	b.exchange(end+lateBy+rounding, ok(5, 4, 10*second))
	b.burst(end+lateBy+rounding, 4)
}

// A 429 shows lateness only if it comes from the bucket itself, asks for a short wait, and refuses a request for a
// place that was announced to be free.
func TestOtherRefusalsAreNotLateness(t *testing.T) {
	forEachLateKind(t, func(t *testing.T, k lateKind, b *bucket) {
		opened := k.fill(b, 10*round)
		all := []ratelimits.Permit{b.send(opened), b.Adopt(opened, opened), b.Adopt(opened, opened)}
		coded := refused(2, lateBy)
		coded.Code = 30046 // the code of a limit that headers do not name
		b.Report(opened, all[0], shared(lateBy))
		b.Report(opened, all[1], coded)
		b.Report(opened, all[2], refused(2, 10*second)) // this 429 asks to wait for a whole period
		by, _ := b.Late()
		assert.Zero(t, by)
	})
	t.Run("with places left", func(t *testing.T) {
		t.Parallel()
		b := fixed(t, 5, 10*second)
		b.Report(3*second, b.send(3*second), refused(5, lateBy))
		by, _ := b.Late()
		assert.Zero(t, by)
	})
	t.Run("by a limit that was not known to be lower", func(t *testing.T) {
		t.Parallel()
		b := fixed(t, 5, second)
		for left := 2; left >= 0; left-- {
			b.exchange(200*ms, ok(5, left, 800*ms))
		}
		permits := b.burst(firstEnd, 5)
		for i, r := range []ratelimits.Response{
			ok(2, 1, 2*second), ok(2, 0, 1990*ms), refused(2, 1980*ms), refused(2, 1970*ms),
		} {
			b.Report(firstEnd+time.Duration(i+1)*10*ms, permits[i], r)
		}
		by, _ := b.Late()
		assert.Zero(t, by)
	})
	t.Run("although the bucket has room", func(t *testing.T) { // without a scope, its class is not ClassSubLimit
		t.Parallel()
		b := fixed(t, 2, 60*second)
		at := b.opens(6 * second)
		room := refusedFor(2, 50*second, 55*second)
		room.Remaining = 1
		b.Report(at, b.send(at), room)
		by, _ := b.Late()
		assert.Zero(t, by)
	})
}

// A request is in flight when a 429 shows lateness, and is itself refused much later. The later 429 must not increase
// the lateness.
func TestSlowUploadOfBeforeDoesNotRaiseLateness(t *testing.T) {
	t.Parallel()
	b := fixed(t, 2, 60*second)
	opened := b.opens(6 * second)
	both := b.many(opened, 2)
	b.Report(opened+50*ms, both[0], refused(2, 200*ms))
	by, _ := b.Late()
	b.Report(opened+45*second, both[1], refused(2, 59*second)) // in the meantime, another client has filled the bucket
	after, _ := b.Late()
	assert.Less(t, after, by+second, "was %v", by)
}

// While a request tries an opening, the others wait only until the bucket is certainly open. Later openings must not
// extend this wait.
func TestLaterOpeningsDoNotProlongTheWaitForTheFirst(t *testing.T) {
	t.Parallel()
	b, now := &bucket{t: t}, time.Duration(0)
	for i := range 50 { // a sliding log: one request every 400 ms
		b.exchange(now, ok(50, 49-i, 20*second))
		now += 400 * ms
	}
	require.Equal(t, ratelimits.KindLog, b.Kind())
	opened := b.opens(now)
	b.burst(opened, 1) // this request tries the opening
	// The second place became free 400 ms after the first one, and is certainly open half a second after that.
	assert.LessOrEqual(t, b.opens(opened)-opened, 400*ms+second/2+10*ms)
}

// After 64 periods, requests try the announced reset again. If three tries in a row are accepted, the bucket counts as
// punctual.
func TestLatenessEndsAfterThreeTriesInARow(t *testing.T) {
	forEachLateKind(t, func(t *testing.T, k lateKind, b *bucket) {
		k.refuseLate(b, 10*round)
		now := 25 * round // 64 periods of 10.3 s have passed
		for i := range 3 {
			by, _ := b.Late()
			require.InDelta(t, lateBy, by, float64(roundings), "after %d accepted tries", i)
			opened := k.fill(b, now)
			b.opensAt(now+second, opened)
			b.exchange(opened, k.next(0))
			now += round
		}
		by, known := b.Late()
		assert.Zero(t, by)
		assert.True(t, known)
		opened := k.fill(b, now)
		b.opensAt(now+second, opened)
	})
}

// Each refused try doubles the number of periods until the next try.
func TestTriesInVainBecomeRarer(t *testing.T) {
	forEachLateKind(t, func(t *testing.T, k lateKind, b *bucket) {
		k.refuseLate(b, 10*round)
		tried, between := 10, []int{}
		for i := 11; len(between) < 4; i++ {
			require.Less(t, i, 500)
			now := time.Duration(i) * round
			opened := k.fill(b, now)
			if at := b.opens(now + second); at > opened+roundings {
				b.exchange(at, k.next(lateBy))
				continue
			}
			b.Report(opened, b.send(opened), refused(2, lateBy))
			b.closedUntil(opened, opened+lateBy+rounding)
			b.exchange(opened+lateBy+rounding, k.next(lateBy))
			between, tried = append(between, i-tried), i
		}
		for i := range between[1:] {
			assert.InDelta(t, 2*between[i], between[i+1], 2, "rounds between tries: %v", between)
		}
	})
}

// A larger lateness must apply at once, and replace the smaller one.
func TestLatenessGrows(t *testing.T) {
	forEachLateKind(t, func(t *testing.T, k lateKind, b *bucket) {
		k.refuseLate(b, 10*round)
		opened := k.fill(b, 11*round) + lateBy + roundings
		b.Report(opened, b.send(opened), refused(2, lateBy/3))
		by, _ := b.Late()
		assert.Greater(t, by, (lateBy+lateBy/3)*17/16, "the lateness varies, so a margin is added")
		assert.Less(t, by, lateBy+lateBy/2)
		assert.Equal(t, k.kind, b.Kind())
	})
}

// The first measurement contains two whole round trips. Most of the time of these round trips is subtracted once enough
// requests have shown that the network is never faster.
func TestLatenessShrinksByWhatEveryRequestTravels(t *testing.T) {
	t.Parallel()
	s := serve(t, always(discordsim.Fixed(1, 10*second).Late(lateBy, 0)), steady(200*ms))
	s.SendOneByOne(3)
	first, _ := s.Late()
	s.SendOneByOne(20)
	by, _ := s.Late()
	assert.InDelta(t, first-2*200*ms*3/4, by, float64(roundings))
	assert.Len(t, s.Refusals, 1)
}

// The period of the bucket is not known when its lateness is set. Even so, the announced reset must not be tried
// earlier than in other buckets.
func TestExpectedLatenessIsNotTriedEarly(t *testing.T) {
	t.Parallel()
	b := &bucket{t: t}
	b.ExpectLate(0, lateBy)
	for i := range time.Duration(10) {
		now := i * round
		b.exchange(now, ok(1, 0, 10*second))
		b.opensAt(now, now+10*second+lateBy)
	}
}

// The bucket has counted a request, but another limit has refused it. The 429 of the other limit shows no lateness: it
// names the reset of a request that was just counted, and a wait that ends before that reset.
func TestARefusedRequestThatTheBucketHasCountedShowsNoLateness(t *testing.T) {
	forEachLateKind(t, func(t *testing.T, k lateKind, b *bucket) {
		if k.kind != ratelimits.KindFixed && k.kind != ratelimits.KindLog {
			return
		}
		now := 10 * round
		b.exchange(now, ok(2, 1, 10*second))
		b.exchange(now, ok(2, 0, 10*second))
		opened := b.opens(now)
		permits := b.burst(opened, 2)
		b.Report(opened+20*ms, permits[0], ok(2, 1, 10*second))
		b.Report(opened+20*ms, permits[1], refusedFor(2, 6*second, 10*second))
		by, _ := b.Late()
		assert.Zero(t, by)
		assert.GreaterOrEqual(t, b.opens(opened+20*ms), opened+10*second)
	})
}

// A request of another client arrives less than a round trip before an own request, which is refused. The window may
// take this for lateness, but not for a lateness of a whole period.
func TestOneRequestOfAnotherClientIsNotLateness(t *testing.T) {
	t.Parallel()
	s := serve(t, always(discordsim.Fixed(1, time.Hour)), steady(100*ms))
	s.SendOneByOne(20)
	require.Empty(t, s.Refusals)
	s.World.Consume(s.Start.Add(s.Accepted[19]+time.Hour+10*ms), message, 1)
	s.SendOneByOne(1)
	require.Len(t, s.Refusals, 1)
	by, _ := s.Late()
	assert.Less(t, by, second)
	start := s.Now
	s.SendOneByOne(60)
	assert.Less(t, s.Now-start, 62*time.Hour, "60 requests to a bucket of one per hour")
}

// globally sends requests through a Global for the duration d, and returns how many were sent. The server's seconds
// begin on time.
func globally(g *ratelimits.Global, now *time.Duration, d, trip time.Duration) (n int) {
	type out struct {
		slot ratelimits.Slot
		at   time.Duration
	}
	var flying []out
	for end := *now + d; *now < end; *now += 5 * ms {
		for len(flying) > 0 && flying[0].at <= *now {
			g.Accepted(flying[0].slot)
			g.Report(*now, flying[0].slot)
			flying = flying[1:]
		}
		for {
			if g.Tries(*now) && len(flying) > 0 {
				break
			}
			slot, wait := g.Take(*now)
			if wait > 0 {
				break
			}
			n++
			flying = append(flying, out{slot, *now + trip})
		}
	}
	for _, f := range flying {
		g.Report(max(*now, f.at), f.slot)
	}
	return n
}

// A large upload gets a 429 of the global limit. The time that the upload took must not count as lateness.
func TestSlowRefusalDoesNotMakeSecondsOpenSecondsLate(t *testing.T) {
	t.Parallel()
	g := ratelimits.NewGlobal(50)
	now := second
	before := globally(g, &now, 60*second, 50*ms)
	for g.Wait(now) > 0 {
		now += 5 * ms
	}
	slot, wait := g.Take(now)
	require.Zero(t, wait)
	now += 1900 * ms
	g.Refused(now, slot, 50*ms)
	g.Report(now, slot)
	t.Log("late by", g.Late())
	after := globally(g, &now, 60*second, 50*ms)
	assert.Greater(t, after, before/2, "before %d", before)
	assert.LessOrEqual(t, g.Late(), second/2)
}

func TestSecondsOpenHalfASecondLateAtMost(t *testing.T) {
	t.Parallel()
	for expected, want := range map[time.Duration]time.Duration{400 * ms: 400 * ms, second: 500 * ms} {
		g := ratelimits.NewGlobal(50)
		g.ExpectLate(second, expected)
		assert.Equal(t, want, g.Late())
	}
}

// A window that opens late refuses a request, because another request has taken the place. The other request was not
// sent earlier, but arrived earlier. The response to the other request names a reset that has passed.
func TestAPlaceThatAnotherRequestTookShowsLateness(t *testing.T) {
	t.Parallel()
	for name, left := range map[string]time.Duration{"in time": second - 5*ms, "later than announced": second + 25*ms} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBucket(t)
			b.exchange(0, ok(2, 1, second))
			overtaken := b.send(left)
			overtaking := b.send(second + 25*ms)
			b.Report(second+45*ms, overtaking, ok(2, 0, 0))
			b.Report(second+46*ms, overtaken, refused(2, lateBy))
			by, _ := b.Late()
			assert.InDelta(t, lateBy, by, float64(80*ms))
		})
	}
}

// A window that closes late accepts a few more requests. The responses to them must not refute the kind or suggest
// another client.
func TestARequestThatALateWindowLetThroughRefutesNothing(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	b.ExpectLate(0, 0)
	for i := range 3 {
		b.exchange(time.Duration(i)*200*ms, ok(5, 4-i, second-time.Duration(i)*200*ms))
	}
	require.Equal(t, ratelimits.KindFixed, b.Kind())
	at := second + rounding
	permits := b.burst(at, 5)
	for i, r := range []ratelimits.Response{ok(5, 1, 0), ok(5, 0, 0), refused(5, lateBy)} {
		b.Report(at+20*ms, permits[i], r)
	}
	assert.Equal(t, ratelimits.KindFixed, b.Kind())
	by, _ := b.Late()
	assert.InDelta(t, lateBy, by, float64(80*ms))
}

func TestExpectedPunctualityEndsLateness(t *testing.T) {
	t.Parallel()
	b := &bucket{t: t}
	b.ExpectLate(0, lateBy)
	b.ExpectLate(0, 0)
	by, known := b.Late()
	assert.Zero(t, by)
	assert.True(t, known)
}

// A leaky bucket opens late, by less than a slot, and so counts requests of past slots. It must not be taken for a
// bucket that has changed.
func TestALateLeakyBucketHasNotChanged(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		s := serve(t, always(discordsim.Leaky(5, 2*second).Late(300*ms, 0)), between(seed, 20*ms, 60*ms))
		for i := range 200 {
			s.Send(1 + i%3)
			s.Until(s.Now + 400*ms*time.Duration(i%4))
		}
		s.Finish()
		assert.LessOrEqual(t, len(s.Refusals), 8)
		assert.Zero(t, s.Avoidable())
	}
}
