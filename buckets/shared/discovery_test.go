package shared_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/memoryengine"
	"github.com/ratelight/ratelight/ratelimits"
)

const route = "POST /channels/{channel_id}/messages"

// finder is a process that wants to discover the bucket of a route.
type finder struct {
	stage   *stage
	session shared.Session
	shared.Discovery
	looked atomic.Int64
}

func (f *stage) finder() *finder { return f.finderOf(f.join()) }

func (f *stage) finderOf(session shared.Session) *finder {
	d := &finder{stage: f, session: session}
	d.Discovery = session.Discovery("bot", route, func() { d.looked.Add(1) })
	return d
}

func (d *finder) ask() { d.Ask(d.stage.now()) }

// may sends a probe if that is allowed.
func (d *finder) may() bool {
	now := d.stage.now()
	may := d.May(now)
	if may {
		d.Sent(now)
	}
	return may
}

func (d *finder) found(hash string) { d.Found(d.stage.now(), hash) }

func TestOneFindsOutAndTheOthersKnow(t *testing.T) {
	for _, quiet := range []bool{false, true} {
		onStage(t, func(f *stage) {
			f.memory.SetQuiet(quiet)
			a, b, c := f.finder(), f.finder(), f.finder()
			defer a.session.Close()
			defer b.session.Close()
			defer c.session.Close()
			a.ask()
			time.Sleep(time.Millisecond)
			b.ask()
			time.Sleep(200 * time.Millisecond)
			require.True(t, a.may())
			assert.False(t, a.may(), "it is used up")
			assert.False(t, b.may())
			assert.Positive(t, b.looked.Load(), "it was told that it has to wait")
			a.found("abcd1234")
			wait := time.Millisecond
			if quiet {
				wait = time.Second
			}
			time.Sleep(wait)
			assert.Equal(t, "abcd1234", b.Hash())
			assert.False(t, b.may())
			c.ask()
			time.Sleep(time.Millisecond)
			assert.Equal(t, "abcd1234", c.Hash(), "who comes later knows too")
			calls := f.memory.Calls()["discover"]
			time.Sleep(time.Hour)
			assert.Equal(t, calls, f.memory.Calls()["discover"])
		})
	}
}

func TestHintIsForgottenOnlyIfNobodyReadsIt(t *testing.T) {
	onStage(t, func(f *stage) {
		look := func() *finder {
			d := f.finder()
			defer d.session.Close()
			d.ask()
			time.Sleep(time.Millisecond)
			return d
		}
		a := f.finder()
		defer a.session.Close()
		a.ask()
		time.Sleep(time.Millisecond)
		require.True(t, a.may())
		a.found("abcd1234")
		for range 3 {
			time.Sleep(23 * time.Hour)
			assert.Equal(t, "abcd1234", look().Hash())
		}
		time.Sleep(25 * time.Hour)
		assert.Empty(t, look().Hash())
		time.Sleep(2 * time.Millisecond)
		assert.Empty(t, f.memory.Value("rl2:{default}:d:bot:"+route))
	})
}

func TestNextOneTriesIfNothingWasFound(t *testing.T) {
	for name, ends := range map[string]func(d *finder){
		"found nothing": func(d *finder) { d.found("") },
		"closed":        func(d *finder) { d.Close() },
		"session ends":  func(d *finder) { d.session.Close() },
	} {
		for _, used := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				onStage(t, func(f *stage) {
					a, b := f.finder(), f.finder()
					defer a.session.Close()
					defer b.session.Close()
					a.ask()
					time.Sleep(time.Millisecond)
					b.ask()
					time.Sleep(time.Millisecond)
					if used {
						require.True(t, a.may())
					}
					ends(a)
					time.Sleep(time.Millisecond)
					assert.True(t, b.may())
					assert.False(t, a.may())
					b.found("")
				})
			})
		}
	}
}

func TestPermissionOfTheDeadEnds(t *testing.T) {
	onStage(t, func(f *stage) {
		l := &wire{server: f.memory}
		store, err := shared.New(l)
		require.NoError(t, err)
		dead := f.finderOf(store.Join(realClock, f.origin))
		defer dead.session.Close()
		b := f.finder()
		defer b.session.Close()
		dead.ask()
		time.Sleep(1500 * time.Millisecond)
		require.True(t, dead.may())
		l.cut.Store(true)
		b.ask()
		f.until(4*time.Second, b.may)
	})
}

// The server returns to a state in which a process had the permission to discover a hash. The process is alive, but no
// longer needs the hash.
func TestPermissionThatIsOverEnds(t *testing.T) {
	onStage(t, func(f *stage) {
		const key = "rl2:{default}:d:bot:" + route
		a, b := f.finder(), f.finder()
		defer a.session.Close()
		defer b.session.Close()
		lives := a.session.Global("bot", 50, func() {})
		lives.Need(f.now(), 200, 0)
		a.ask()
		time.Sleep(time.Millisecond)
		require.True(t, a.may())
		before := f.memory.Value(key)
		require.NotEmpty(t, before)
		a.found("abcd1234")
		time.Sleep(time.Millisecond)
		f.memory.Set(key, before)
		b.ask()
		time.Sleep(5 * time.Second)
		assert.True(t, b.may() || b.Hash() != "")
	})
}

