package buckets_test

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/wire"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// stateOf returns the state of a manager. If clean is true, it first closes the manager and returns the final state.
func stateOf(t *testing.T, m *buckets.RESTBucketManager, clean bool) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, m.WriteState(&b))
	if clean {
		require.NoError(t, m.Close())
		b.Reset()
		require.NoError(t, m.WriteState(&b))
	}
	return b.Bytes()
}

// successor returns a manager that continues from a state.
func successor(t *testing.T, state []byte, options ...buckets.Option) *buckets.RESTBucketManager {
	t.Helper()
	m := started(t, options...)
	require.NoError(t, m.RestoreState(bytes.NewReader(state)))
	return m
}

func TestRoutesOfAllKindsAreKnownToTheNextProcess(t *testing.T) {
	t.Parallel()
	for _, clean := range []bool{true, false} {
		bubble(t, func(t *testing.T) {
			m := started(t)
			hook, other := compile(routes.ExecuteWebhook, "7", "token-of-a-hook"),
				compile(routes.ExecuteWebhook, "7", "token-of-another")
			for range 2 {
				discover(t, m, message(1), limited("messages", 5, 4, time.Second))
				discover(t, m, list(1), limited("messages", 5, 3, time.Second))
				discover(t, m, message(2), limited("of two", 5, 4, time.Second))
				discover(t, m, message(3), limited("of three", 5, 4, time.Second))
				discover(t, m, compile(routes.GetMyUser), plain(200))
				discover(t, m, compile(routes.ListVoiceRegions), limited("", 5, 4, time.Second))
				discover(t, m, hook, limited("hooks", 5, 4, time.Second))
				discover(t, m, other, limited("hooks", 5, 0, time.Minute))
				wait(61 * time.Second)
			}
			discover(t, m, other, limited("hooks", 5, 0, time.Minute))
			for _, r := range []routes.CompiledRoute{
				message(1), message(2), message(3), compile(routes.ListVoiceRegions), hook,
			} {
				discover(t, m, r, limited(snapshotHash(t, m, r), 5, 4, time.Second))
			}
			before := hashes(m)
			m = successor(t, stateOf(t, m, clean))
			assert.Equal(t, before, hashes(m))
			if !clean {
				wait(1100 * time.Millisecond)
			}
			for r, n := range map[routes.CompiledRoute]int{
				message(1): 4, message(2): 4, message(3): 4, compile(routes.GetMyUser): 9,
				compile(routes.ListVoiceRegions): 4, hook: 4, other: 0,
			} {
				all := asks(m, r, 9)
				if !clean && n == 4 { // how the bucket fills up again is not known
					n = 1
				}
				assert.GreaterOrEqual(t, granted(t, all), n, "the bucket of %s is known", r)
				assert.LessOrEqual(t, granted(t, all), max(n, min(5, 5*n)), "%s", r)
			}
		})
	}
}

// snapshotHash returns the hash of the bucket of a route.
func snapshotHash(t *testing.T, m *buckets.RESTBucketManager, r routes.CompiledRoute) string {
	t.Helper()
	for b := range m.Buckets() {
		for _, route := range b.Routes {
			if route == r.Route().String() && (b.Major == "-" || strings.HasPrefix(b.Major+":", r.Major().ID+":")) {
				return b.Hash
			}
		}
	}
	return ""
}

// hashes returns the hashes of all buckets with a limit, by their routes, major parameters and credentials.
func hashes(m *buckets.RESTBucketManager) map[string]string {
	all := map[string]string{}
	for b := range m.Buckets() {
		if b.Limit > 0 {
			all[strings.Join(b.Routes, ", ")+" of "+b.Major+" with "+b.Authentication] = b.Hash
		}
	}
	return all
}

