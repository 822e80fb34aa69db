package shared_test

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/memoryengine"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// bucketsOnly is a store whose processes share nothing but buckets.
type bucketsOnly struct{ *shared.Store }

func (b bucketsOnly) Join(clock clockwork.Clock, origin time.Time) shared.Session {
	return onlySession{b.Store.Join(clock, origin)}
}

type onlySession struct{ shared.Session }

func (s onlySession) Global(string, int, func()) shared.Global { return onlyGlobal{} }
func (s onlySession) Discovery(string, string, func()) shared.Discovery {
	return onlyDiscovery{}
}

type onlyGlobal struct{}

func (onlyGlobal) Part(now time.Duration) (int, time.Duration) { return 1000, now + time.Hour }
func (onlyGlobal) Need(time.Duration, int, int)                {}
func (onlyGlobal) HoldWait(time.Duration) time.Duration        { return 0 }
func (onlyGlobal) Hold(time.Duration, time.Duration)           {}
func (onlyGlobal) Err() error                                  { return nil }
func (onlyGlobal) Close()                                      {}

type onlyDiscovery struct{}

func (onlyDiscovery) Ask(time.Duration)           {}
func (onlyDiscovery) May(time.Duration) bool      { return true }
func (onlyDiscovery) Sent(time.Duration)          {}
func (onlyDiscovery) Hash() string                { return "" }
func (onlyDiscovery) Found(time.Duration, string) {}
func (onlyDiscovery) Err() error                  { return nil }
func (onlyDiscovery) Close()                      {}

// fleet is some processes that send to a simulated Discord.
type fleet struct {
	*world
	discord  *discordsim.Server
	managers []*buckets.RESTBucketManager
	stores   []*shared.Store
	links    []*link
	all      sync.WaitGroup
}

func (w *world) fleet(n int, config discordsim.Config, options ...shared.Option) *fleet {
	w.t.Helper()
	discord, err := discordsim.New(config)
	require.NoError(w.t, err)
	f := &fleet{world: w, discord: discord}
	for range n {
		l := &link{server: w.server}
		store, err := shared.New(l, options...)
		require.NoError(w.t, err)
		m := buckets.NewRESTBucketManager(buckets.WithShared(bucketsOnly{store}), buckets.WithMaxRateLimit(time.Hour),
			buckets.WithGlobalLimit(1000))
		require.NoError(w.t, m.Start())
		f.managers = append(f.managers, m)
		f.links = append(f.links, l)
	}
	return f
}

func (f *fleet) close() {
	for _, m := range f.managers {
		m.Close()
	}
	f.discord.Close()
}

// post sends a message to a channel by one of the managers, as often as it takes.
func (f *fleet) post(ctx context.Context, manager, channel int) error {
	path := "/channels/" + strconv.Itoa(channel) + "/messages"
	route, err := routes.Match("POST", path)
	if err != nil {
		return err
	}
	for {
		lease, err := f.managers[manager].Acquire(ctx, route, "Bot a")
		if err != nil {
			return err
		}
		r, err := f.attempt(ctx, path)
		if err != nil {
			lease.Release()
			return err
		}
		lease.Update(r)
		if r.Class == ratelimits.ClassOK {
			return nil
		}
	}
}

