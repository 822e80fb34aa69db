package buckets

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/internal/wire"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// A state may contain times that no manager would write. Such times must not hold anything for longer than a day.
func TestNoStateHoldsAnythingForLongerThanADay(t *testing.T) {
	t.Parallel()
	const far = 42 * time.Hour
	message, other := channel(routes.CreateMessage, 0), channel(routes.CreateMessage, 1)
	list := channel(routes.ListMessages, 0)
	limited := endWith("h", 1, 0, 23*time.Hour)
	user := ratelimits.Response{
		Status: 429, Class: ratelimits.ClassUser, Bucket: "h", HasRetryAfter: true, RetryAfter: 23 * time.Hour,
	}
	options := []Option{
		WithLogger(nil), WithMaxRateLimit(100 * time.Hour), WithLimit(ForRoute(routes.ListMessages), 1, 24*time.Hour),
	}
	shift := func(m *RESTBucketManager) {
		for _, b := range m.discord.buckets {
			b.window.Shift(far-23*time.Hour, far-23*time.Hour)
		}
	}
	for name, c := range map[string]struct {
		answers []ratelimits.Response
		prepare func(m *RESTBucketManager)
	}{
		"charge":                  {answers: []ratelimits.Response{limited}, prepare: shift},
		"hold":                    {answers: []ratelimits.Response{user}, prepare: shift},
		"charge and hold":         {answers: []ratelimits.Response{limited, user}, prepare: shift},
		"charge without a period": {answers: []ratelimits.Response{limited, {Status: 200}}, prepare: shift},
		"throttle":                {prepare: func(m *RESTBucketManager) { m.throttled.Extend(m.now(), far) }},
		"resource": {answers: []ratelimits.Response{limited}, prepare: func(m *RESTBucketManager) {
			for _, b := range m.discord.buckets {
				m.discord.holds[resource{b.group.groupKey, m.majorOf(&other)}] = m.now() + far
				m.discord.holds[resource{b.group.groupKey, noMajor}] = m.now() + far
			}
		}},
		"declared": {prepare: func(m *RESTBucketManager) {
			for _, a := range m.discord.accounts {
				for _, d := range a.declared { // the limit of ListMessages
					d.window.Shift(far-24*time.Hour, far-24*time.Hour)
				}
			}
		}},
	} {
		for _, exact := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					m := NewRESTBucketManager(options...)
					require.NoError(t, m.Start())
					lease, err := m.Acquire(context.Background(), list, "Bot one")
					require.NoError(t, err)
					lease.Update(ratelimits.Response{Status: 200})
					for _, r := range c.answers {
						lease, err := m.Acquire(context.Background(), message, "Bot one")
						require.NoError(t, err)
						lease.Update(r)
					}
					c.prepare(m)
					var state bytes.Buffer
					require.NoError(t, m.WriteState(&state))
					if exact {
						require.NoError(t, m.Close())
						state.Reset()
						require.NoError(t, m.WriteState(&state))
					} else {
						defer m.Close()
					}
					next := NewRESTBucketManager(options...)
					require.NoError(t, next.Start())
					defer next.Close()
					require.NoError(t, next.RestoreState(&state))
					start := time.Now()
					for _, r := range []Request{
						{Route: message, Authorization: "Bot one"}, {Route: other, Authorization: "Bot one"},
						{Route: list, Authorization: "Bot one"}, {Route: list, Authorization: "Bot two"},
					} {
						lease, err := next.AcquireRequest(context.Background(), &r)
						require.NoError(t, err)
						lease.Update(ratelimits.Response{Status: 200})
						assert.LessOrEqual(t, time.Since(start), ratelimits.LongestTrust+time.Minute)
					}
				})
			})
		}
	}
}

// A state has an invalid response with a time in the future. The response must count for one period from now on.
func TestNoStateUsesUpTheBudgetForLongerThanItsPeriod(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := NewRESTBucketManager(WithLogger(nil), WithInvalidBudget(1, time.Hour, 0))
		require.NoError(t, m.Start())
		defer m.Close()
		invalid := map[time.Duration]int{m.now() + 42*time.Hour: 1}
		require.NoError(t, m.restore(&savedState{Servers: []savedServer{{Invalid: invalid}}}, m.key.Load(), 0))
		message := channel(routes.CreateMessage, 0)
		_, err := m.TryAcquire(message, "Bot one")
		require.Error(t, err)
		time.Sleep(time.Hour + 2*time.Minute)
		lease, err := m.TryAcquire(message, "Bot one")
		require.NoError(t, err)
		lease.Return()
	})
}

