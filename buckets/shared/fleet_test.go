package shared_test

import (
	"context"
	"fmt"
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
	"github.com/ratelight/ratelight/internal/redistest"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// bucketsOnly is a store whose processes share nothing but buckets.
type bucketsOnly struct{ *shared.Store }

func (b bucketsOnly) Join(clock clockwork.Clock, origin time.Time) buckets.SharedSession {
	return onlySession{b.Store.Join(clock, origin)}
}

type onlySession struct{ buckets.SharedSession }

func (s onlySession) Global(string, int, func()) buckets.SharedGlobal { return onlyGlobal{} }
func (s onlySession) Discovery(string, string, func()) buckets.SharedDiscovery {
	return onlyDiscovery{}
}

type onlyGlobal struct{}

func (onlyGlobal) Part(now time.Duration) (int, time.Duration) { return 1000, now + time.Hour }
func (onlyGlobal) Need(time.Duration, int)                     {}
func (onlyGlobal) HoldWait(time.Duration) time.Duration        { return 0 }
func (onlyGlobal) Hold(time.Duration, time.Duration)           {}
func (onlyGlobal) Err() error                                  { return nil }
func (onlyGlobal) Close()                                      {}

type onlyDiscovery struct{}

func (onlyDiscovery) Ask(time.Duration)           {}
func (onlyDiscovery) May(time.Duration) bool      { return true }
func (onlyDiscovery) Hash() string                { return "" }
func (onlyDiscovery) Found(time.Duration, string) {}
func (onlyDiscovery) Err() error                  { return nil }
func (onlyDiscovery) Close()                      {}

// fleet is some processes that send to a simulated Discord.
type fleet struct {
	*world
	discord  *discordsim.Server
	managers []*buckets.RESTBucketManager
	links    []*link
	all      sync.WaitGroup
}

func (w *world) fleet(n int, config discordsim.Config, options ...shared.Option) *fleet {
	w.t.Helper()
	discord, err := discordsim.New(config)
	require.NoError(w.t, err)
	f := &fleet{world: w, discord: discord}
	for range n {
		l := &link{Memory: w.server}
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

// warm lets all managers learn the bucket hash, one after the other.
func (f *fleet) warm(channel func(manager int) int) {
	for m := range f.managers {
		require.NoError(f.t, f.post(context.Background(), m, channel(m)))
		pass(2 * time.Second)
	}
}

// saturate lets each manager send with so many callers, each one request after the other, for a time. It returns how many were
// accepted per second.
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

func TestFleetOnOneBucket(t *testing.T) {
	inWorld(t, func(w *world) {
		f := w.fleet(4, oneRule(five, near))
		defer f.close()
		one := func(int) int { return 1 }
		f.warm(one)
		calls := w.server.Total()
		rate := f.saturate(10, time.Minute, one)
		fmt.Printf("rate %.3f of ideal, refused %d, calls per request %.2f %v\n", rate*1.02/5, f.refused(), float64(w.server.Total()-calls)/rate/64, w.server.Calls())
		assert.Zero(t, f.refused())
		assert.Greater(t, rate, .97*5/1.02)
	})
}

func TestFleetOnBucketsOfTheirOwn(t *testing.T) {
	inWorld(t, func(w *world) {
		f := w.fleet(4, oneRule(five, near))
		defer f.close()
		own := func(m int) int { return m + 1 }
		f.warm(own)
		calls := w.server.Total()
		rate := f.saturate(10, time.Minute, own)
		fmt.Printf("rate %.3f of ideal, refused %d, calls per request %.2f %v\n", rate*1.02/20, f.refused(), float64(w.server.Total()-calls)/rate/64, w.server.Calls())
		assert.Zero(t, f.refused())
		assert.Greater(t, rate, .97*20/1.02)
	})
}

func TestFleetOnABadConnection(t *testing.T) {
	for name, fate := range map[string]redistest.Fate{
		"lost calls":   {Lost: true},
		"lost replies": {LostReply: true},
		"late calls":   {Before: 3 * time.Second},
		"slow calls":   {Before: 300 * ms, After: 300 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				f := w.fleet(4, oneRule(five, near))
				defer f.close()
				one := func(int) int { return 1 }
				f.warm(one)
				chance := rand.New(rand.NewPCG(1, 2))
				var mu sync.Mutex
				w.server.Decide(func(string) redistest.Fate {
					mu.Lock()
					defer mu.Unlock()
					if chance.Float64() < .07 {
						return fate
					}
					return redistest.Fate{Before: ms / 2, After: ms / 2}
				})
				calls := w.server.Total()
				rate := f.saturate(10, time.Minute, one)
				fmt.Printf("rate %.3f of ideal, refused %d, calls per request %.2f %v\n", rate*1.02/5, f.refused(), float64(w.server.Total()-calls)/rate/64, w.server.Calls())
				assert.Zero(t, f.refused())
				assert.Greater(t, rate, .7*5/1.02)
			})
		})
	}
}

func TestFleetWhoseStateIsLost(t *testing.T) {
	inWorld(t, func(w *world) {
		f := w.fleet(4, oneRule(five, near))
		defer f.close()
		one := func(int) int { return 1 }
		f.warm(one)
		f.all.Go(func() {
			for range 8 {
				time.Sleep(5*time.Second + 123*ms)
				w.server.Flush()
			}
		})
		rate := f.saturate(10, time.Minute, one)
		fmt.Printf("rate %.3f of ideal, refused %d\n", rate*1.02/5, f.refused())
		assert.Greater(t, rate, .7*5/1.02)
		assert.LessOrEqual(t, f.refused(), 8)
	})
}

func TestFleetWithAnOutage(t *testing.T) {
	for _, policy := range []shared.Outage{shared.OutageWait, shared.OutageShare, shared.OutageFull} {
		for name, break_ := range map[string]func(w *world, broken bool){
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
					one := func(int) int { return 1 }
					f.warm(one)
					f.all.Go(func() {
						time.Sleep(10 * time.Second)
						break_(w, true)
						time.Sleep(5 * time.Second)
						break_(w, false)
					})
					rate := f.saturate(10, 30*time.Second, one)
					fmt.Printf("%v %s rate %.3f of ideal, refused %d\n", policy, name, rate*1.02/5, f.refused())
				})
			})
		}
	}
}
