package buckets_test

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

func TestOnlyThoseWaitToWhomADeclaredLimitApplies(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(time.Hour), buckets.WithKnownLimits(buckets.ChannelNameAndTopic))
		ample := limited("channel", 100, 90, time.Second)
		discover(t, m, compile(routes.UpdateChannel, "1"), ample)
		for range 2 {
			c := call(background, m, change("1", "name"))
			answer(t, c, ample)
		}
		third, fourth := call(background, m, change("1", "name")),
			call(background, m, change("1", "name"))
		require.False(t, third.done())
		assert.Equal(t, buckets.WaitsForDeclared, snapshot(t, m, "channel").WaitsFor)
		for _, other := range []buckets.Request{change("1", "nsfw"), change("2", "name")} {
			c := call(background, m, other)
			require.True(t, c.granted(), "the limit does not apply to %v", other)
			c.update(ample)
		}
		wait(9 * time.Minute)
		require.False(t, third.done())
		wait(time.Minute + time.Second)
		require.True(t, third.granted())
		require.True(t, fourth.granted())
	})
}

func TestWaitForADeclaredLimitIsPredicted(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(time.Minute),
			buckets.WithLimit(buckets.ForRoute(routes.CreateMessage), 2, 20*time.Second,
				buckets.Named("two"), buckets.PerMajor()))
		ample := limited("messages", 100, 90, time.Second)
		for range 2 {
			discover(t, m, message(1), ample)
		}
		for waiting := range 6 {
			predicted, because := predict(t, m, request(message(1)))
			assert.Equal(t, buckets.WaitsForDeclared, because)
			assert.InDelta(t, time.Duration(1+waiting/2)*20*time.Second, predicted, float64(time.Second),
				"%d requests wait already", waiting)
			buckets.AcquireFunc(background, m, request(message(1)),
				func(lease buckets.Lease, err error) { lease.Update(ample) })
		}
		_, err := m.AcquireRequest(background, request(message(1)))
		var tooLong *ratelimits.TooLongError
		require.ErrorAs(t, err, &tooLong)
		assert.Equal(t, "two", tooLong.Declared)
		assert.Equal(t, 2, tooLong.Limit)
		assert.Equal(t, 20*time.Second, tooLong.Period)
		assert.ErrorContains(t, err, `for the declared limit "two" (2 requests per 20s)`)
	})
}

// If a request was refused or never sent, its permit must go back to the declared limit. Any other request must count
// for a period.
func TestDeclaredLimitCountsWhatIsSent(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		end    func(c *caller)
		counts bool
	}{
		"answered": {func(c *caller) { c.update(limited("messages", 100, 99, time.Second)) }, true},
		"failed":   {func(c *caller) { c.update(plain(502)) }, true},
		"lost":     {func(c *caller) { c.lease.Release() }, true},
		"returned": {func(c *caller) { c.lease.Return() }, false},
		"refused": {func(c *caller) {
			c.update(inBucket(refused(ratelimits.ClassUser, time.Second), "messages", 100, 99, time.Second))
		}, false},
	} {
		subtest(t, name, func(t *testing.T) {
			m := started(t, buckets.WithLimit(buckets.ForAll(), 1, time.Minute))
			discover(t, m, message(1), limited("messages", 100, 99, time.Second))
			wait(2 * time.Minute)
			c := ask(m, message(1))
			require.True(t, c.granted())
			next := ask(m, message(1))
			require.False(t, next.done(), "the request in flight has the only permit")
			test.end(c)
			wait(10 * time.Second)
			assert.Equal(t, !test.counts, next.granted())
			wait(51 * time.Second)
			require.True(t, next.granted())
		})
	}
}

// limitedLog records when a server processed the requests of each window of a declared limit.
type limitedLog struct {
	limit  int
	period time.Duration

	mu    sync.Mutex
	times map[string][]time.Time
}

func newLimitedLog(limit int, period time.Duration) *limitedLog {
	return &limitedLog{limit: limit, period: period, times: map[string][]time.Time{}}
}

func (l *limitedLog) process(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.times[key] = append(l.times[key], time.Now())
}