// whatever lists values that may stand anywhere in a hostile state.
var whatever = strings.Fields(`null null null [null] [null] [null] true "" "\ufffd" "GET\u0020/users/@me" []
	{"":null} {"-1":1} {"1":{}} -1 0 1 2 8 300 1e3 2147483647 9223372036854775807
	-9223372036854775808 18446744073709551615`)

// spoilt returns the contents of a state with one value replaced or repeated.
func spoilt(rnd *rand.Rand, v any) any {
	switch v := v.(type) {
	case map[string]any:
		if len(v) > 0 && rnd.IntN(8) > 0 {
			key := slices.Sorted(maps.Keys(v))[rnd.IntN(len(v))]
			v[key] = spoilt(rnd, v[key])
			return v
		}
	case []any:
		if len(v) > 0 && rnd.IntN(8) > 0 {
			i := rnd.IntN(len(v))
			if rnd.IntN(8) == 0 {
				return append(v, v[i])
			}
			v[i] = spoilt(rnd, v[i])
			return v
		}
	}
	return json.RawMessage(whatever[rnd.IntN(len(whatever))])
}

// Anyone can compute the checksum of a state, so a state may contain anything. RestoreState must reject it, or the
// state must do no harm.
func TestNoContentsOfAStateDoHarm(t *testing.T) {
	t.Parallel()
	options := []Option{
		WithLogger(nil), WithMaxRateLimit(100 * time.Hour), WithInvalidBudget(0, 0, 0),
		WithLimit(ForRoute(routes.ListMessages), 1, time.Minute, PerMajor()),
		WithLimit(ForAll(), 9, time.Hour, AcrossCredentials()),
	}
	acquire := func(t *testing.T, m *RESTBucketManager, route routes.Route, id int, r ratelimits.Response) {
		lease, err := m.Acquire(t.Context(), channel(route, id), "Bot one")
		require.NoError(t, err)
		lease.Update(r)
	}
	ok := func(hash string) ratelimits.Response { return endWith(hash, 5, 3, time.Minute) }
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) {
			m := NewRESTBucketManager(options...)
			require.NoError(t, m.Start())
			acquire(t, m, routes.CreateMessage, 0, ok("messages"))
			acquire(t, m, routes.CreateMessage, 1, ok("of two"))
			acquire(t, m, routes.ListMessages, 0, ok("messages"))
			acquire(t, m, routes.UpdateChannel, 0, ok(""))
			for _, class := range []ratelimits.Class{
				ratelimits.ClassShared, ratelimits.ClassSubLimit, ratelimits.ClassGlobal, ratelimits.ClassEdge,
			} {
				r := ok("messages")
				r.Status, r.Class, r.HasRetryAfter, r.RetryAfter = 429, class, true, 20*time.Second
				acquire(t, m, routes.CreateMessage, 0, r)
			}
			var state bytes.Buffer
			require.NoError(t, m.WriteState(&state))
			require.NoError(t, m.Close())
			head := state.Bytes()[6 : 6+16+8]
			d := json.NewDecoder(bytes.NewReader(state.Bytes()[6+16+8 : state.Len()-4]))
			d.UseNumber()
			var contents any
			require.NoError(t, d.Decode(&contents))
			rnd := rand.New(rand.NewPCG(seed, 1))
			for range 1 + rnd.IntN(3) {
				contents = spoilt(rnd, contents)
			}
			text, err := json.Marshal(contents)
			require.NoError(t, err)
			block := wire.EndBlock(append(append(wire.BeginBlock(stateKind, stateVersion), head...), text...))

			next := NewRESTBucketManager(options...)
			require.NoError(t, next.Start())
			defer next.Close()
			if err := next.RestoreState(bytes.NewReader(block)); err != nil {
				require.ErrorIs(t, err, ErrState)
				assert.Empty(t, next.discord.accounts)
			}
			start := time.Now()
			for id := range 3 {
				for _, route := range []routes.Route{routes.CreateMessage, routes.ListMessages, routes.UpdateChannel} {
					acquire(t, next, route, id, ok("messages"))
				}
			}
			assert.LessOrEqual(t, time.Since(start), 2*ratelimits.LongestTrust, "%d: %s", seed, text)
			state.Reset()
			require.NoError(t, next.WriteState(&state))
		})
	}
}
