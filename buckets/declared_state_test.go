package buckets_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/routes"
)

// renames returns options that declare Discord's limit for names and topics of channels: 2 changes in 10 minutes.
func renames() []buckets.Option {
	return []buckets.Option{buckets.WithMaxRateLimit(24 * time.Hour),
		buckets.WithKnownLimits(buckets.ChannelNameAndTopic)}
}

// use sends a request and answers it with a 200 without limit headers.
func use(t *testing.T, m *buckets.RESTBucketManager, r buckets.Request) {
	t.Helper()
	answer(t, call(background, m, r), plain(200))
}

// Requests that a process has sent must still count for a declared limit in the next process.
func TestDeclaredLimitGoesOnInTheNextProcess(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		clean   bool
		waits   time.Duration // how long the third request waits
		waiting int
	}{
		"closed": {true, 10*time.Minute - 2*time.Minute, 1},
		"killed": {false, 10 * time.Minute, 3}, // after its last write, it may have sent more requests on any channel
	} {
		subtest(t, name, func(t *testing.T) {
			m := started(t, renames()...)
			use(t, m, change("1", "name"))
			use(t, m, change("1", "name"))
			use(t, m, change("2", "name"))
			wait(2 * time.Minute)
			state := stateOf(t, m, test.clean)
			require.NoError(t, m.Close())
			m = successor(t, state, renames()...)
			third := call(background, m, change("1", "name"))
			other, elsewhere := call(background, m, change("2", "name")),
				call(background, m, change("3", "name"))
			assert.Equal(t, test.clean, other.granted(), "channel 2 has one permit left")
			assert.Equal(t, test.clean, elsewhere.granted(), "no request was sent on channel 3")
			require.False(t, third.done())
			assert.Equal(t, test.waiting, m.Stats().Declared["channel-name-and-topic"])
			wait(test.waits - time.Second)
			require.False(t, third.done())
			wait(2 * time.Second)
			for _, c := range []*caller{third, other, elsewhere} {
				answer(t, c, plain(200))
			}
		})
	}
}

// A request was in flight when the process ended. The outcome of the request is not known, so the request must count
// from the end of the process on.
func TestRequestInFlightCountsForADeclaredLimitInTheNextProcess(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, renames()...)
		use(t, m, change("1", "name"))
		wait(5 * time.Minute)
		require.True(t, call(background, m, change("1", "name")).granted())
		wait(time.Minute)
		m = successor(t, stateOf(t, m, true), renames()...)
		third := call(background, m, change("1", "name"))
		wait(4*time.Minute + time.Second)
		require.True(t, third.granted(), "the first request no longer counts")
		fourth := call(background, m, change("1", "name"))
		third.update(plain(200))
		wait(5*time.Minute + 50*time.Second)
		require.False(t, fourth.done())
		wait(20 * time.Second)
		require.True(t, fourth.granted())
	})
}

// The next process must restore the windows of all groups, keys, webhook tokens and credentials.
func TestWindowsOfAllKindsGoOnInTheNextProcess(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		lists := func(limit int) buckets.Option {
			return buckets.WithLimit(buckets.ForRoute(routes.ListMessages), limit, time.Hour, buckets.Named("lists"),
				buckets.PerKey(func(r *buckets.Request) string { return r.Route.Major().ID }))
		}
		options := func() []buckets.Option {
			return []buckets.Option{
				buckets.WithLimit(buckets.ForRoute(routes.CreateMessage), 1, time.Hour, buckets.PerGroup()),
				buckets.WithLimit(buckets.ForRoute(routes.ExecuteWebhook), 1, time.Hour, buckets.PerMajor()),
				buckets.WithLimit(buckets.ForRoute(routes.GetMyUser), 1, time.Hour, buckets.AcrossCredentials()),
				lists(1),
			}
		}
		used := []buckets.Request{
			{Route: message(1), Authorization: bot, Group: "a"},
			{Route: compile(routes.ExecuteWebhook, "7", "token-of-a-hook")},
			{Route: compile(routes.GetMyUser), Authorization: bot},
			{Route: compile(routes.GetMyUser), Authorization: bot, Server: "other.example"},
			{Route: list(1), Authorization: bot},
		}
		sameWindow := []buckets.Request{
			{Route: message(2), Authorization: bot, Group: "a"},
			{Route: compile(routes.ExecuteWebhook, "7", "token-of-a-hook")},
			{Route: compile(routes.GetMyUser), Authorization: "Bot two"},
			{Route: compile(routes.GetMyUser), Authorization: "Bot two", Server: "other.example"},
			{Route: list(1), Authorization: bot},
		}
		others := []buckets.Request{
			{Route: message(1), Authorization: bot, Group: "b"},
			{Route: message(1), Authorization: "Bot two", Group: "a"},
			{Route: compile(routes.ExecuteWebhook, "7", "token-of-another")},
			{Route: compile(routes.GetMyUser), Authorization: bot, Server: "third.example"},
			{Route: list(2), Authorization: bot},
		}
		m := started(t, options()...)
		for _, r := range used {
			use(t, m, r)
		}
		for range 3 {
			m = successor(t, stateOf(t, m, true), options()...)
		}
		for _, r := range sameWindow {
			_, err := m.AcquireRequest(buckets.ContextWithMaxWait(background, 0), &r)
			assert.ErrorContains(t, err, "declared limit", "%v", r)
		}
		for _, r := range others {
			use(t, m, r)
		}
		state := stateOf(t, m, true)
		m = successor(t, state) // this manager has no declared limits
		for _, r := range sameWindow {
			use(t, m, r)
		}
		changed := successor(t, state, lists(2))
		use(t, changed, used[4])
		use(t, changed, used[4])
	})
}

// A killed process may have sent some requests after its last write. Nevertheless, the next process must not treat a
// declared limit as used up if the limit's period is longer than ten minutes.
func TestLongDeclaredLimitGoesOnAsItWasWritten(t *testing.T) {
	t.Parallel()
	for name, declared := range map[string]buckets.Option{
		"24 hours":   buckets.WithKnownLimits(buckets.CommandCreates),
		"11 minutes": buckets.WithLimit(buckets.ForAll(), 200, 11*time.Minute),
	} {
		subtest(t, name, func(t *testing.T) {
			create := *request(compile(routes.CreateApplicationCommand, "5"))
			m := started(t, declared)
			for range 150 {
				use(t, m, create)
			}
			m = successor(t, stateOf(t, m, false), declared)
			wait(2 * time.Second) // for the global limit
			for range 50 {
				use(t, m, create)
			}
			assert.False(t, call(background, m, create).granted())
		})
	}
}

// A limit was declared for each credential and is now declared across credentials, or the reverse. The new limit must
// not take over the windows of the old one.
func TestWindowOfOneCredentialIsNotThatOfAllInTheNextProcess(t *testing.T) {
	t.Parallel()
	for name, across := range map[string]bool{"across credentials before": true, "across credentials now": false} {
		subtest(t, name, func(t *testing.T) {
			options := func(across bool) buckets.Option {
				of := []buckets.LimitOption{buckets.Named("one")}
				if across {
					of = append(of, buckets.AcrossCredentials())
				}
				return buckets.WithLimit(buckets.ForAll(), 1, time.Minute, of...)
			}
			m := started(t, options(across))
			use(t, m, buckets.Request{Route: message(1)})
			m = successor(t, stateOf(t, m, true), options(!across))
			use(t, m, buckets.Request{Route: message(1)})
		})
	}
}