func TestHoldsLastIntoTheNextProcess(t *testing.T) {
	t.Parallel()
	all := []routes.CompiledRoute{message(1), message(2), compile(routes.GetMyUser)}
	for name, c := range map[string]struct {
		refusal ratelimits.Response
		held    []routes.CompiledRoute
	}{
		"user":   {usedUp("messages", 5, 3*time.Hour), all[:1]},
		"shared": {inBucket(refused(ratelimits.ClassShared, 3*time.Hour), "messages", 5, 3, time.Second), all[:1]},
		"global": {refused(ratelimits.ClassGlobal, 3*time.Hour), all},
		"edge":   {refused(ratelimits.ClassEdge, 3*time.Hour), all},
		"sub":    {inBucket(refused(ratelimits.ClassSubLimit, 3*time.Hour), "messages", 5, 3, time.Second), all[:1]},
	} {
		for _, clean := range []bool{true, false} {
			subtest(t, name+map[bool]string{true: ", closed", false: ", killed"}[clean], func(t *testing.T) {
				m := started(t, buckets.WithMaxRateLimit(24*time.Hour))
				for _, r := range all {
					discover(t, m, r,
						limited(map[bool]string{true: "messages", false: "me"}[r != all[2]], 5, 4, time.Second))
				}
				discover(t, m, message(1), c.refusal)
				wait(10 * time.Second)
				state := stateOf(t, m, clean)
				require.NoError(t, m.Close())
				wait(30 * time.Minute) // the next process cannot distinguish this wait from a change of its clock
				m = successor(t, state, buckets.WithMaxRateLimit(24*time.Hour))
				wait(5 * time.Second)
				var calls []*caller
				for _, r := range all {
					calls = append(calls, ask(m, r))
				}
				for range 3 * 60 * 60 / 10 {
					for i, c2 := range calls {
						held := i < len(c.held)
						assert.Equal(t, !held, c2.granted(), "%s", all[i])
					}
					if t.Failed() {
						break
					}
					wait(9900 * time.Millisecond)
				}
				wait(2 * time.Minute)
				require.True(t, calls[0].granted(), "the hold has an end")
				calls[0].update(plain(200))
				for _, c := range calls[1:] {
					answer(t, c, plain(200))
				}
			})
		}
	}
}

func TestRouteWhoseHashFlipsStaysInSingleFileInTheNextProcess(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		route := compile(routes.GetMyUser)
		flip(t, m, route, 6)
		m = successor(t, stateOf(t, m, true))
		all := asks(m, route, 4)
		for i, c := range all {
			require.Equal(t, i+1, granted(t, all), "one at a time")
			c.update(limited("first", 50, 48, time.Minute))
		}
		wait(10 * time.Minute)
		discover(t, m, route, limited("first", 50, 49, time.Minute))
		assert.Equal(t, 2, granted(t, asks(m, route, 2)), "the hash is trusted again")
	})
}

// The backoff for consecutive 429s of a limit must go on in the next process.
func TestRefusalsInARowCountInTheNextProcess(t *testing.T) {
	t.Parallel()
	for _, class := range []ratelimits.Class{ratelimits.ClassSubLimit, ratelimits.ClassGlobal, ratelimits.ClassEdge} {
		subtest(t, class.String(), func(t *testing.T) {
			again := inBucket(refused(class, time.Second), "messages", 100, 80, time.Minute)
			m := started(t)
			discover(t, m, message(1), roomy)
			c := call(background, m, renaming(1))
			c.comesBack(t, m, slices.Repeat([]ratelimits.Response{again}, 8)...)
			c.update(again)
			m = successor(t, stateOf(t, m, true))
			c.again(m)
			wait(time.Minute)
			require.True(t, c.granted())
			c.isHeldLonger(t, m, again)
		})
	}
}

func TestInvalidRequestsCountInTheNextProcess(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		budget := buckets.WithInvalidBudget(10, 10*time.Minute, 0)
		m := started(t, budget)
		for range 10 {
			wait(30 * time.Second)
			discover(t, m, compile(routes.GetMyUser), plain(403))
		}
		answer(t, call(background, m, buckets.Request{Route: message(1), Server: "one.example"}), plain(200))
		for range 3 { // the number of restarts must not matter
			m = successor(t, stateOf(t, m, true), budget)
		}
		_, err := m.TryAcquire(compile(routes.GetMyUser), bot)
		var used *ratelimits.BudgetError
		require.ErrorAs(t, err, &used)
		other := call(background, m, buckets.Request{Route: compile(routes.GetMyUser), Server: "one.example"})
		assert.True(t, other.granted(), "each server has a budget of its own")
		assert.Equal(t, 10, used.Used)
		assert.InDelta(t, 5.5*60, used.RetryAfter.Seconds(), 20, "each response counts for ten minutes")
	})
}

