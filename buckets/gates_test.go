package buckets_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// gate is a reason for which requests wait. When the requests in before have been answered and prepare has been called,
// every new request of the gate (see call) waits. prepare returns a function that lets these requests leave, together
// or one after the other. A gate without prepare opens by itself.
type gate struct {
	name    string
	options []buckets.Option
	before  []answered
	ordered bool
	fields  []string
	answer  ratelimits.Response // for requests that passed the gate; roomy if this is zero
	reason  buckets.WaitsFor
	after   time.Duration    // time until the gate opens by itself; 0 if not known
	class   ratelimits.Class // class of the 429 that closed the gate
	prepare func(t *testing.T, m *buckets.RESTBucketManager) (open func())
}

func (g gate) call(m *buckets.RESTBucketManager) *caller { return g.callWith(background, m) }

func (g gate) callWith(ctx context.Context, m *buckets.RESTBucketManager) *caller {
	if g.ordered {
		ctx = buckets.ContextWithOrdered(ctx)
	}
	return call(ctx, m, g.request())
}

func (g gate) request() buckets.Request {
	r := *request(message(1))
	if g.fields != nil {
		r.Fields = func() []string { return g.fields }
	}
	return r
}

// end answers a request that passed the gate.
func (g gate) end(c *caller) {
	if g.answer.Status == 0 {
		g.answer = roomy
	}
	c.update(g.answer)
}

// pass returns the open function of a gate that opens by itself after d.
func pass(d time.Duration) func() { return func() { wait(d) } }

// roomy is a response of a bucket with room for all requests of these tests.
var roomy = limited("messages", 100, 90, time.Minute)

// answered is an earlier request and its response.
type answered struct {
	request  buckets.Request
	response ratelimits.Response
}

// discoverAll sends requests one after the other and answers each with its response.
func discoverAll(t *testing.T, m *buckets.RESTBucketManager, all []answered) {
	t.Helper()
	for _, a := range all {
		answer(t, call(background, m, a.request), a.response)
	}
}

// roomyMessage is a request of channel 1 that gets a response of a bucket with room.
var roomyMessage = answered{*request(message(1)), roomy}