func (f *fleet) attempt(ctx context.Context, path string) (ratelimits.Response, error) {
	request, err := http.NewRequestWithContext(ctx, "POST", discordsim.BaseURL+path, strings.NewReader("{}"))
	if err != nil {
		return ratelimits.Response{}, err
	}
	request.Header.Set("Authorization", "Bot a")
	response, err := f.discord.RoundTripper().RoundTrip(request)
	if err != nil {
		return ratelimits.Response{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return ratelimits.Response{}, err
	}
	r := ratelimits.ParseResponse(response.StatusCode, response.Header, body)
	r.Stamp = ratelimits.ParseStamp(response.Header)
	return r, nil
}

// warm makes all managers learn the bucket hash, one after the other.
func (f *fleet) warm(channel func(manager int) int) {
	for m := range f.managers {
		require.NoError(f.t, f.post(context.Background(), m, channel(m)))
		pass(2 * time.Second)
	}
}

// saturate runs so many callers of each manager for a time; each caller sends one request after the other. It returns
// how many requests were accepted per second.
func (f *fleet) saturate(callers int, d time.Duration, channel func(manager int) int) float64 {
	start, before := time.Now(), f.discord.Report().Accepted
	for m := range f.managers {
		for range callers {
			f.all.Go(func() {
				for time.Since(start) < d {
					if err := f.post(context.Background(), m, channel(m)); err != nil {
						f.t.Error(err)
						return
					}
				}
			})
		}
	}
	f.all.Wait()
	return float64(f.discord.Report().Accepted-before) / time.Since(start).Seconds()
}

func (f *fleet) refused() int {
	r := f.discord.Report().Refused
	return r.User + r.SubLimit + r.Shared + r.Global + r.Edge
}

func oneRule(rule discordsim.Rule, latency discordsim.Latency) discordsim.Config {
	rule.Path = "**"
	return discordsim.Config{Rules: []discordsim.Rule{rule}, Global: discordsim.Unlimited(), Latency: latency}
}

var (
	five = discordsim.Rule{Hash: "h", Quota: discordsim.Fixed(5, time.Second)}
	near = discordsim.Latency{RoundTrip: 50 * ms, Jitter: 30 * ms}
)

// one is the channel of all, own that of each.
func one(int) int         { return 1 }
func own(manager int) int { return manager + 1 }

// ideal is how many requests a second a nearby client can send to one bucket of five without risk: each window has to
// be over for certain, which takes the shortest round trip longer.
const ideal = 5 / 1.02

func TestFleetOnOneBucket(t *testing.T) {
	inWorld(t, func(w *world) {
		f := w.fleet(4, oneRule(five, near))
		defer f.close()
		f.warm(one)
		calls, before := w.server.Total(), f.discord.Report().Accepted
		rate := f.saturate(10, time.Minute, one)
		assert.Zero(t, f.refused())
		assert.Greater(t, rate, .97*ideal)
		assert.Less(t, w.server.Total()-calls, 3*(f.discord.Report().Accepted-before))
	})
}

func TestFleetOnBucketsOfAllKinds(t *testing.T) {
	long(t)
	for name, kind := range map[string]struct {
		quota discordsim.Quota
		least float64 // of the limit per period
	}{
		"aligned":    {discordsim.Aligned(5, time.Second, 0), .9},
		"large":      {discordsim.Fixed(50, time.Second), .9},
		"long":       {discordsim.Fixed(2, 5*time.Second), .9},
		"log":        {discordsim.Sliding(5, time.Second), .9},
		"leaky":      {discordsim.Leaky(5, 2*time.Second), .9},
		"fine leaky": {discordsim.Leaky(20, 2*time.Second), .9},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				f := w.fleet(4, oneRule(discordsim.Rule{Hash: "h", Quota: kind.quota}, near))
				defer f.close()
				for m := range f.managers {
					require.NoError(t, f.post(context.Background(), m, 1))
					pass(6 * time.Second)
				}
				rate := f.saturate(10, 30*time.Second, one)
				assert.Zero(t, f.refused())
				assert.Greater(t, rate, kind.least*float64(kind.quota.Limit)/kind.quota.Period.Seconds())
			})
		})
	}
}

func TestFleetOnBucketsOfTheirOwn(t *testing.T) {
	inWorld(t, func(w *world) {
		f := w.fleet(4, oneRule(five, near))
		defer f.close()
		f.warm(own)
		calls := w.server.Total()
		rate := f.saturate(10, time.Minute, own)
		assert.Zero(t, f.refused())
		assert.Greater(t, rate, .97*4*ideal)
		assert.LessOrEqual(t, w.server.Total()-calls, 4*(61+9), "one beat a second each, and little else")
	})
}

func TestFleetOnBucketsOfTheirOwnWithForeignTraffic(t *testing.T) {
	long(t)
	inWorld(t, func(w *world) {
		f := w.fleet(4, oneRule(five, near))
		defer f.close()
		f.warm(func(m int) int { return 1 + 10*m })
		random := locked(rand.New(rand.NewPCG(1, 2)))
		calls, before := w.server.Total(), f.discord.Report().Accepted
		f.saturate(20, 30*time.Second, func(m int) int {
			if random(100) < 2 {
				m = int(random(4))
			}
			return 1 + 10*m + int(random(10))
		})
		assert.Zero(t, f.refused())
		assert.Less(t, float64(w.server.Total()-calls), .4*float64(f.discord.Report().Accepted-before))
	})
}

// locked returns a source of numbers below n for several goroutines.
func locked(random *rand.Rand) func(n int64) int64 {
	var mu sync.Mutex
	return func(n int64) int64 {
		mu.Lock()
		defer mu.Unlock()
		return random.Int64N(n)
	}
}