func TestSomeoneWhoSetsTheClockEndsNoWaitAndKeepsNoneForADay(t *testing.T) {
	t.Parallel()
	rename := change("1", "name")
	for name, c := range map[string]struct {
		request *buckets.Request
		answer  ratelimits.Response // response to the second request, which uses up the limit
		wait    time.Duration
	}{
		"hold":           {request(message(1)), usedUp("messages", 5, 24*time.Hour), 24*time.Hour + time.Millisecond},
		"declared limit": {&rename, plain(200), 10 * time.Minute},
	} {
		for _, step := range []time.Duration{-365 * 24 * time.Hour, -time.Hour, 0, time.Hour, 26 * time.Hour} {
			subtest(t, name+" "+step.String(), func(t *testing.T) {
				m := started(t, renames()...)
				for _, r := range []ratelimits.Response{limited("messages", 5, 4, time.Second), c.answer} {
					answer(t, call(background, m, *c.request), r)
				}
				state := stateOf(t, m, true)
				clock := &jumpingClock{Clock: clockwork.NewRealClock()}
				m = started(t, append(renames(), buckets.WithClock(clock))...)
				clock.jump.Store(int64(step))
				require.NoError(t, m.RestoreState(bytes.NewReader(state)))
				want := c.wait
				if step > time.Hour { // of a step of the clock, only the time beyond an hour counts as passed
					want = 0
				}
				predicted, _ := predict(t, m, c.request)
				assert.InDelta(t, want, predicted, float64(time.Second))
			})
		}
	}
}

func TestStateIsWrittenWhateverTheWallClockSays(t *testing.T) {
	t.Parallel()
	for _, year := range []int{-5, 1, 1970, 12000} {
		clock := buckets.WithClock(clockwork.NewFakeClockAt(time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)))
		m := started(t, clock)
		sendNow(t, m, message(1), bot, limited("messages", 5, 0, time.Minute))
		m = successor(t, stateOf(t, m, true), clock)
		for b := range m.Buckets() {
			assert.InDelta(t, time.Minute, b.ResetAfter, float64(time.Second), "%d", year)
		}
		assert.Len(t, hashes(m), 1, "%d", year)
	}
}

// While WriteState builds its lists, it must not copy them again and again. This test is not parallel, because it
// counts the allocations of all goroutines.
func TestWritingAStateTakesLittleMemoryForEachBucket(t *testing.T) {
	const n, most = 20_000, 2000 // bytes
	m := started(t)
	for channel := range n {
		sendNow(t, m, message(channel+1), bot, limited("messages", 5, 3, time.Hour))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	require.NoError(t, m.WriteState(io.Discard))
	runtime.ReadMemStats(&after)
	assert.Less(t, int(after.TotalAlloc-before.TotalAlloc)/n, most)
}

func TestNamesThatAreNotUTF8AreKeptInAState(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		limit := buckets.WithLimit(buckets.ForRoute(routes.GetMyUser), 1, time.Hour, buckets.Named("\"once\" \xff"))
		m := started(t, limit)
		discover(t, m, message(1), limited("a \"\xff", 5, 0, time.Minute))
		discover(t, m, list(1), limited("a \"\xfe", 7, 3, time.Minute))
		discover(t, m, compile(routes.GetMyUser), plain(200))
		elsewhere := buckets.Request{Route: message(1), Authorization: bot, Server: "\\\xff"}
		answer(t, call(background, m, elsewhere), limited("messages", 5, 0, time.Minute))
		before := hashes(m)
		m = successor(t, stateOf(t, m, true), limit)
		assert.Equal(t, before, hashes(m))
		assert.Zero(t, granted(t, append(asks(m, message(1), 2), asks(m, compile(routes.GetMyUser), 2)...)))
		assert.Equal(t, 3, granted(t, asks(m, list(1), 5)))
		assert.False(t, call(background, m, elsewhere).granted())
	})
}