// gates lists all reasons for which requests wait.
var gates = []gate{
	{
		name:   "unknown route",
		reason: buckets.WaitsForProbe,
		prepare: func(t *testing.T, m *buckets.RESTBucketManager) func() {
			probe := ask(m, message(1))
			require.True(t, probe.granted())
			return func() { probe.update(roomy) }
		},
	},
	{
		name: "used up window", before: []answered{{*request(message(1)), limited("messages", 100, 0, 2*time.Second)}},
		reason: buckets.WaitsForWindow, after: 2*time.Second + time.Millisecond,
	},
	{
		name: "whole limit in flight", answer: limited("messages", 2, 1, time.Second),
		reason: buckets.WaitsForWindow,
		prepare: func(t *testing.T, m *buckets.RESTBucketManager) func() {
			discover(t, m, message(1), limited("messages", 2, 1, time.Second))
			last := ask(m, message(1))
			wait(3 * time.Second) // the window is over, but the server may count last in the next one
			other := ask(m, message(1))
			require.True(t, last.granted() && other.granted())
			return func() {
				last.update(limited("messages", 2, 1, time.Second))
				other.update(limited("messages", 2, 0, time.Second))
				wait(2 * time.Second)
			}
		},
	},
	{
		name: "earlier ordered request in flight", ordered: true, before: []answered{roomyMessage},
		reason: buckets.WaitsForOrdered,
		prepare: func(t *testing.T, m *buckets.RESTBucketManager) func() {
			first := gate{ordered: true}.call(m)
			require.True(t, first.granted())
			return func() { first.update(roomy) }
		},
	},
	{
		name: "global limit", options: []buckets.Option{buckets.WithGlobalLimit(1)}, before: []answered{roomyMessage},
		reason: buckets.WaitsForGlobal, after: time.Second,
	},
	{
		name: "global throttle", before: []answered{roomyMessage},
		reason: buckets.WaitsForGlobal, after: 2 * time.Second, class: ratelimits.ClassGlobal,
		prepare: func(t *testing.T, m *buckets.RESTBucketManager) func() {
			m.Throttle(2 * time.Second)
			return pass(2 * time.Second)
		},
	},
	{
		name:   "global 429",
		before: []answered{roomyMessage, {roomyMessage.request, refused(ratelimits.ClassGlobal, 2*time.Second)}},
		reason: buckets.WaitsForGlobal, after: 2*time.Second + time.Millisecond, class: ratelimits.ClassGlobal,
	},
	{
		name: "hold of the bucket", before: []answered{{roomyMessage.request, usedUp("messages", 100, time.Second)}},
		reason: buckets.WaitsForWindow, after: time.Second + time.Millisecond, class: ratelimits.ClassUser,
	},
	{
		name: "hold of the resource", before: []answered{sharedHold},
		reason: buckets.WaitsForShared, after: time.Second + time.Millisecond, class: ratelimits.ClassShared,
	},
	{
		name: "probe after a hold", before: []answered{sharedHold},
		reason: buckets.WaitsForProbe,
		prepare: func(t *testing.T, m *buckets.RESTBucketManager) func() {
			wait(2 * time.Second)
			probe := ask(m, message(1))
			require.True(t, probe.granted())
			return func() { probe.update(roomy) }
		},
	},
	{
		name: "declared limit", options: []buckets.Option{buckets.WithLimit(buckets.ForAll(), 1, 2*time.Second)},
		before: []answered{roomyMessage},
		reason: buckets.WaitsForDeclared, after: 2 * time.Second,
	},
	{
		name:   "edge",
		before: []answered{roomyMessage, {*request(list(2)), refused(ratelimits.ClassEdge, 2*time.Second)}},
		reason: buckets.WaitsForEdge, after: 2*time.Second + time.Millisecond, class: ratelimits.ClassEdge,
	},
	{
		name: "sub-limit", fields: []string{"name"}, before: []answered{roomyMessage, subLimitHold(2 * time.Second)},
		reason: buckets.WaitsForSubLimit, after: 2*time.Second + time.Millisecond, class: ratelimits.ClassSubLimit,
	},
}

// sharedHold is a request of channel 1 whose 429 holds the channel for a second.
var sharedHold = answered{
	roomyMessage.request, inBucket(refused(ratelimits.ClassShared, time.Second), "messages", 100, 90, time.Second),
}

// subLimitHold returns a request of channel 1 whose 429 holds, for d, the requests with the same field in their bodies.
func subLimitHold(d time.Duration) answered {
	return answered{renaming(1), inBucket(refused(ratelimits.ClassSubLimit, d), "messages", 100, 80, time.Minute)}
}

// forEachGate runs a test in a bubble for each gate, with a manager that the gate has prepared.
func forEachGate(t *testing.T, test func(t *testing.T, m *buckets.RESTBucketManager, g gate, open func())) {
	for _, g := range gates {
		subtest(t, g.name, func(t *testing.T) {
			m := started(t, g.options...)
			discoverAll(t, m, g.before)
			open := pass(g.after)
			if g.prepare != nil {
				open = g.prepare(t, m)
			}
			test(t, m, g, open)
		})
	}
}

// drive answers every granted request with roomy until all callers are done.
func drive(t *testing.T, all []*caller) {
	t.Helper()
	ended := make(map[*caller]bool)
	for round := 0; len(ended) < len(all); round++ {
		require.Less(t, round, 1000, "no request may wait for ever")
		for _, c := range all {
			if c.done() && !ended[c] {
				ended[c] = true
				c.update(roomy)
			}
		}
		if len(ended) < len(all) {
			wait(100 * time.Millisecond)
		}
	}
}