func TestFindingOutMayTakeTenSeconds(t *testing.T) {
	onStage(t, func(f *stage) {
		a, b := f.finder(), f.finder()
		defer a.session.Close()
		defer b.session.Close()
		a.ask()
		time.Sleep(time.Millisecond)
		require.True(t, a.may())
		b.ask()
		took := f.until(15*time.Second, b.may)
		assert.Greater(t, took, 10*time.Second)
		a.found("abcd1234")
		time.Sleep(time.Millisecond)
		c := f.finder()
		defer c.session.Close()
		c.ask()
		time.Sleep(time.Millisecond)
		assert.Equal(t, "abcd1234", c.Hash(), "what was found late is known all the same")
	})
}

func TestDiscoverySurvivesLostCalls(t *testing.T) {
	for name, fate := range map[string]memoryengine.Fate{
		"call lost": {Lost: true}, "reply lost": {LostReply: true}, "late": {Before: 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(f *stage) {
				a, b := f.finder(), f.finder()
				defer a.session.Close()
				defer b.session.Close()
				n := 0
				f.memory.Decide(func(string) memoryengine.Fate {
					if n++; n%2 == 1 {
						return fate
					}
					return memoryengine.Fate{}
				})
				a.ask()
				f.until(time.Second, a.may)
				time.Sleep(100 * time.Millisecond)
				n = 0
				a.found("abcd1234")
				time.Sleep(time.Second)
				f.memory.Decide(nil)
				b.ask()
				time.Sleep(time.Millisecond)
				assert.Equal(t, "abcd1234", b.Hash())
			})
		})
	}
}

func TestDiscoveryDuringAnOutage(t *testing.T) {
	for _, policy := range []shared.Outage{shared.OutageWait, shared.OutageFail, shared.OutageShare, shared.OutageFull} {
		t.Run(policy.String(), func(t *testing.T) {
			onStage(t, func(f *stage) {
				a := f.finder()
				defer a.session.Close()
				f.memory.SetDown(true)
				a.ask()
				time.Sleep(time.Second)
				assert.Equal(t, policy >= shared.OutageShare, a.may())
				if policy == shared.OutageFail {
					assert.ErrorIs(t, a.Err(), shared.ErrOutage)
				} else {
					assert.NoError(t, a.Err())
				}
				looked := a.looked.Load()
				time.Sleep(5 * time.Second)
				if policy < shared.OutageShare {
					assert.GreaterOrEqual(t, a.looked.Load()-looked, int64(4), "those who wait are looked at")
				}
				a.found("abcd1234")
				f.memory.SetDown(false)
				time.Sleep(2 * time.Second)
				assert.NoError(t, a.Err())
				b := f.finder()
				defer b.session.Close()
				b.ask()
				time.Sleep(time.Millisecond)
				if policy >= shared.OutageShare {
					assert.Equal(t, "abcd1234", b.Hash())
				} else {
					assert.True(t, a.may())
				}
			}, shared.WithOutage(policy))
		})
	}
}

func TestDiscoveryWhoseKeyIsNotOurs(t *testing.T) {
	onStage(t, func(f *stage) {
		key := "rl2:{default}:d:bot:" + route
		f.memory.Set(key, "x")
		a := f.finder()
		defer a.session.Close()
		a.ask()
		time.Sleep(time.Millisecond)
		var wrong *shared.KeyError
		require.ErrorAs(t, a.Err(), &wrong)
		assert.Equal(t, key, wrong.Key)
		f.memory.Flush()
		time.Sleep(1100 * time.Millisecond)
		assert.NoError(t, a.Err())
		assert.True(t, a.may())
	})
}

// A hash is reported as soon as the known requests of its bucket have been reported, although a busy bucket always has
// more to report.
func TestAHashIsFoundAlsoWhileItsBucketIsBusy(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.contested()
		finder := a.session.Discovery(someKey.Credential, route, func() {})
		other := b.session.Discovery(someKey.Credential, route, func() {})
		finder.Ask(w.now())
		pass(10 * ms)
		require.True(t, finder.May(w.now()))
		other.Ask(w.now())
		pass(10 * ms)
		w.server.Decide(func(string) memoryengine.Fate { return memoryengine.Fate{Before: 5 * ms, After: 5 * ms} })
		a.answer(ratelimits.Response{Status: 204})
		for range 60 {
			a.join(5)
			for a.inFlight() > 0 {
				a.answer(ratelimits.Response{Status: 204})
			}
			pass(3 * ms)
		}
		require.NotEmpty(t, a.flying)
		finder.Found(w.now(), someKey.Hash)
		for range 60 {
			a.join(5)
			for a.inFlight() > 0 {
				a.answer(ratelimits.Response{Status: 204})
			}
			pass(3 * ms)
		}
		assert.Equal(t, someKey.Hash, other.Hash())
	})
}

// When a process learns a hash, the bucket already has the charges of all earlier requests, even if the call that
// reports them is lost once.
func TestAHashIsToldWhenItsBucketIsKnown(t *testing.T) {
	inWorld(t, func(w *world) {
		p, q := w.process(), w.process()
		finder := p.session.Discovery(someKey.Credential, route, func() {})
		other := q.session.Discovery(someKey.Credential, route, func() {})
		finder.Ask(w.now())
		pass(10 * ms)
		require.True(t, finder.May(w.now()))
		finder.Sent(w.now())
		other.Ask(w.now())
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
		finder.Found(w.now(), someKey.Hash)
		for other.Hash() == "" {
			pass(ms)
		}
		b.join(1)
		pass(time.Second)
		assert.True(t, lost)
		assert.False(t, b.served(1), "the only request that is allowed was sent")
	})
}