// exceeded returns how many requests were processed beyond the limit.
func (l *limitedLog) exceeded() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, all := range l.times {
		for i := l.limit; i < len(all); i++ {
			if all[i].Sub(all[i-l.limit]) < l.period {
				n++
			}
		}
	}
	return n
}

// Group "1" with key "23" and group "12" with key "3" must not share a window.
func TestGroupsAndKeysAreNotMixedUp(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithLimit(buckets.ForAll(), 1, time.Minute, buckets.PerGroup(),
			buckets.PerKey(func(r *buckets.Request) string { return r.Route.Major().ID })))
		discover(t, m, message(100), roomy)
		for _, of := range []struct {
			group   string
			channel int
		}{{"1", 23}, {"12", 3}} {
			c := call(background, m, buckets.Request{Route: message(of.channel), Authorization: bot, Group: of.group})
			require.True(t, c.granted(), "%+v", of)
			c.update(roomy)
		}
	})
}

// A declared limit with room applies to all requests, so the requests wait only for their bucket. The bucket's
// predictions must count all of them, whatever their keys or groups are. Otherwise, some would wait much longer than
// the maximum of 10 s.
func TestWhoIsSubjectToADeclaredLimitIsCountedInHisBucket(t *testing.T) {
	t.Parallel()
	firstField := func(r *buckets.Request) string {
		if r.Fields == nil {
			return ""
		}
		return r.Fields()[0]
	}
	for name, options := range map[string][]buckets.LimitOption{
		"together":  nil,
		"per key":   {buckets.PerKey(firstField)},
		"per group": {buckets.PerGroup()},
	} {
		subtest(t, name, func(t *testing.T) {
			m := started(t, buckets.WithMaxRateLimit(10*time.Second),
				buckets.WithLimit(buckets.ForAll(), 100, time.Minute, options...))
			used := limited("messages", 1, 0, time.Second)
			discover(t, m, message(1), used)
			var longest time.Duration
			refused, start := 0, time.Now()
			for i := range 50 {
				r := request(message(1))
				r.Fields = func() []string { return []string{strconv.Itoa(i)} }
				if name == "per group" {
					r.Group = strconv.Itoa(i)
				}
				buckets.AcquireFunc(background, m, r, func(lease buckets.Lease, err error) {
					if err != nil {
						refused++
						return
					}
					longest = time.Since(start)
					lease.Update(used)
				})
				synctest.Wait()
			}
			wait(time.Minute)
			assert.InDelta(t, 10*time.Second, longest, float64(2*time.Second))
			assert.InDelta(t, 40, refused, 2)
		})
	}
}

// countingClock counts how often its timers have fired.
type countingClock struct {
	clockwork.Clock
	fired atomic.Int64
}

func (c *countingClock) AfterFunc(d time.Duration, f func()) clockwork.Timer {
	return c.Clock.AfterFunc(d, func() {
		c.fired.Add(1)
		f()
	})
}

// Requests in flight use up a declared limit. Until they end, it is not known how long they will count. Meanwhile, no
// timer may fire again and again to look for room.
func TestWhoWaitsForAnOutcomeUnderADeclaredLimitPollsNobody(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		clock := &countingClock{Clock: clockwork.NewRealClock()}
		m := started(t, buckets.WithClock(clock), buckets.WithMaxRateLimit(time.Hour),
			buckets.WithLimit(buckets.ForAll(), 2, 10*time.Second))
		ample := limited("messages", 100, 99, time.Second)
		discover(t, m, message(1), ample)
		first := ask(m, message(1))
		require.True(t, first.granted())
		second := ask(m, message(1))
		wait(time.Millisecond)
		third := ask(m, message(2))
		wait(11 * time.Second)
		require.True(t, second.granted())
		fired := clock.fired.Load()
		wait(10 * time.Second)
		assert.LessOrEqual(t, clock.fired.Load(), fired+2)
		require.False(t, third.granted())
		first.update(ample)
		second.update(ample)
		wait(11 * time.Second)
		require.True(t, third.granted())
	})
}

