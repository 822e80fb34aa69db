package shared_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// refused records the error of a rejected request, and after how long it came.
type refused struct {
	err  error
	took time.Duration
}

// acquire acquires a lease from one manager, and returns it at once.
func (f *fleet) acquire(ctx context.Context, manager, channel int) refused {
	return f.acquireRoute(ctx, manager, "/channels/"+strconv.Itoa(channel)+"/messages")
}

func (f *fleet) acquireRoute(ctx context.Context, manager int, path string) refused {
	start := time.Now()
	route, err := routes.Match("POST", path)
	if err != nil {
		return refused{err: err}
	}
	lease, err := f.managers[manager].Acquire(ctx, route, "Bot a")
	if err == nil {
		lease.Return()
	}
	return refused{err, time.Since(start)}
}

// started acquires in the background.
func (f *fleet) started(ctx context.Context, manager, channel int) *refused {
	return f.startedRoute(ctx, manager, "/channels/"+strconv.Itoa(channel)+"/messages")
}

func (f *fleet) startedRoute(ctx context.Context, manager int, path string) *refused {
	r := &refused{took: -1}
	f.all.Go(func() { *r = f.acquireRoute(ctx, manager, path) })
	synctest.Wait()
	return r
}

func within(d time.Duration) context.Context {
	return buckets.ContextWithMaxWait(context.Background(), d)
}

// outage requires that a request waited for the given time, and that its error says that the server is unavailable.
func (r *refused) outage(t *testing.T, took time.Duration) {
	t.Helper()
	assert.InDelta(t, took, r.took, float64(50*ms))
	var tooLong *ratelimits.TooLongError
	var away *shared.OutageError
	require.ErrorAs(t, r.err, &tooLong)
	require.ErrorAs(t, r.err, &away)
	require.ErrorIs(t, r.err, shared.ErrOutage)
	assert.Equal(t, took, tooLong.Max)
	assert.Contains(t, r.err.Error(), "shared limits are unavailable since")
}

// both returns two managers that have just used the same bucket.
func (w *world) both(options ...shared.Option) *fleet {
	f := w.whole(2, oneRule(discordsim.Rule{Hash: "h", Quota: discordsim.Fixed(5, time.Second)}, near), options...)
	for i := range 6 {
		require.NoError(w.t, f.post(context.Background(), i%2, 1))
	}
	return f
}

func TestDuringAnOutageARequestWaitsAsLongAsItMay(t *testing.T) {
	for name, away := range map[string]func(w *world, away bool){
		"frozen": func(w *world, away bool) { w.server.SetFrozen(away) },
		"down":   func(w *world, away bool) { w.server.SetDown(away) },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				f := w.both()
				defer f.close()
				away(w, true)
				pass(5 * time.Second) // loans and parts are over
				var all []*refused
				longest := []time.Duration{300 * ms, 700 * ms, time.Second, 2500 * ms, 4 * time.Second}
				for _, d := range longest {
					all = append(all, f.started(within(d), 0, 1), f.started(within(d), 1, 1))
					all = append(all, f.started(within(d), 1, 2)) // a bucket that it does not know
				}
				deadline, cancel := context.WithTimeout(context.Background(), 2*time.Second)
				defer cancel()
				last := f.started(deadline, 0, 1)
				pass(20 * time.Second)
				for i, r := range all {
					r.outage(t, longest[i/3])
				}
				last.outage(t, 2*time.Second)
				assert.ErrorIs(t, last.err, context.DeadlineExceeded)
				patient := f.started(within(5*time.Second), 0, 1)
				pass(1500 * ms)
				away(w, false)
				pass(200 * ms)
				for range 5 {
					r := f.acquire(within(3*time.Second), 1, 1)
					assert.NoError(t, r.err, "after %v", r.took)
				}
				assert.NoError(t, f.post(within(5*time.Second), 0, 1))
				f.all.Wait()
				assert.NoError(t, patient.err)
			})
		})
	}
}

func TestDuringAnOutageWhoWaitsForTheGlobalLimitWaitsAsLongAsItMay(t *testing.T) {
	inWorld(t, func(w *world) {
		f := w.whole(1, busy())
		defer f.close()
		require.NoError(t, f.post(context.Background(), 0, 1))
		pass(30 * time.Second) // its part is given back
		require.NoError(t, f.post(context.Background(), 0, 1))
		w.server.SetFrozen(true)
		pass(5 * time.Second)
		var all []*refused
		for channel := range 3 {
			all = append(all, f.started(within(1500*ms), 0, channel))
		}
		pass(5 * time.Second)
		for _, r := range all {
			r.outage(t, 1500*ms)
		}
	})
}

