package buckets_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// restarts is a program that is restarted again and again while it sends requests.
type restarts struct {
	*testing.T
	*discordsim.Server
	chance  *rand.Rand
	hidden  bool // the world has limits that no header shows
	latency discordsim.Latency
	routes  []restartRoute
	clock   *jumpingClock
	manager *buckets.RESTBucketManager
	process context.Context
	kill    context.CancelFunc
	all     sync.WaitGroup
}

type restartRoute struct{ method, path, body string }

// newRestarts returns a program in a world that the seed determines.
func newRestarts(t *testing.T, seed uint64) *restarts {
	r := &restarts{T: t, chance: rand.New(rand.NewPCG(seed, 0)), hidden: seed%3 == 0, clock: &jumpingClock{}}
	quotas := []func(int, time.Duration) discordsim.Quota{discordsim.Fixed, discordsim.Sliding, discordsim.Leaky}
	quota := func() discordsim.Quota {
		return quotas[r.chance.IntN(len(quotas))](1+r.chance.IntN(8),
			time.Duration(500+r.chance.IntN(5000))*time.Millisecond)
	}
	rules := []discordsim.Rule{
		{Method: "POST", Path: "/channels/{id}/messages", Hash: "messages", Quota: quota()},
		{Method: "POST", Path: "/webhooks/{id}/{token}", Hash: "hooks", Quota: quota()},
		{Method: "PATCH", Path: "/channels/{id}", Hash: "channels", Quota: quota()},
		{Method: "GET", Path: "/users/@me", Hash: "me", Quota: quota()},
		{Path: "**", Quota: discordsim.Unlimited()},
	}
	if seed%2 == 0 {
		rules[0].Vary = discordsim.HashByMajor("messages")
	}
	if r.hidden {
		rules[2].SubLimits = []discordsim.SubLimit{{Fields: []string{"name"}, Quota: discordsim.Fixed(2, time.Minute)}}
		rules[0].Shared = &discordsim.SharedLimit{Quota: discordsim.Fixed(9, 10*time.Second)}
	}
	r.latency = discordsim.Latency{RoundTrip: time.Duration(20+r.chance.IntN(300)) * time.Millisecond,
		Jitter: 10 * time.Millisecond}
	server, err := discordsim.New(discordsim.Config{
		Seed: seed, Rules: rules, Global: discordsim.Aligned(20, time.Second, time.Duration(seed%1000)*time.Millisecond),
		FullLog: true,
		Latency: r.latency,
	})
	require.NoError(t, err)
	r.Server = server
	for channel := range 3 {
		r.routes = append(r.routes, restartRoute{"POST", fmt.Sprintf("/channels/%d/messages", channel+1), "{}"},
			restartRoute{"POST", fmt.Sprintf("/webhooks/%d/token", channel+1), "{}"})
	}
	r.routes = append(r.routes,
		restartRoute{"PATCH", "/channels/1", `{"name": "x"}`}, restartRoute{"PATCH", "/channels/1", `{"topic": "x"}`},
		restartRoute{"GET", "/users/@me", ""}, restartRoute{"GET", "/unlimited", ""})
	return r
}

// start starts the next process with the state of the previous one.
func (r *restarts) start(state []byte) {
	was := r.clock.jump.Load()
	r.clock = &jumpingClock{Clock: clockwork.NewRealClock()} // a jump of this clock does not change elapsed times
	r.manager = buckets.NewRESTBucketManager(buckets.WithGlobalLimit(20),
		buckets.WithMaxRateLimit(time.Hour), buckets.WithClock(r.clock))
	require.NoError(r, r.manager.Start())
	r.process, r.kill = context.WithCancel(background)
	if state != nil {
		r.clock.jump.Store(was + int64([]time.Duration{0, time.Hour, -time.Hour}[r.chance.IntN(3)]))
		require.NoError(r, r.manager.RestoreState(bytes.NewReader(state)))
	}
}