func TestStateHasNoSecretInIt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const secret = "a-token-that-nobody-may-see"
		m := started(t)
		call := func(r routes.CompiledRoute, authorization string, response ratelimits.Response) {
			sendNow(t, m, r, authorization, response)
		}
		call(message(1), "Bot "+secret, limited("messages", 5, 4, time.Minute))
		call(message(1), "Bot "+secret,
			inBucket(refused(ratelimits.ClassSubLimit, time.Minute), "messages", 5, 3, time.Minute))
		call(compile(routes.ExecuteWebhook, "7", secret), "", limited("hash of "+secret, 5, 4, time.Minute))
		call(compile(routes.ExecuteWebhook, "7", secret), "",
			inBucket(refused(ratelimits.ClassShared, time.Minute), "hash of "+secret, 5, 3, time.Minute))
		call(compile(routes.CreateInteractionResponse, "7", secret), "", plain(204))
		for _, clean := range []bool{false, true} {
			state := stateOf(t, m, clean)
			assert.Contains(t, string(state), "messages")
			assert.NotContains(t, string(state), secret)
			assert.NotContains(t, string(state), secret[2:])
		}
	})
}

func TestStateIsOfNoUseWithAnotherKey(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		key := buckets.WithStateKey([]byte("one"))
		m := started(t, key)
		discover(t, m, message(1), limited("messages", 5, 4, time.Minute))
		state := stateOf(t, m, true)
		for _, other := range []buckets.Option{nil, buckets.WithStateKey([]byte("two"))} {
			assert.ErrorIs(t, started(t, other).RestoreState(bytes.NewReader(state)), buckets.ErrState)
		}
		assert.Len(t, hashes(successor(t, state, key)), 1)
	})
}

func TestStateIsRestoredOnlyBeforeTheFirstRequest(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, message(1), limited("messages", 5, 4, time.Minute))
		state := stateOf(t, m, true)
		fresh := buckets.NewRESTBucketManager()
		assert.ErrorIs(t, fresh.RestoreState(bytes.NewReader(state)), buckets.ErrNotStarted)
		assert.ErrorIs(t, m.RestoreState(bytes.NewReader(state)), buckets.ErrClosed)
		used := started(t)
		discover(t, used, list(1), limited("lists", 5, 4, time.Minute))
		before := hashes(used)
		assert.Error(t, used.RestoreState(bytes.NewReader(state)))
		assert.Equal(t, before, hashes(used))
		closed := started(t)
		require.NoError(t, closed.Close())
		assert.ErrorIs(t, closed.WriteState(io.Discard), buckets.ErrClosed,
			"Close keeps no state unless one was written or restored before")
	})
}

func TestResponseThatContradictsTheStateIsBelieved(t *testing.T) {
	t.Parallel()
	for _, clean := range []bool{true, false} {
		bubble(t, func(t *testing.T) {
			m := started(t)
			for channel := range 2 {
				discover(t, m, message(channel+1), limited("old", 5, 4, time.Second))
			}
			m = successor(t, stateOf(t, m, clean))
			wait(2 * time.Second)
			for channel := range 2 {
				discover(t, m, message(channel+1), limited("new", 9, 8, time.Second))
				wait(2 * time.Second)
				discover(t, m, message(channel+1), limited("new", 9, 8, time.Second))
				all := asks(m, message(channel+1), 20)
				assert.Equal(t, 8, granted(t, all))
				updateAll(all[:8], limited("new", 9, 0, time.Second))
			}
		})
	}
}

// The manager is closed while WriteState runs. The written state must not count as final, because requests may have
// been sent after WriteState had read a part of the state.
func TestStateThatIsWrittenDuringCloseIsNotThatOfTheEnd(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		clock := &busyClock{Clock: clockwork.NewRealClock()}
		m := started(t, buckets.WithClock(clock))
		discover(t, m, message(1), limited("messages", 5, 4, 10*time.Second))
		var state bytes.Buffer
		closes := func() {
			go m.Close()
			for m.IsAlive() {
				runtime.Gosched()
			}
		}
		clock.now.Store(&closes) // WriteState reads the wall time last
		require.NoError(t, m.WriteState(&state))
		require.False(t, m.IsAlive())
		assert.False(t, ask(successor(t, state.Bytes()), message(1)).granted())
	})
}

func TestStateOfAManagerThatWasStartedAgainIsThatOfItsSecondLife(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, message(1), limited("first", 5, 4, time.Minute))
		stateOf(t, m, true)
		require.NoError(t, m.Start())
		discover(t, m, message(1), limited("second", 5, 4, time.Minute))
		m = successor(t, stateOf(t, m, false))
		snapshot(t, m, "second")
	})
}