// An operator asks why a request waits and how long. Predict, errors, WaitingRequests, Buckets and hooks must all give
// the same answer.
func TestWhatIsWaitedForAndUntilWhen(t *testing.T) {
	t.Parallel()
	forEachGate(t, func(t *testing.T, m *buckets.RESTBucketManager, g gate, open func()) {
		var told ends
		m.AddHooks(told.hooks())
		for b := range m.Buckets() {
			require.Equal(t, buckets.WaitsForNothing, b.WaitsFor, "no request waits")
		}
		r := g.request()
		predicted, because := predict(t, m, &r)
		if !g.ordered { // Predict does not get the ordered option, which is in the context
			assert.Equal(t, g.reason, because)
		}
		if g.after > 0 {
			assert.Equal(t, g.after, predicted)
			refused := tooLong(t, g.callWith(buckets.ContextWithMaxWait(background, g.after/2), m))
			assert.Equal(t, g.class, refused.Class)
			assert.Equal(t, g.reason == buckets.WaitsForGlobal || g.reason == buckets.WaitsForEdge, refused.Global)
			assert.Equal(t, g.after, refused.Wait)
		}
		c := g.callWith(buckets.ContextWithMaxWait(background, max(g.after, time.Minute)), m)
		require.False(t, c.done())
		waiting := slices.Collect(m.WaitingRequests())
		require.Len(t, waiting, 1)
		assert.Equal(t, g.reason, waiting[0].WaitsFor)
		after := waiting[0].WaitAfter
		if g.after > 0 || g.reason != buckets.WaitsForWindow { // otherwise the wait also depends on requests in flight
			assert.Equal(t, g.after, after)
		}
		found := 0
		for b := range m.Buckets() {
			if b.Waiting == 0 {
				assert.Equal(t, buckets.WaitsForNothing, b.WaitsFor)
				continue
			}
			found++
			assert.Equal(t, g.reason, b.WaitsFor)
			assert.Equal(t, after, b.WaitAfter)
		}
		assert.Equal(t, 1, found)
		if g.after > 0 {
			wait(g.after - 2*time.Millisecond)
			require.False(t, c.done())
			wait(2 * time.Millisecond)
			require.True(t, c.granted(), "the request leaves when predicted")
		}
		open()
		require.True(t, c.granted())
		require.Len(t, told.all(), 1)
		assert.Equal(t, g.reason, told.all()[0].For)
	})
}

// A request that is exempt from the global limit waits behind a request that waits for that limit. When the request in
// front leaves the queue or is overtaken, the exempt request must leave at once.
func TestExemptRequestDoesNotStayInLineForOneThatLeft(t *testing.T) {
	t.Parallel()
	exempt, err := routes.New("POST", "/channels/{channel_id}/exempt-thing", routes.GlobalExempt)
	require.NoError(t, err)
	for _, how := range []string{"left", "overtaken"} {
		subtest(t, how, func(t *testing.T) {
			m := started(t, buckets.WithMaxRateLimit(time.Hour))
			discover(t, m, message(1), limited("h", 9, 8, time.Second))
			discover(t, m, compile(exempt, "1"), limited("h", 9, 7, time.Second))
			wait(2 * time.Second)
			m.Throttle(time.Minute)
			head := ask(m, message(1))
			require.False(t, head.done())
			ctx := background
			if how == "overtaken" {
				ctx = buckets.ContextWithPriority(ctx)
			}
			free := call(ctx, m, *request(compile(exempt, "1")))
			if how == "left" {
				require.False(t, free.done())
				head.cancel()
				synctest.Wait()
			}
			assert.True(t, free.granted(), "nothing holds the exempt request")
		})
	}
}

func TestEachAuthenticationHasTheGlobalLimitThatAFunctionNames(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		limits := map[string]int{"Bot large": 7, "Bot free": 0, "Bot small": 2, "": 2}
		m := started(t, buckets.WithUnknownMode(buckets.UnknownUnlimited), buckets.WithMaxRateLimit(0),
			buckets.WithGlobalLimitOf(func(authorization string) int { return limits[authorization] }))
		for authorization, limit := range limits {
			for i := range 20 {
				c := as(m, authorization, compile(routes.GetMyUser))
				if limit > 0 && i >= limit {
					assert.True(t, tooLong(t, c).Global)
				} else {
					assert.True(t, c.granted(), "number %d of %q", i, authorization)
				}
			}
		}
	})
}

// leavers lists which of five waiting callers (0 to 4) give up.
var leavers = map[string][]int{
	"nobody":    {},
	"the first": {0}, "one in the middle": {2}, "the last": {4}, "all but the last": {0, 1, 2, 3}, "all": {0, 1, 2, 3, 4},
}