// fate gives each call one of the fates with the given probability; other calls have no fault.
func (w *world) fate(chance float64, fates ...memoryengine.Fate) {
	random := locked(rand.New(rand.NewPCG(1, 2)))
	w.server.Decide(func(string) memoryengine.Fate {
		if float64(random(1000)) < 1000*chance {
			return fates[random(int64(len(fates)))]
		}
		return memoryengine.Fate{Before: ms / 2, After: ms / 2}
	})
}

var badFates = map[string]memoryengine.Fate{
	"lost calls":   {Lost: true},
	"lost replies": {LostReply: true},
	"late calls":   {Before: 3 * time.Second},
	"slow calls":   {Before: 300 * ms, After: 300 * ms},
}

func TestFleetOnABadConnection(t *testing.T) {
	long(t)
	for name, fate := range badFates {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				f := w.fleet(4, oneRule(five, near))
				defer f.close()
				f.warm(one)
				w.fate(.07, fate)
				rate := f.saturate(10, time.Minute, one)
				assert.Zero(t, f.refused())
				assert.Greater(t, rate, .9*ideal)
			})
		})
	}
}

func TestFleetInBadWeather(t *testing.T) {
	long(t)
	inWorld(t, func(w *world) {
		f := w.fleet(5, oneRule(five, discordsim.Latency{RoundTrip: 200 * ms, Jitter: 180 * ms}))
		defer f.close()
		f.warm(one)
		w.fate(.1, badFates["lost calls"], badFates["lost replies"], badFates["late calls"], badFates["slow calls"])
		random := locked(rand.New(rand.NewPCG(3, 4)))
		done := make(chan struct{})
		f.all.Go(func() {
			for {
				l := f.links[random(int64(len(f.links)))]
				l.kill(true)
				time.Sleep(time.Duration(random(int64(5 * time.Second))))
				l.kill(false)
				select {
				case <-done:
					return
				case <-time.After(time.Duration(random(int64(5 * time.Second)))):
				}
			}
		})
		var senders sync.WaitGroup
		for m := range f.managers {
			for range 10 {
				senders.Go(func() {
					for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); {
						ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+random(int64(20*time.Second))))
						_ = f.post(ctx, m, 1+int(random(3)))
						cancel()
						time.Sleep(100 * ms)
					}
				})
			}
		}
		senders.Wait()
		close(done)
		f.all.Wait()
		assert.Zero(t, f.refused(), "%+v", f.discord.Refusals())
		assert.Greater(t, f.discord.Report().Accepted, 3*60*3*5*6/10)
	})
}

func TestFleetWhoseStateIsLost(t *testing.T) {
	long(t)
	const losses = 80 // so many that chance does not decide: about one in three draws a 429
	inWorld(t, func(w *world) {
		f := w.fleet(4, oneRule(five, near))
		defer f.close()
		f.warm(one)
		f.all.Go(func() {
			for range losses {
				time.Sleep(5*time.Second + 123*ms)
				w.server.Flush()
			}
		})
		rate := f.saturate(10, 7*time.Minute, one)
		assert.Greater(t, rate, .9*ideal)
		assert.LessOrEqual(t, f.refused(), losses/2, "one in two losses at most")
	})
}

func TestFleetWithAnOutage(t *testing.T) {
	long(t)
	for _, policy := range []shared.Outage{shared.OutageWait, shared.OutageShare, shared.OutageFull} {
		for name, breaks := range map[string]func(w *world, broken bool){
			"down":   func(w *world, broken bool) { w.server.SetDown(broken) },
			"frozen": func(w *world, broken bool) { w.server.SetFrozen(broken) },
			"emptied": func(w *world, broken bool) {
				w.server.SetDown(broken)
				w.server.Flush()
			},
		} {
			t.Run(policy.String()+" "+name, func(t *testing.T) {
				inWorld(t, func(w *world) {
					f := w.fleet(4, oneRule(five, near), shared.WithOutage(policy))
					defer f.close()
					f.warm(one)
					f.all.Go(func() {
						time.Sleep(10 * time.Second)
						breaks(w, true)
						time.Sleep(5 * time.Second)
						breaks(w, false)
					})
					rate := f.saturate(10, 30*time.Second, one)
					assert.Greater(t, rate, .75*ideal, "five seconds of nearly forty")
					switch policy {
					case shared.OutageShare: // who was sent alone is not known to all when the server is back
						assert.LessOrEqual(t, f.refused(), 6)
					case shared.OutageWait:
						assert.Zero(t, f.refused())
					}
				})
			})
		}
	}
}
