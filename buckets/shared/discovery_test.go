package shared_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/memoryengine"
	"github.com/ratelight/ratelight/ratelimits"
)

const (
	found        = "abcd1234" // the bucket hash of the route
	discoveryKey = "rl2:{default}:d:bot:" + route
)

// probing returns two finders. The first one has the permission to discover the hash.
func (w *world) probing() (a, b *finder) {
	w.t.Helper()
	a, b = w.finder(), w.finder()
	a.askNow()
	require.True(w.t, a.may())
	return a, b
}

func TestOneProcessDiscoversTheHashForAllProcesses(t *testing.T) {
	for _, quiet := range []bool{false, true} {
		atOnce(t, func(w *world) {
			w.server.SetQuiet(quiet)
			a, b := w.finder(), w.finder()
			a.askNow()
			b.ask()
			time.Sleep(200 * ms)
			require.True(t, a.may())
			assert.False(t, a.may(), "the permission must be for one request only")
			assert.False(t, b.may())
			assert.Positive(t, b.changed.Load(), "changed must be called after the reply")
			a.found(found)
			wait := ms
			if quiet {
				wait = time.Second
			}
			time.Sleep(wait)
			assert.Equal(t, found, b.Hash())
			assert.False(t, b.may())
			c := w.finder()
			c.askNow()
			assert.Equal(t, found, c.Hash())
			calls := w.server.Calls()["discover"]
			time.Sleep(time.Hour)
			assert.Equal(t, calls, w.server.Calls()["discover"])
		})
	}
}

func TestHashIsForgottenOnlyIfNoProcessReadsIt(t *testing.T) {
	atOnce(t, func(w *world) {
		read := func() string {
			d := w.finder()
			defer d.session.Close()
			d.askNow()
			return d.Hash()
		}
		a, _ := w.probing()
		a.found(found)
		for range 3 {
			time.Sleep(23 * time.Hour)
			assert.Equal(t, found, read())
		}
		time.Sleep(25 * time.Hour)
		assert.Empty(t, read())
		time.Sleep(2 * ms)
		assert.Empty(t, w.server.Value(discoveryKey))
	})
}

func TestNextProcessDiscoversIfTheFirstFoundNothing(t *testing.T) {
	for name, ends := range map[string]func(d *finder){
		"found nothing": func(d *finder) { d.found("") },
		"closed":        func(d *finder) { d.Close() },
		"session ends":  func(d *finder) { d.session.Close() },
	} {
		for _, used := range []bool{false, true} {
			eachAtOnce(t, name, func(t *testing.T, w *world) {
				a, b := w.finder(), w.finder()
				a.askNow()
				b.askNow()
				if used {
					require.True(t, a.may())
				}
				ends(a)
				time.Sleep(ms)
				assert.True(t, b.may())
				assert.False(t, a.may())
			})
		}
	}
}

func TestPermissionOfADeadProcessEnds(t *testing.T) {
	atOnce(t, func(w *world) {
		dead, b := w.finder(), w.finder()
		dead.ask()
		time.Sleep(1500 * ms)
		require.True(t, dead.may())
		dead.link.block(true)
		b.ask()
		w.until(4*time.Second, b.may)
	})
}

// The server goes back to a time at which a process had the permission. That process is alive, but the result of its
// probe is already known. The permission must end, so that no other process waits for the result.
func TestPermissionThatTheServerHasGoneBackToEnds(t *testing.T) {
	atOnce(t, func(w *world) {
		a, b := w.probing()
		a.session.Global("bot", 50, func() {}).Need(w.now(), 200, 0) // keeps the session alive
		before := w.server.Value(discoveryKey)
		require.NotEmpty(t, before)
		a.found(found)
		time.Sleep(ms)
		w.server.Set(discoveryKey, before)
		b.ask()
		time.Sleep(5 * time.Second)
		assert.True(t, b.may() || b.Hash() != "")
	})
}

// A permission to discover a hash must last ten seconds. A hash that is found after that time must be reported all the
// same.
func TestPermissionLastsTenSeconds(t *testing.T) {
	for name, askers := range map[string]int{"one process asks": 0, "new processes ask, too": 6} {
		eachAtOnce(t, name, func(t *testing.T, w *world) {
			a, b := w.probing()
			a.process.sender(50).send(1)
			go a.senders[0].sendEvenly(40*time.Second, 500*ms) // keeps the session alive
			b.ask()
			for i := range askers {
				c := w.finder()
				time.AfterFunc(time.Duration(2+2*i)*time.Second, c.ask)
				time.AfterFunc(12*time.Second+ms, c.session.Close)
			}
			took := w.until(time.Minute, b.may)
			assert.Greater(t, took, 10*time.Second)
			assert.Less(t, took, 14*time.Second)
			a.found(found)
			time.Sleep(time.Second)
			c := w.finder()
			c.askNow()
			assert.Equal(t, found, c.Hash())
			time.Sleep(40 * time.Second) // until the goroutines of this test have ended
		})
	}
}