// Some of five callers that wait at a gate give up: before the gate opens, while it opens, or afterwards. The other
// callers must not be affected.
func TestWaitersThatLeave(t *testing.T) {
	t.Parallel()
	for moment, play := range map[string]func(cancel, open func()){
		"before": func(cancel, open func()) {
			cancel()
			synctest.Wait()
			open()
		},
		"while": func(cancel, open func()) {
			opened := make(chan struct{})
			go func() {
				open()
				close(opened)
			}()
			for range 8 { // gates that open by themselves do so within milliseconds of a multiple of 500 ms
				go cancel()
				time.Sleep(500 * time.Millisecond)
			}
			<-opened
		},
		"after": func(cancel, open func()) {
			open()
			cancel()
		},
	} {
		for name, leaving := range leavers {
			t.Run(name+" leave "+moment, func(t *testing.T) {
				forEachGate(t, func(t *testing.T, m *buckets.RESTBucketManager, g gate, open func()) {
					waiting := leave(t, m, g, leaving, func(cancel func()) { play(cancel, open) })
					switch cancelled := int(m.Stats().Cancelled); moment {
					case "before":
						for _, i := range leaving {
							assert.ErrorIs(t, waiting[i].failed(), context.Canceled)
						}
						assert.Equal(t, len(leaving), cancelled)
					case "after":
						assert.Less(t, cancelled, 5, "the first caller had been granted before")
					}
				})
			})
		}
	}
}

// leave lets five callers wait at a gate. Then it calls the function how, whose argument cancels the callers whose
// numbers are in leaving. leave requires that the other callers are granted in order and that no request is left, and
// returns all five callers.
func leave(t *testing.T, m *buckets.RESTBucketManager, g gate, leaving []int, how func(cancel func())) []*caller {
	t.Helper()
	var waiting, staying []*caller
	gone := make(map[int]bool)
	for _, i := range leaving {
		gone[i] = true
	}
	for i := range 5 {
		waiting = append(waiting, g.call(m))
		if !gone[i] {
			staying = append(staying, waiting[i])
		}
	}
	require.Zero(t, granted(t, waiting))
	how(func() {
		for i := range gone {
			waiting[i].cancel()
		}
	})
	synctest.Wait()
	for _, i := range leaving {
		require.True(t, waiting[i].done())
		if waiting[i].failed() != nil {
			require.ErrorIs(t, waiting[i].failed(), context.Canceled)
		}
		if waiting[i].granted() {
			g.end(waiting[i])
		}
	}
	for ended := 0; ended < len(staying); wait(100 * time.Millisecond) {
		for n := granted(t, staying); ended < n; ended++ {
			g.end(staying[ended])
		}
	}
	drained(t, m)
	after := g.call(m)
	wait(time.Minute)
	require.True(t, after.granted(), "a later request is granted as if no caller had left")
	g.end(after)
	return waiting
}

// endsAsGranted is a context that ends at the moment at which its request is granted. As soon as the request begins to
// wait, Acquire calls Done, which calls the function end. This function makes room for the request and ends the
// context.
type endsAsGranted struct {
	context.Context
	end func()
}

func (c *endsAsGranted) Done() <-chan struct{} {
	c.end()
	return c.Context.Done()
}

// A request is granted at the moment at which its context ends. By chance, Acquire returns either the lease or the
// context's error. If it returns the error, the bucket must get the permit back.
func TestGrantAtTheEndOfTheContextIsGivenBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(2*time.Hour))
		discover(t, m, message(1), limited("messages", 2, 1, time.Hour))
		cancelled := 0
		for range 30 {
			last := ask(m, message(1))
			require.True(t, last.granted())
			ctx, cancel := context.WithCancel(background)
			lease, err := m.Acquire(&endsAsGranted{ctx, func() { last.lease.Return(); cancel() }}, message(1), bot)
			if err != nil {
				require.ErrorIs(t, err, context.Canceled)
				cancelled++
			}
			lease.Return()
			require.Equal(t, 1, snapshot(t, m, "messages").Remaining)
		}
		assert.NotZero(t, cancelled)
		assert.Zero(t, m.Stats().Lost)
	})
}
