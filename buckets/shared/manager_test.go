package shared_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/fleet"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// managers is a fleet of managers. A test can use the stores and connections of the managers.
type managers struct {
	*fleet.Fleet
	t      *testing.T
	stores []*shared.Store
	links  []*closable
}

// closable is a connection that can be closed for good.
type closable struct {
	shared.Engine
	shared.Subscriber
	closed atomic.Bool
}

func (c *closable) Exchange(ctx context.Context, call *shared.Call) (*shared.Reply, error) {
	if c.closed.Load() {
		return nil, fmt.Errorf("link: %w", shared.ErrClosed)
	}
	return c.Engine.Exchange(ctx, call)
}

// five is a Discord with buckets of five requests a second. busy is a Discord in which only the global limit matters.
var (
	five = discord(5, discordsim.Unlimited())
	busy = discord(1000, discordsim.Fixed(50, time.Second))
)

func discord(limit int, global discordsim.Quota) discordsim.Config {
	return discordsim.Config{
		Rules:   []discordsim.Rule{{Path: "**", Hash: "h", Quota: discordsim.Fixed(limit, time.Second)}},
		Global:  global,
		Latency: discordsim.Latency{RoundTrip: 50 * ms, Jitter: 30 * ms},
	}
}

// withManagers runs a test in virtual time with n managers that share all limits.
func withManagers(t *testing.T, n int, config discordsim.Config, test func(f *managers), options ...shared.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &managers{t: t}
		share := func(_ int, engine shared.Engine) (shared.Source, error) {
			l := &closable{Engine: engine, Subscriber: engine.(shared.Subscriber)}
			store, err := shared.New(l, options...)
			f.stores, f.links = append(f.stores, store), append(f.links, l)
			return store, err
		}
		var err error
		f.Fleet, err = fleet.New(fleet.Config{Processes: n, Discord: config, Share: share})
		require.NoError(t, err)
		defer f.Close()
		f.Engine.Decide(near)
		test(f)
	})
}

// withBoth runs a test with two managers that have just used the same bucket: messages in channel 1.
func withBoth(t *testing.T, test func(f *managers), options ...shared.Option) {
	t.Helper()
	withManagers(t, 2, five, func(f *managers) {
		for i := range 6 {
			f.post(i%2, 1)
		}
		test(f)
	}, options...)
}

func (f *managers) manager(i int) *buckets.RESTBucketManager {
	return f.Processes[i].Transport.Manager()
}

// post sends a message to a channel.
func (f *managers) post(manager, channel int) {
	f.t.Helper()
	o := f.Processes[manager].Do(f.t.Context(), fleet.Message(channel))
	assert.NoError(f.t, o.Err)
	assert.Equal(f.t, 200, o.Status)
}

// called returns how many calls to the server the process of a manager has made.
func (f *managers) called(manager int) (n int) {
	for _, calls := range f.Processes[manager].Calls() {
		n += calls
	}
	return n
}

// attempt is one attempt to get a permit, which is returned at once.
type attempt struct {
	done bool
	err  error
	took time.Duration
}

func messages(channel int) string { return "/channels/" + strconv.Itoa(channel) + "/messages" }

// acquire asks a manager for a permit for a POST to a path.
func (f *managers) acquire(ctx context.Context, manager int, path string) *attempt {
	start := time.Now()
	route, err := routes.Match("POST", path)
	require.NoError(f.t, err)
	lease, err := f.manager(manager).Acquire(ctx, route, fleet.Authorization)
	if err == nil {
		lease.Return()
	}
	return &attempt{true, err, time.Since(start)}
}

// start does the same as acquire, but in another goroutine.
func (f *managers) start(ctx context.Context, manager int, path string) *attempt {
	a := new(attempt)
	f.Go(func() { *a = *f.acquire(ctx, manager, path) })
	synctest.Wait()
	return a
}

// within returns a context with a max wait.
func within(d time.Duration) context.Context {
	return buckets.ContextWithMaxWait(context.Background(), d)
}