func TestDiscoverySurvivesLostCalls(t *testing.T) {
	for name, fate := range map[string]memoryengine.Fate{
		"call lost": {Lost: true}, "reply lost": {LostReply: true}, "late": {Before: 2 * time.Second},
	} {
		eachAtOnce(t, name, func(t *testing.T, w *world) {
			a, b := w.finder(), w.finder()
			n := 0
			w.server.Decide(func(string) memoryengine.Fate {
				if n++; n%2 == 1 {
					return fate
				}
				return memoryengine.Fate{}
			})
			a.ask()
			w.until(time.Second, a.may)
			time.Sleep(100 * ms)
			n = 0
			a.found(found)
			time.Sleep(time.Second)
			w.server.Decide(nil)
			b.askNow()
			assert.Equal(t, found, b.Hash())
		})
	}
}

func TestDiscoveryDuringAnOutage(t *testing.T) {
	for _, policy := range []shared.Outage{shared.OutageWait, shared.OutageFail, shared.OutageShare, shared.OutageFull} {
		eachAtOnce(t, policy.String(), func(t *testing.T, w *world) {
			a := w.finder()
			w.server.SetDown(true)
			a.ask()
			time.Sleep(time.Second)
			assert.Equal(t, policy >= shared.OutageShare, a.may())
			if policy == shared.OutageFail {
				assert.ErrorIs(t, a.Err(), shared.ErrOutage)
			} else {
				assert.NoError(t, a.Err())
			}
			changed := a.changed.Load()
			time.Sleep(5 * time.Second)
			if policy < shared.OutageShare {
				assert.GreaterOrEqual(t, a.changed.Load()-changed, int64(4), "the manager must check its requests")
			}
			a.found(found)
			w.server.SetDown(false)
			time.Sleep(2 * time.Second)
			assert.NoError(t, a.Err())
			b := w.finder()
			b.askNow()
			if policy >= shared.OutageShare {
				assert.Equal(t, found, b.Hash())
			} else {
				assert.True(t, a.may())
			}
		}, shared.WithOutage(policy))
	}
}

// A hash must be reported as soon as the server has everything that was known of the hash's bucket when the hash was
// found. The report must not wait for later changes of the bucket, because a busy bucket changes all the time.
func TestHashIsReportedWhileItsBucketIsBusy(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.contested()
		finder, other := a.finder(someKey.Credential), b.finder(someKey.Credential)
		finder.ask()
		pass(10 * ms)
		require.True(t, finder.may())
		other.ask()
		pass(10 * ms)
		w.server.Decide(func(string) memoryengine.Fate { return memoryengine.Fate{Before: 5 * ms, After: 5 * ms} })
		a.answer(ratelimits.Response{Status: 204})
		keepBusy := func() {
			for range 60 {
				a.join(5)
				for a.inFlight() > 0 {
					a.answer(ratelimits.Response{Status: 204})
				}
				pass(3 * ms)
			}
		}
		keepBusy()
		require.NotEmpty(t, a.flying)
		finder.found(someKey.Hash)
		keepBusy()
		assert.Equal(t, someKey.Hash, other.Hash())
	})
}

// When a process learns a hash, the earlier requests must already be charged in the hash's bucket, even if the first
// call that reports them is lost.
func TestHashIsReportedAfterTheRequestsInItsBucket(t *testing.T) {
	inWorld(t, func(w *world) {
		p, q := w.process(), w.process()
		finder, other := p.finder(someKey.Credential), q.finder(someKey.Credential)
		finder.ask()
		pass(10 * ms)
		require.True(t, finder.may())
		other.ask()
		pass(300 * ms)
		lost := false
		w.server.Decide(func(purpose string) (f memoryengine.Fate) {
			f.Lost = purpose == "swap" && !lost
			lost = lost || f.Lost
			return f
		})
		a, b := p.use(someKey), q.use(someKey)
		a.adopt()
		a.answer(headers(1, 0, 10*time.Second, 1000))
		finder.found(someKey.Hash)
		for other.Hash() == "" {
			pass(ms)
		}
		b.join(1)
		pass(time.Second)
		assert.True(t, lost)
		assert.False(t, b.served(1), "the only request that the limit allows was sent")
	})
}

func TestManyProcessesDiscoverTogether(t *testing.T) {
	for _, test := range []struct {
		sessions int
		trip     time.Duration
		longest  time.Duration
		calls    int
	}{
		{8, 400 * ms, 3 * time.Second, 45},
		{40, 5 * ms, 500 * ms, 300},
	} {
		atOnce(t, func(w *world) {
			w.distant(test.trip)
			var all []*finder
			for range test.sessions {
				d := w.finder()
				d.ask()
				all = append(all, d)
			}
			w.until(test.trip+10*ms, func() bool {
				i := slices.IndexFunc(all, (*finder).may)
				if i >= 0 {
					time.AfterFunc(200*ms, func() { all[i].found(found) })
				}
				return i >= 0
			})
			w.until(test.longest, func() bool {
				return !slices.ContainsFunc(all, func(d *finder) bool { return d.Hash() == "" })
			})
			assert.LessOrEqual(t, w.server.Calls()["discover"], test.calls)
		})
	}
}