// A window opens while Close writes the final state. If Close granted a waiting request then, the state would lack that
// request. So Close must grant none.
func TestNobodyIsLetGoWhileTheStateOfTheEndIsWritten(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		clock := &busyClock{Clock: clockwork.NewRealClock()}
		m := started(t, buckets.WithClock(clock))
		var state bytes.Buffer
		require.NoError(t, m.WriteState(&state))
		discoverPunctual(t, m, message(1), limited("messages", 2, 0, 10*time.Second))
		wait(11 * time.Second)
		for remaining := 1; remaining >= 0; remaining-- {
			discover(t, m, message(1), limited("messages", 2, remaining, 10*time.Second))
		}
		all := asks(m, message(1), 4)
		lasts := func() { wait(11 * time.Second) } // WriteState reads the wall time last
		clock.now.Store(&lasts)
		require.NoError(t, m.Close())
		state.Reset()
		require.NoError(t, m.WriteState(&state))
		wait(0)
		assert.Zero(t, granted(t, all))
		for _, c := range all {
			assert.ErrorIs(t, c.err, buckets.ErrClosed)
		}
		next := successor(t, state.Bytes())
		wait(11 * time.Second)
		assert.Equal(t, 2, granted(t, asks(next, message(1), 4)), "no request was granted during Close")
		require.NoError(t, next.Close())
	})
}

// busyClock is a clock that calls a function at the next call of Now.
type busyClock struct {
	clockwork.Clock
	now atomic.Pointer[func()]
}

func (c *busyClock) Now() time.Time {
	if f := c.now.Swap(nil); f != nil {
		(*f)()
	}
	return c.Clock.Now()
}

func TestStateThatIsDamagedChangesNothing(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, message(1), limited("messages", 5, 4, time.Minute))
		state := stateOf(t, m, true)
		m = started(t)
		for i := range state {
			damaged := bytes.Clone(state)
			damaged[i] ^= 1 << (i % 8)
			assert.ErrorIs(t, m.RestoreState(bytes.NewReader(damaged)), buckets.ErrState, "byte %d", i)
			assert.ErrorIs(t, m.RestoreState(bytes.NewReader(state[:i])), buckets.ErrState, "cut at %d", i)
		}
		failing := errors.New("no disk")
		assert.ErrorIs(t, m.RestoreState(io.MultiReader(bytes.NewReader(state[:9]), failingReader{failing})), failing)
		full, w := io.Pipe()
		full.CloseWithError(failing)
		assert.ErrorIs(t, m.WriteState(w), failing)
		newer := bytes.Clone(state)
		newer[1] = 99
		assert.ErrorContains(t, m.RestoreState(bytes.NewReader(newer)), "version 99")
		assert.Empty(t, hashes(m))
		require.NoError(t, m.RestoreState(bytes.NewReader(state)))
		assert.Len(t, hashes(m), 1)
	})
}

type failingReader struct{ err error }

func (r failingReader) Read([]byte) (int, error) { return 0, r.err }

// If a credential of a restored state is not used, everything that is known of it must be forgotten after some hours.
func TestStateOfACredentialThatIsNotUsedAnyMoreIsForgotten(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, message(1), limited("messages", 5, 4, time.Minute))
		m = successor(t, stateOf(t, m, true))
		assert.Equal(t, 1, m.Stats().Routes)
		wait(3 * time.Hour)
		assert.Zero(t, m.Stats().Routes)
		assert.Zero(t, m.Stats().Authentications)
		assert.Zero(t, m.Stats().Buckets)
	})
}

func TestStateIsLeftFromProcessToProcess(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, message(1), limited("messages", 5, 4, time.Second))
		before := hashes(m)
		for i := range 10 {
			m = successor(t, stateOf(t, m, i%3 > 0))
			assert.Equal(t, before, hashes(m), "the bucket was not used meanwhile")
		}
		require.NoError(t, m.Close())
		m = successor(t, stateOf(t, m, false)) // RestoreState alone makes Close keep the state
		wait(2 * time.Second)
		// How the bucket fills up again is not known, so one request goes first.
		discover(t, m, message(1), limited("messages", 5, 4, time.Second))
		assert.Equal(t, 4, granted(t, asks(m, message(1), 9)))
	})
}