// While the process is suspended, a declared limit and a bucket open. The older request waits for the declared limit,
// the newer one for the bucket. The older request must leave first.
func TestOldestRequestOfADeclaredLimitLeavesFirst(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		clock := clockwork.NewFakeClock()
		m := started(t, buckets.WithClock(clock), buckets.WithLimit(buckets.ForAll(), 1, 10*time.Second))
		discover(t, m, message(1), roomy)
		clock.Advance(11 * time.Second)
		discover(t, m, message(2), limited("messages", 1, 0, 5*time.Second))
		older := ask(m, message(1))
		clock.Advance(time.Second)
		newer := ask(m, message(2))
		clock.Advance(time.Minute)
		synctest.Wait()
		assert.True(t, older.granted())
		assert.False(t, newer.granted())
	})
}

// Responses given to UpdateRateLimits belong to requests that the manager did not send. Like the manager's own
// requests, they must count for declared limits.
func TestDeclaredLimitCountsWhatOthersSend(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(time.Hour), buckets.WithLimit(buckets.ForAll(), 2, time.Minute))
		ample := limited("messages", 100, 99, time.Second)
		discover(t, m, message(1), ample)
		m.UpdateRateLimits(message(2), bot, usedUp("messages", 100, time.Second))
		m.UpdateRateLimits(message(1), bot, ample)
		c := ask(m, message(1))
		require.False(t, c.done(), "the limit of two requests is used up")
		wait(61 * time.Second)
		require.True(t, c.granted())
	})
}

// The first request of a bucket waits for the end of a global hold and has a reservation for that instant. When the
// hold is extended, other requests must leave as soon as the bucket has room for them.
func TestAReservationThatIsPutOffHoldsUpNobody(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const period = 70 * time.Second
		m := started(t, buckets.WithMaxRateLimit(time.Hour))
		hook := webhookPost("token")
		for _, credential := range []string{"Bot one", "Bot two", "Bot three"} {
			as(m, credential, list(1)).update(roomy)
		}
		discoverPunctual(t, m, hook, limited("posts", 2, 0, period))
		early, late := as(m, "Bot one", list(1)), as(m, "Bot one", list(1))
		require.True(t, early.granted() && late.granted())
		first := as(m, "Bot one", hook)
		wait(time.Millisecond)
		second, third := as(m, "Bot two", hook), as(m, "Bot three", hook)
		wait(period - 10*time.Second)
		early.update(refused(ratelimits.ClassGlobal, 60*time.Second)) // the hold ends 50 s after the bucket opens
		wait(10*time.Second + roundings)
		require.False(t, first.done())
		require.True(t, second.granted())
		require.False(t, third.done(),
			"the permit is reserved for the first request, which leaves before the bucket opens again")
		second.update(limited("posts", 2, 1, period))
		wait(10 * time.Second)
		late.update(refused(ratelimits.ClassGlobal, 10*time.Minute))
		require.False(t, first.done())
		wait(period)
		assert.True(t, third.granted(), "the bucket opened 10 s ago, and the first request waits 9 more minutes")
	})
}

// A request that needs two declared limits has a reservation. When a 429 delays that request, other requests must leave
// at once.
func TestAReservationThatIsPutOffFreesDeclaredLimitsAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(time.Hour),
			buckets.WithLimit(buckets.ForAll(), 4, 5*time.Minute),
			buckets.WithLimit(buckets.ForRoute(routes.CreateMessage), 2, 3*time.Minute))
		as(m, "Bot two", message(1)).update(limited("messages", 5, 4, time.Second))
		other := as(m, "Bot two", message(1))
		discoverPunctual(t, m, message(1), limited("messages", 1, 0, 10*time.Second))
		discover(t, m, list(1), limited("lists", 100, 99, time.Minute))
		for _, group := range []string{"a", "b"} {
			c := call(background, m, buckets.Request{Route: message(1), Authorization: bot, Group: group})
			require.False(t, c.done())
			wait(time.Millisecond)
		}
		wait(11 * time.Second) // the bucket is open again; both messages wait for the 3-minute limit
		c := ask(m, list(1))
		require.False(t, c.done(),
			"the last permit of the 5-minute limit is reserved for the first message, which leaves in 3 minutes")
		other.update(inBucket(refused(ratelimits.ClassShared, 10*time.Minute), "messages", 5, 4, time.Second))
		assert.True(t, c.granted(), "the message leaves in ten minutes at the earliest")
	})
}

func TestALimitThatCannotBeDeclaredSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	ok := buckets.ForRoute(routes.CreateMessage)
	for name, c := range map[string]struct {
		options []buckets.Option
		want    []string // the lines of the error, after "bad options: "
	}{
		"limit of 0": {[]buckets.Option{buckets.WithLimit(ok, 0, time.Second)},
			[]string{"WithLimit(POST /channels/{channel_id}/messages 0 per 1s): a limit of 0: expected 1 to 1000000000"}},
		"limit below 0": {[]buckets.Option{buckets.WithLimit(ok, -3, time.Second, buckets.PerMajor())},
			[]string{"WithLimit(POST /channels/{channel_id}/messages -3 per 1s per major parameter): " +
				"a limit of -3: expected 1 to 1000000000"}},
		"limit above the maximum": {[]buckets.Option{buckets.WithLimit(ok, 1_000_000_001, time.Second, buckets.Named("n"))},
			[]string{"WithLimit(n): a limit of 1000000001: expected 1 to 1000000000"}},
		"period of 0": {[]buckets.Option{buckets.WithLimit(ok, 1, 0, buckets.Named("n"))},
			[]string{"WithLimit(n): a period of 0s: expected more than 0 and at most 24h0m0s"}},
		"period below 0": {[]buckets.Option{buckets.WithLimit(ok, 1, -time.Second, buckets.Named("n"))},
			[]string{"WithLimit(n): a period of -1s: expected more than 0 and at most 24h0m0s"}},
		"period of more than a day": {[]buckets.Option{buckets.WithLimit(ok, 1, 24*time.Hour+1, buckets.Named("n"))},
			[]string{"WithLimit(n): a period of 24h0m0.000000001s: expected more than 0 and at most 24h0m0s"}},
		"no function": {[]buckets.Option{buckets.WithLimit(ok, 1, time.Second, buckets.PerKey(nil))},
			[]string{"WithLimit(POST /channels/{channel_id}/messages 1 per 1s per key): PerKey(nil): expected a function"}},
		"no match": {[]buckets.Option{buckets.WithLimit(buckets.Match{}, 1, time.Second, buckets.Named("n"))},
			[]string{"WithLimit(n): an empty Match: expected one of ForRoute, ForPattern or ForAll"}},
		"no route": {[]buckets.Option{buckets.WithLimit(buckets.ForRoute(), 1, time.Second)},
			[]string{"WithLimit(ForRoute 1 per 1s): ForRoute has no route: expected one or more"}},
		"zero route": {[]buckets.Option{buckets.WithLimit(buckets.ForRoute(routes.GetGuild, routes.Route{}), 1, time.Second)},
			[]string{"WithLimit(ForRoute 1 per 1s): route 2 of 2 in ForRoute is empty: expected one of package routes"}},
		"one name twice": {[]buckets.Option{buckets.WithLimit(ok, 1, time.Second), buckets.WithLimit(ok, 1, time.Second)},
			[]string{"WithLimit(POST /channels/{channel_id}/messages 1 per 1s): " +
				"two limits have this name: give one of them another name with Named"}},
		"a known limit that does not exist": {[]buckets.Option{buckets.WithKnownLimits(buckets.Crossposts, "names")},
			[]string{`WithKnownLimits("names"): expected some of channel-name-and-topic, reactions, ` +
				`old-message-edits, old-message-deletes, webhook-messages, webhook-creates, ` +
				`prunes, crossposts, invites, command-creates, lobbies, lobby-links`}},
		"a known limit twice": {[]buckets.Option{buckets.WithKnownLimits(buckets.Crossposts, buckets.Crossposts)},
			[]string{"WithLimit(crossposts): two limits have this name: give one of them another name with Named"}},
		"many mistakes": {[]buckets.Option{buckets.WithLimit(ok, 0, 0, buckets.Named("a")), nil, buckets.WithLimit(ok, 1, 1),
			buckets.WithLimit(ok, -1, 1, buckets.Named("b"))},
			[]string{"WithLimit(a): a limit of 0: expected 1 to 1000000000",
				"WithLimit(a): a period of 0s: expected more than 0 and at most 24h0m0s",
				"WithLimit(b): a limit of -1: expected 1 to 1000000000"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := ""
			for _, line := range c.want {
				want += "\nbad options: " + line
			}
			m := buckets.NewRESTBucketManager(c.options...)
			err := m.Start()
			require.ErrorIs(t, err, buckets.ErrOptions)
			assert.Equal(t, want[1:], err.Error())
			assert.False(t, m.IsAlive())
		})
	}
}