// write returns the state as it is now.
func (r *restarts) write() []byte {
	var b bytes.Buffer
	require.NoError(r, r.manager.WriteState(&b))
	return b.Bytes()
}

// busy sends bursts of requests for the time d, without waiting for their responses.
func (r *restarts) busy(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		route := r.routes[r.chance.IntN(len(r.routes))]
		for range 1 + r.chance.IntN(6) {
			r.send(route)
		}
		time.Sleep(time.Duration(r.chance.IntN(400)) * time.Millisecond)
	}
}

// everyRoute discovers the buckets of all routes.
func (r *restarts) everyRoute() {
	for _, route := range r.routes {
		r.send(route)
	}
	r.all.Wait()
}

func (r *restarts) send(to restartRoute) {
	route, err := routes.Match(to.method, to.path)
	require.NoError(r, err)
	request := &buckets.Request{Route: route, Authorization: bot, Fields: func() []string {
		if name, _, ok := strings.Cut(strings.TrimPrefix(to.body, `{"`), `"`); ok {
			return []string{name}
		}
		return nil
	}}
	m, process := r.manager, r.process
	r.all.Go(func() {
		_, _ = untilAccepted(process, m, request, func() (ratelimits.Response, error) { return r.attempt(process, to) })
	})
}

// attempt sends a request, which always reaches the server. If the process ends before the response arrives, attempt
// returns an error.
func (r *restarts) attempt(process context.Context, to restartRoute) (ratelimits.Response, error) {
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	arrived := time.Now().Add(r.latency.RoundTrip/2 + r.latency.Jitter/2)
	defer context.AfterFunc(process, func() { time.AfterFunc(time.Until(arrived), cancel) })()
	return exchange(ctx, r.Server, to.method, to.path, to.body, 0)
}

// end ends the process and returns its state. A killed process leaves the state that it wrote some time before its end.
// If the process met a hidden limit after it wrote the state, the state lacks this limit. So no process is killed in a
// world with hidden limits.
func (r *restarts) end() []byte {
	if !r.hidden && r.chance.IntN(2) == 0 {
		state := r.write()
		r.busy(time.Duration(r.chance.IntN(3000)) * time.Millisecond)
		r.kill()
		require.NoError(r, r.manager.Close())
		return state
	}
	if r.chance.IntN(2) == 0 {
		r.write() // so that Close keeps the state
		require.NoError(r, r.manager.Close())
	} else {
		r.write()
		ctx, cancel := context.WithTimeout(background, time.Duration(r.chance.IntN(3000)+1)*time.Millisecond)
		defer cancel()
		_ = r.manager.Shutdown(ctx)
	}
	r.kill()
	return r.write()
}

// A program is restarted a thousand times: closed or killed, at once or after a pause, with requests in flight and with
// the clock set to another time. The program must cause no avoidable 429.
func TestThousandRestartsInTheMiddleOfWindowsCauseNoAvoidableRefusal(t *testing.T) {
	t.Parallel()
	const worlds, each = 100, 10
	for seed := range uint64(worlds) {
		subtest(t, strconv.FormatUint(seed, 10), func(t *testing.T) {
			r := newRestarts(t, seed)
			defer r.Close()
			r.start(nil)
			r.everyRoute()
			for range each {
				r.busy(time.Duration(r.chance.IntN(3000)) * time.Millisecond)
				state := r.end()
				time.Sleep([]time.Duration{0, 50 * time.Millisecond, time.Second, 7 * time.Second}[r.chance.IntN(4)])
				r.start(state)
			}
			r.busy(5 * time.Second)
			r.kill()
			require.NoError(t, r.manager.Close())
			r.all.Wait()
			for _, e := range r.Refusals() {
				if e.Verdict == discordsim.Avoidable {
					assert.Fail(t, "avoidable refusal", "%+v", e)
				}
			}
			assert.Greater(t, r.Report().Accepted, 5*each)
		})
	}
}