// WithGlobalLimitOf needs the credential, which no state contains. In the next process, the credential's own limit must
// apply again when the credential is first used.
func TestALimitOfItsOwnCountsAgainWhenTheCredentialIsUsedInTheNextProcess(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		large := buckets.WithGlobalLimitOf(func(authorization string) int {
			if authorization == bot {
				return 200
			}
			return 0
		})
		m := started(t, large)
		discover(t, m, message(1), limited("messages", 1000, 999, time.Second))
		wait(5 * time.Second)
		m = successor(t, stateOf(t, m, true), large)
		all := asks(m, message(1), 201)
		assert.Equal(t, 200, granted(t, all))
	})
}

func TestTheLimitOfRequestsWithoutACredentialCountsInTheNextProcess(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		of := buckets.WithGlobalLimitOf(func(string) int { return 20 })
		m := started(t, of)
		send := func() error {
			lease, err := m.TryAcquire(compile(routes.ExecuteWebhook, "7", "token"), "")
			if err == nil {
				lease.Update(limited("hooks", 1000, 900, time.Second))
			}
			return err
		}
		require.NoError(t, send())
		wait(5 * time.Second)
		m = successor(t, stateOf(t, m, true), of)
		for range 20 {
			require.NoError(t, send())
		}
		assert.Error(t, send())
	})
}

// A killed process may have sent requests after its last write, even in channels that the state does not contain. In
// the next process, each bucket of a known hash must count as used up for a period.
func TestEachBucketOfAKnownHashIsUsedUpForAPeriodAfterAKill(t *testing.T) {
	t.Parallel()
	for _, clean := range []bool{true, false} {
		bubble(t, func(t *testing.T) {
			m := started(t, buckets.WithEviction(time.Second, 0))
			discover(t, m, message(1), limited("messages", 5, 4, 10*time.Second))
			wait(15 * time.Second)
			require.Zero(t, m.Stats().Buckets, "the bucket is evicted, but its route is still known")
			m = successor(t, stateOf(t, m, clean))
			calls := []*caller{ask(m, message(1)), ask(m, message(2))}
			for _, c := range calls {
				assert.Equal(t, clean, c.granted())
			}
			wait(10*time.Second + 10*time.Millisecond)
			for _, c := range calls {
				answer(t, c, limited("messages", 5, 4, 10*time.Second))
			}
			assert.Equal(t, 4, granted(t, asks(m, message(2), 6)))
		})
	}
}

// The period of a hash changed before the process was killed. New buckets of that hash must count as used up for the
// latest period.
func TestNewBucketIsUsedUpForTheLatestKnownPeriodAfterAKill(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, message(1), limited("messages", 5, 4, time.Second))
		wait(3 * time.Second)
		discover(t, m, message(1), limited("messages", 5, 4, 10*time.Second))
		m = successor(t, stateOf(t, m, false))
		all := asks(m, message(2), 5)
		wait(9 * time.Second)
		assert.Zero(t, granted(t, all), "the killed manager may have used up the bucket")
		wait(2 * time.Second)
		assert.NotZero(t, granted(t, all))
	})
}

// A program is restarted one second after the start of a burst. The burst must not take longer than without a restart.
// After a kill, however, the window counts as used up from the restart on, so the burst ends one second later.
func TestBurstGoesOnAfterARestart(t *testing.T) {
	t.Parallel()
	const period = 5 * time.Second
	rule := discordsim.Rule{Quota: discordsim.Fixed(10, period), Hash: "messages"}
	duration := func(t *testing.T, restart func(w *world)) (d time.Duration) {
		bubble(t, func(t *testing.T) {
			w := newWorld(t, one(rule))
			w.post(1, 1)
			w.finish()
			wait(2 * period)
			start := time.Now()
			w.post(1, 25)
			wait(time.Second)
			restart(w)
			w.post(1, 25)
			w.finish()
			d = time.Since(start)
			refusedNothing(t, w)
			require.NoError(t, w.manager.Close())
		})
		return d
	}
	again := func(clean bool) func(w *world) {
		return func(w *world) {
			var b bytes.Buffer
			require.NoError(t, w.manager.WriteState(&b))
			require.NoError(t, w.manager.Close()) // rejects fifteen requests, which are sent again below
			w.all.Wait()
			if clean {
				b.Reset()
				require.NoError(t, w.manager.WriteState(&b))
			}
			w.manager = buckets.NewRESTBucketManager(buckets.WithGlobalLimit(0), buckets.WithMaxRateLimit(time.Hour))
			require.NoError(t, w.manager.Start())
			require.NoError(t, w.manager.RestoreState(&b))
			w.post(1, 15)
		}
	}
	without := duration(t, func(*world) {})
	assert.InDelta(t, without, duration(t, again(true)), float64(50*time.Millisecond))
	assert.InDelta(t, without+time.Second, duration(t, again(false)), float64(50*time.Millisecond),
		"the window counts as used up from the restart on")
}