// failedInOutage requires that the attempt failed because of an outage, after the given time, which is the attempt's
// max wait.
func (a *attempt) failedInOutage(t *testing.T, took time.Duration) {
	t.Helper()
	require.True(t, a.done)
	assert.InDelta(t, took, a.took, float64(50*ms))
	var tooLong *ratelimits.TooLongError
	require.ErrorAs(t, a.err, &tooLong)
	require.ErrorAs(t, a.err, new(*shared.OutageError))
	require.ErrorIs(t, a.err, shared.ErrOutage)
	assert.Equal(t, took, tooLong.Max)
	assert.Contains(t, a.err.Error(), "shared limits are unavailable since")
}

// failedClosed requires that the attempt failed at once because the client of the store is closed.
func (a *attempt) failedClosed(t *testing.T) {
	t.Helper()
	require.ErrorIs(t, a.err, shared.ErrClosed)
	assert.Contains(t, a.err.Error(), "link: ")
	assert.LessOrEqual(t, a.took, 5*ms)
}

func TestRequestWaitsForItsMaxWaitDuringAnOutage(t *testing.T) {
	for name, away := range map[string]func(f *managers, away bool){
		"frozen": func(f *managers, away bool) { f.Engine.SetFrozen(away) },
		"down":   func(f *managers, away bool) { f.Engine.SetDown(away) },
	} {
		t.Run(name, func(t *testing.T) {
			withBoth(t, func(f *managers) {
				away(f, true)
				pass(5 * time.Second) // until all loans and parts have ended
				var all []*attempt
				longest := []time.Duration{300 * ms, 700 * ms, time.Second, 2500 * ms, 4 * time.Second}
				for _, d := range longest {
					all = append(all, f.start(within(d), 0, messages(1)), f.start(within(d), 1, messages(1)))
					all = append(all, f.start(within(d), 1, messages(2))) // no process has used this bucket
				}
				deadline, cancel := context.WithTimeout(context.Background(), 2*time.Second)
				defer cancel()
				last := f.start(deadline, 0, messages(1))
				pass(20 * time.Second)
				for i, a := range all {
					a.failedInOutage(t, longest[i/3])
				}
				last.failedInOutage(t, 2*time.Second)
				assert.ErrorIs(t, last.err, context.DeadlineExceeded)
				patient := f.start(within(5*time.Second), 0, messages(1))
				pass(1500 * ms)
				away(f, false)
				pass(200 * ms)
				for range 5 {
					a := f.acquire(within(3*time.Second), 1, messages(1))
					assert.NoError(t, a.err, "after %v", a.took)
				}
				f.post(0, 1)
				pass(5 * time.Second)
				assert.True(t, patient.done)
				assert.NoError(t, patient.err)
			})
		})
	}
}

func TestRequestThatWaitsForTheGlobalLimitFailsInAnOutage(t *testing.T) {
	withManagers(t, 1, busy, func(f *managers) {
		f.post(0, 1)
		pass(30 * time.Second) // until the part is returned
		f.post(0, 1)
		f.Engine.SetFrozen(true)
		pass(5 * time.Second)
		var all []*attempt
		for channel := range 3 {
			all = append(all, f.start(within(1500*ms), 0, messages(channel)))
		}
		pass(5 * time.Second)
		for _, a := range all {
			a.failedInOutage(t, 1500*ms)
		}
	})
}

func TestRequestThatWaitsForADiscoveryFailsInAnOutage(t *testing.T) {
	withManagers(t, 1, busy, func(f *managers) {
		f.Engine.SetFrozen(true)
		early := f.start(within(2300*ms), 0, messages(1))
		pass(3 * time.Second)
		late := f.start(within(800*ms), 0, messages(1))
		pass(3 * time.Second)
		early.failedInOutage(t, 2300*ms)
		late.failedInOutage(t, 800*ms)
	})
}