func TestDuringAnOutageWhoWaitsForADiscoveryWaitsAsLongAsItMay(t *testing.T) {
	inWorld(t, func(w *world) {
		f := w.whole(1, busy())
		defer f.close()
		w.server.SetFrozen(true)
		early := f.started(within(2300*ms), 0, 1)
		pass(3 * time.Second)
		late := f.started(within(800*ms), 0, 1)
		pass(3 * time.Second)
		early.outage(t, 2300*ms)
		late.outage(t, 800*ms)
	})
}

func TestAKeyThatWasMendedIsNoticedWhileRequestsCome(t *testing.T) {
	for _, kind := range []string{"b", "e"} {
		t.Run(kind, func(t *testing.T) {
			inWorld(t, func(w *world) {
				f := w.both()
				defer f.close()
				pass(5 * time.Second) // no loans
				wrong := "rl2:{default}:" + kind
				if kind == "b" {
					wrong = w.bucketKey(kind)
				}
				right := w.server.Value(wrong)
				require.NotEmpty(t, right)
				w.server.Set(wrong, "mine")
				var problem *shared.KeyError
				for range 15 {
					require.ErrorAs(t, f.acquire(context.Background(), 0, 1).err, &problem)
					pass(300 * ms)
				}
				before := f.links[0].called()
				for range 20 {
					require.ErrorAs(t, f.acquire(context.Background(), 0, 1).err, &problem)
					pass(50 * ms)
				}
				assert.LessOrEqual(t, f.links[0].called()-before, 6, "it is asked for once a second")
				w.server.Set(wrong, right)
				start := w.now()
				for f.acquire(context.Background(), 0, 1).err != nil {
					require.Less(t, w.now()-start, 3*time.Second)
					pass(50 * ms)
				}
				assert.LessOrEqual(t, w.now()-start, 1300*ms)
			})
		})
	}
}

// bucketKey returns the key of that kind of the bucket of both.
func (w *world) bucketKey(kind string) string {
	w.t.Helper()
	credential := ""
	for _, key := range w.server.Keys() {
		if rest, ok := strings.CutPrefix(key, "rl2:{default}:g:"); ok {
			credential = rest
		}
	}
	require.NotEmpty(w.t, credential)
	return "rl2:{default}:" + kind + ":" + credential + "/h/1"
}

func TestWhoDoesNotWaitIsRefusedWithinACallAndInAnOutageAtOnce(t *testing.T) {
	const call = 400 * ms
	inWorld(t, func(w *world) {
		f := w.both(shared.WithCallTimeout(call))
		defer f.close()
		pass(5 * time.Second) // no loans
		w.server.SetFrozen(true)
		known, unknown := f.started(within(0), 0, 1), f.startedRoute(within(0), 1, "/channels/9/typing")
		pass(100 * ms)
		second := f.started(within(0), 0, 1) // while a call is under way
		pass(2 * time.Second)
		var tooLong *ratelimits.TooLongError
		for _, r := range []*refused{known, unknown, second} {
			require.ErrorAs(t, r.err, &tooLong)
			assert.LessOrEqual(t, r.took, call+20*ms)
		}
		pass(10 * time.Second) // parts are over
		for _, path := range []string{"/channels/1/messages", "/channels/2/messages", "/channels/9/typing", "/channels/9/pins"} {
			r := f.acquireRoute(within(0), 0, path)
			r.outage(t, 0)
			assert.Zero(t, r.took)
		}
		waits := f.started(within(3*time.Second), 0, 1)
		r := f.acquire(within(0), 0, 1)
		r.outage(t, 0)
		pass(4 * time.Second)
		waits.outage(t, 3*time.Second)
	})
}

func TestWhoDoesNotWaitIsRefusedWhenTheGlobalLimitCannotBeAskedFor(t *testing.T) {
	inWorld(t, func(w *world) {
		f := w.whole(1, busy(), shared.WithCallTimeout(400*ms))
		defer f.close()
		require.NoError(t, f.post(context.Background(), 0, 1))
		pass(30 * time.Second) // its part is given back, and the bucket is not lent
		w.server.SetFrozen(true)
		for range 5 {
			r := f.acquire(within(0), 0, 1)
			require.Error(t, r.err)
			assert.LessOrEqual(t, r.took, 420*ms)
		}
	})
}