func FuzzRestoreState(f *testing.F) {
	m := buckets.NewRESTBucketManager(buckets.WithGlobalLimit(0))
	require.NoError(f, m.Start())
	var head []byte
	for _, r := range []routes.CompiledRoute{
		message(1), message(2), list(1), compile(routes.GetMyUser), compile(routes.ExecuteWebhook, "1", "token"),
	} {
		for _, response := range []ratelimits.Response{
			limited("messages", 5, 4, time.Minute), plain(200),
			inBucket(refused(ratelimits.ClassSubLimit, time.Minute), "messages", 5, 3, time.Minute),
		} {
			if lease, err := m.TryAcquire(r, bot); err == nil {
				lease.Update(response)
			}
		}
		var b bytes.Buffer
		require.NoError(f, m.WriteState(&b))
		head = b.Bytes()[:6+16+8] // kind, version and key
		f.Add(b.Bytes()[len(head) : b.Len()-4])
	}
	require.NoError(f, m.Close())
	f.Fuzz(func(t *testing.T, contents []byte) {
		if len(contents) > 1<<16 {
			return
		}
		m := buckets.NewRESTBucketManager(buckets.WithGlobalLimit(0))
		require.NoError(t, m.Start())
		defer m.Close()
		state := wire.EndBlock(append(bytes.Clone(head), contents...))
		if m.RestoreState(bytes.NewReader(state)) != nil {
			assert.Empty(t, hashes(m), "a refused state changes nothing")
			return
		}
		for _, r := range []routes.CompiledRoute{message(1), compile(routes.GetMyUser)} {
			if lease, err := m.TryAcquire(r, bot); err == nil {
				lease.Update(limited("messages", 5, 4, time.Minute))
			}
		}
		for b := range m.Buckets() {
			assert.LessOrEqual(t, b.HoldAfter, 2*ratelimits.LongestTrust)
			assert.LessOrEqual(t, b.ResetAfter, 3*ratelimits.LongestTrust)
		}
		require.NoError(t, m.WriteState(io.Discard))
	})
}

// manyBuckets returns a manager that knows n buckets.
func manyBuckets(b *testing.B, n int) *buckets.RESTBucketManager {
	m := buckets.NewRESTBucketManager(buckets.WithGlobalLimit(0))
	require.NoError(b, m.Start())
	b.Cleanup(func() { _ = m.Close() })
	for channel := range n {
		lease, err := m.Acquire(background, message(channel+1), bot)
		require.NoError(b, err)
		lease.Update(limited("messages", 5, 4, time.Hour))
	}
	return m
}

func BenchmarkWriteStateOf100000Buckets(b *testing.B) {
	m := manyBuckets(b, 100_000)
	var state bytes.Buffer
	for b.Loop() {
		state.Reset()
		require.NoError(b, m.WriteState(&state))
	}
	b.ReportMetric(float64(state.Len())/100_000, "B/bucket")
}

func BenchmarkRestoreStateOf100000Buckets(b *testing.B) {
	var state bytes.Buffer
	require.NoError(b, manyBuckets(b, 100_000).WriteState(&state))
	for b.Loop() {
		b.StopTimer()
		m := buckets.NewRESTBucketManager()
		require.NoError(b, m.Start())
		b.StartTimer()
		require.NoError(b, m.RestoreState(bytes.NewReader(state.Bytes())))
		b.StopTimer()
		_ = m.Close()
		b.StartTimer()
	}
}