// A request with a max wait of 0 must fail within the time of a call, and at once if the outage is already known.
func TestRequestThatDoesNotWaitFailsDuringAnOutage(t *testing.T) {
	const call = 400 * ms
	withBoth(t, func(f *managers) {
		pass(5 * time.Second) // no loans
		f.Engine.SetFrozen(true)
		known, unknown := f.start(within(0), 0, messages(1)), f.start(within(0), 1, "/channels/9/typing")
		pass(100 * ms)
		second := f.start(within(0), 0, messages(1)) // while a call is in progress
		pass(2 * time.Second)
		for _, a := range []*attempt{known, unknown, second} {
			require.ErrorAs(t, a.err, new(*ratelimits.TooLongError))
			assert.LessOrEqual(t, a.took, call+20*ms)
		}
		pass(10 * time.Second) // until all parts have ended
		for _, path := range []string{messages(1), messages(2), "/channels/9/typing", "/channels/9/pins"} {
			a := f.acquire(within(0), 0, path)
			a.failedInOutage(t, 0)
			assert.Zero(t, a.took)
		}
		waits := f.start(within(3*time.Second), 0, messages(1))
		f.acquire(within(0), 0, messages(1)).failedInOutage(t, 0)
		pass(4 * time.Second)
		waits.failedInOutage(t, 3*time.Second)
	}, shared.WithCallTimeout(call))
}

func TestRequestThatDoesNotWaitFailsWithoutAGlobalPart(t *testing.T) {
	withManagers(t, 1, busy, func(f *managers) {
		f.post(0, 1)
		pass(30 * time.Second) // until the part and the loan are returned
		f.Engine.SetFrozen(true)
		for range 5 {
			a := f.acquire(within(0), 0, messages(1))
			require.Error(t, a.err)
			assert.LessOrEqual(t, a.took, 420*ms)
		}
	}, shared.WithCallTimeout(400*ms))
}

// While requests arrive, a process must check once a second whether a foreign value was replaced by a correct one.
func TestCorrectedValueIsNoticed(t *testing.T) {
	for _, kind := range []string{"b", "e"} {
		t.Run(kind, func(t *testing.T) {
			withBoth(t, func(f *managers) {
				pass(5 * time.Second) // no loans
				i := slices.IndexFunc(f.Engine.Keys(), func(key string) bool { return key[len("rl2:{default}:"):][:1] == kind })
				require.GreaterOrEqual(t, i, 0)
				key := f.Engine.Keys()[i]
				right := f.Engine.Value(key)
				f.Engine.Set(key, "mine")
				fails := func(n int, pause time.Duration) {
					for range n {
						require.ErrorAs(t, f.acquire(context.Background(), 0, messages(1)).err, new(*shared.KeyError))
						pass(pause)
					}
				}
				fails(15, 300*ms)
				before := f.called(0)
				fails(20, 50*ms)
				assert.LessOrEqual(t, f.called(0)-before, 6)
				f.Engine.Set(key, right)
				start := f.Now()
				for f.acquire(context.Background(), 0, messages(1)).err != nil {
					require.Less(t, f.Now()-start, 1300*ms)
					pass(50 * ms)
				}
			})
		})
	}
}

func TestRequestFailsAtOnceIfTheClientIsClosed(t *testing.T) {
	for _, policy := range []shared.Outage{shared.OutageWait, shared.OutageFail, shared.OutageShare, shared.OutageFull} {
		t.Run(policy.String(), func(t *testing.T) {
			withBoth(t, func(f *managers) {
				pass(5 * time.Second) // no loans
				f.links[0].closed.Store(true)
				for _, path := range []string{messages(1), messages(1), messages(2), messages(3), "/channels/9/typing"} {
					f.acquire(context.Background(), 0, path).failedClosed(t)
				}
				for range 6 {
					f.post(1, 1) // another process continues
				}
			}, shared.WithOutage(policy))
		})
	}
	t.Run("before the first call", func(t *testing.T) {
		withManagers(t, 1, busy, func(f *managers) {
			f.links[0].closed.Store(true)
			for range 3 {
				f.acquire(context.Background(), 0, messages(1)).failedClosed(t)
			}
		})
	})
}

func TestClosingTheClientEndsAnOutage(t *testing.T) {
	for _, policy := range []shared.Outage{shared.OutageWait, shared.OutageShare, shared.OutageFull} {
		t.Run(policy.String(), func(t *testing.T) {
			withBoth(t, func(f *managers) {
				f.Engine.SetDown(true)
				pass(5 * time.Second)
				waits := f.start(context.Background(), 0, messages(1))
				pass(2 * time.Second)
				f.links[0].closed.Store(true)
				pass(1100 * ms) // the next call fails
				if policy == shared.OutageWait {
					require.ErrorIs(t, waits.err, shared.ErrClosed)
				}
				f.acquire(context.Background(), 0, messages(1)).failedClosed(t)
				calls := f.called(0)
				pass(time.Minute)
				assert.Equal(t, calls, f.called(0))
			}, shared.WithOutage(policy))
		})
	}
}