func TestAPatternThatMatchesNothingIsAnError(t *testing.T) {
	t.Parallel()
	const token = "MTk4NjIyNDgzNDcxOTI1MjQ4MTk4NjIyNDgzNDcxOTI1MjQ4"
	for _, c := range []struct{ method, pattern, named string }{
		{"GET", "/chanels/{channel_id}", `ForPattern("GET", "/chanels/{channel_id}")`},
		{"patch", "/gateway", `ForPattern("PATCH", "/gateway")`},
		{"FETCH", "/gateway", `ForPattern("FETCH", "/gateway")`},
		{"", "", `ForPattern("*", "")`},
		{"*", "gateway", `ForPattern("*", "gateway")`},
		{"*", "*", `ForPattern("*", "*")`},
		{"GET", "/gateway/", `ForPattern("GET", "/gateway/")`},
		{"GET", "/gateway/bot/*", `ForPattern("GET", "/gateway/bot/*")`},
		{"GET", "/api/v10/gateway", `ForPattern("GET", "/api/v10/gateway")`},
		{"GET", "/channels/1/messages", `ForPattern("GET", "/channels/1/messages")`},
		{"GET", "/channels/*/*/*/*/*/*/*/*", `ForPattern("GET", "/channels/*/*/*/*/*/*/*/*")`},
		{"POST", "https://discord.com/api/webhooks/1/" + token, `ForPattern("POST", "https://discord.com/api/webhooks/1/…")`},
		{"/webhooks/1/" + token, "POST", `ForPattern("/WEBHOOKS/1/…", "POST")`},
	} {
		match := buckets.ForPattern(c.method, c.pattern)
		err := buckets.NewRESTBucketManager(buckets.WithLimit(match, 1, time.Second)).Start()
		require.ErrorIs(t, err, buckets.ErrOptions, c.pattern)
		assert.Contains(t, err.Error(), "WithLimit("+c.named+" 1 per 1s): "+c.named+" matches no route: expected ")
		assert.NotContains(t, printed(match)+printed(err), token)
	}
}

// If a caller ignores the error of Start, Acquire must return the same error.
func TestAcquireTellsWhyTheManagerCouldNotStart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := buckets.NewRESTBucketManager(buckets.WithLimit(buckets.ForAll(), 0, time.Second))
		for range 2 {
			_, err := m.Acquire(background, message(1), bot)
			require.ErrorIs(t, err, buckets.ErrOptions)
			assert.ErrorContains(t, err, "a limit of 0")
			_, err = m.TryAcquire(message(1), bot)
			require.ErrorIs(t, err, buckets.ErrOptions)
			require.ErrorIs(t, m.Start(), buckets.ErrOptions)
		}
		m.UpdateRateLimits(message(1), bot, ratelimits.Response{Status: 200})
		require.NoError(t, m.Close())
		_, err := m.Acquire(background, message(1), bot)
		require.ErrorIs(t, err, buckets.ErrClosed)
	})
}

func TestContextsHaveAGroup(t *testing.T) {
	t.Parallel()
	ctx := background
	assert.Zero(t, buckets.OptionsOf(ctx))
	ctx = buckets.ContextWithPriority(buckets.ContextWithGroup(ctx, "guild"))
	assert.Equal(t, buckets.ContextOptions{Group: "guild", Priority: true}, buckets.OptionsOf(ctx))
	assert.True(t, buckets.OptionsOf(buckets.ContextWithOrdered(ctx)).Ordered)
	assert.Empty(t, buckets.OptionsOf(buckets.ContextWithGroup(ctx, "")).Group)
}