// Processes share their buckets and limits through a store, so the state of a process must not contain them. The state
// must contain the edge, because each process has an edge of its own.
func TestStateOfAManagerThatSharesHasOnlyWhatIsItsOwn(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := buckets.WithShared(newStore(t))
		m := started(t, s)
		c := ask(m, message(1))
		wait(time.Second)
		answer(t, c, limited("messages", 5, 4, time.Hour))
		c = ask(m, message(1))
		wait(time.Second)
		answer(t, c, refused(ratelimits.ClassEdge, time.Hour))
		state := stateOf(t, m, true)
		assert.NotContains(t, string(state), "messages")
		m = successor(t, state, s)
		assert.InDelta(t, time.Hour, m.EdgeWait(""), float64(time.Minute))
		assert.Empty(t, hashes(m))

		alone := started(t)
		discover(t, alone, message(1), limited("alone", 5, 4, time.Hour))
		m = successor(t, stateOf(t, alone, true), s)
		assert.Empty(t, hashes(m))
	})
}

// A hash that contains a token is not written into the state. The bucket's window must still apply in the next process,
// until a response names the hash again.
func TestWindowOfAHashWithATokenGoesOn(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		hook := compile(routes.ExecuteWebhook, "7", "secret")
		used := limited("hash of secret", 5, 0, time.Minute)
		discover(t, m, hook, used)
		state := stateOf(t, m, true)
		assert.NotContains(t, string(state), "secret")
		m = successor(t, state)
		first := ask(m, hook)
		assert.False(t, first.granted())
		wait(61 * time.Second)
		answer(t, first, limited("hash of secret", 5, 4, time.Minute))
		all := asks(m, hook, 6)
		assert.Equal(t, 4, granted(t, all))
	})
}

func TestGlobalLimitsOfCredentialsAreUsedUpAfterAKill(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		of := buckets.WithGlobalLimitOf(func(string) int { return 50 })
		m := started(t, of)
		discover(t, m, compile(routes.GetMyUser), plain(200))
		wait(10 * time.Second)
		m = successor(t, stateOf(t, m, false), of)
		c := ask(m, compile(routes.GetMyUser))
		assert.False(t, c.granted())
		wait(ratelimits.GlobalPatience + time.Millisecond)
		require.True(t, c.granted())
	})
}

// After a kill, buckets count as used up for a period. If the second process after the kill starts before that period
// has ended, the buckets must also count as used up in this process.
func TestDoubtAfterAKillOutlastsTheNextProcess(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, message(1), limited("messages", 5, 4, time.Minute))
		m = successor(t, stateOf(t, m, false))
		wait(10 * time.Second)
		m = successor(t, stateOf(t, m, true), buckets.WithMaxRateLimit(time.Hour))
		c := ask(m, message(2))
		require.False(t, c.done(), "the first process may have used up the bucket")
		wait(50*time.Second + 10*time.Millisecond)
		require.True(t, c.granted())
	})
}

func TestLiftHoldsEndsTheDoubtAfterAKill(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, message(1), limited("messages", 5, 4, time.Minute))
		m = successor(t, stateOf(t, m, false))
		wait(3 * time.Second)
		m.LiftHolds()
		discover(t, m, message(2), limited("messages", 5, 4, time.Minute))
	})
}

// A route without limits has a sub-limit for some fields of the body. The hold of the sub-limit must last into the next
// process.
func TestSubLimitOfARouteWithoutLimitsLastsIntoTheNextProcess(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		for range 2 {
			c := call(background, m, change("1", "nsfw"))
			answer(t, c, plain(200))
		}
		answer(t, call(background, m, change("1", "name")), refused(ratelimits.ClassSubLimit, time.Minute))
		m = successor(t, stateOf(t, m, true))
		named, other := call(background, m, change("1", "name")),
			call(background, m, change("1", "nsfw"))
		assert.False(t, named.done())
		answer(t, other, plain(200))
		wait(time.Minute + 10*time.Millisecond)
		require.True(t, named.granted())
	})
}

// A response names a huge limit. The state with that limit must still be valid.
func TestHugeLimitLeavesAState(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, message(1), limited("messages", 1_000_000_000, 999_999_999, time.Minute))
		refusal := refused(ratelimits.ClassShared, time.Second)
		ask(m, list(1)).update(inBucket(refusal, "list", 1_000_000_000, 999_999_999, 7*24*time.Hour))
		discover(t, m, message(1), limited("messages", 1_000_000_000, 999_999_999, time.Minute))
		m = successor(t, stateOf(t, m, true))
		discover(t, m, message(1), roomy)
	})
}