func TestStatsAndStoreReportAnOutage(t *testing.T) {
	for _, policy := range []shared.Outage{shared.OutageWait, shared.OutageFail, shared.OutageShare, shared.OutageFull} {
		t.Run(policy.String(), func(t *testing.T) {
			withBoth(t, func(f *managers) {
				stats := func() shared.Stats { return f.manager(0).Stats().Shared }
				pass(2 * time.Second)
				require.NoError(t, f.stores[0].Outage())
				require.Zero(t, stats().Outage)
				f.Engine.SetDown(true)
				pass(10 * time.Second)
				var outage *shared.OutageError
				require.ErrorAs(t, f.stores[0].Outage(), &outage)
				assert.Equal(t, policy, outage.Policy)
				assert.InDelta(t, 9.5, stats().Outage.Seconds(), .6)
				assert.Equal(t, shared.ErrorClass(outage), stats().OutageClass)
				f.Engine.SetDown(false)
				pass(2 * time.Second)
				require.NoError(t, f.stores[0].Outage())
				require.Zero(t, stats().Outage)
				f.Engine.SetDown(true)
				pass(10 * time.Second)
				require.NoError(t, f.manager(0).Close())
				require.NoError(t, f.stores[0].Outage(), "no manager uses the store")
				require.Zero(t, stats().Outage)
			}, shared.WithOutage(policy))
		})
	}
}

// waitsFor returns what the requests in each of a manager's buckets wait for, for buckets with waiting requests.
func (f *managers) waitsFor(manager int) (all []buckets.WaitsFor) {
	for b := range f.manager(manager).Buckets() {
		if b.Waiting > 0 {
			all = append(all, b.WaitsFor)
		}
	}
	return all
}

func TestSnapshotNamesTheOutage(t *testing.T) {
	withBoth(t, func(f *managers) {
		pass(2 * time.Second)
		f.Engine.SetDown(true)
		ctx, cancel := context.WithCancel(context.Background())
		for _, path := range []string{messages(1), messages(1), messages(2), "/channels/1/typing"} {
			f.start(ctx, 0, path)
		}
		for range 10 {
			pass(time.Second)
			require.NotEmpty(t, f.waitsFor(0))
			for _, waitsFor := range f.waitsFor(0) {
				assert.Equal(t, buckets.WaitsForOutage, waitsFor)
			}
		}
		cancel()
	})
}

func TestProcessThatStartsDuringAnOutageConnectsLater(t *testing.T) {
	withManagers(t, 0, busy, func(f *managers) {
		f.Engine.SetDown(true)
		_, err := f.Join()
		require.NoError(t, err)
		waits := f.start(context.Background(), 0, messages(1))
		pass(10 * time.Second)
		require.False(t, waits.done)
		require.Len(t, f.waitsFor(0), 1)
		assert.Equal(t, buckets.WaitsForOutage, f.waitsFor(0)[0])
		f.Engine.SetDown(false)
		pass(3 * time.Second)
		require.True(t, waits.done)
		require.NoError(t, waits.err)
	})
}

// A request joins the queue of all processes, with a max wait that is just sufficient. Then slow responses delay each
// window a little. The request must be rejected only if it would exceed its max wait by much.
func TestWaitingRequestIsRejectedOnlyIfItWouldBeMuchTooLate(t *testing.T) {
	for trip, served := range map[time.Duration]bool{40 * ms: true, 100 * ms: false} {
		t.Run(trip.String(), func(t *testing.T) {
			config := discord(1, discordsim.Unlimited())
			config.Latency = discordsim.RoundTrip(trip)
			withManagers(t, 2, config, func(f *managers) {
				for i := range 6 {
					f.post(i%2, 1)
				}
				for i := range 8 {
					f.Go(func() { f.post(i%2, 1) })
					pass(ms)
				}
				last := f.start(within(9*time.Second), 0, messages(1))
				_, err := f.Wait(time.Minute)
				require.NoError(t, err)
				assert.Greater(t, last.took, 5*time.Second)
				assert.Equal(t, served, last.err == nil, "%v", last.err)
			})
		})
	}
}
