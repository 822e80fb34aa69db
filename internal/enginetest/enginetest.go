// Package enginetest has one test suite for engines of shared limits, and one for runners of scripts. The suites test
// what package shared requires of them.
package enginetest

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
)

// Engine is an engine under test.
type Engine interface {
	shared.Engine
	shared.Subscriber
	// Set stores any text under a key without an expiry, even a text that is not a value of the protocol.
	Set(key, text string)
	// SetForeign stores a value that is not a text under a key.
	SetForeign(key string)
}

// Run tests an engine. For each test, it calls the function with, which must call the test with an empty engine. In a
// bubble of testing/synctest the tests take no time. Otherwise, all tests together take about two seconds.
func Run(t *testing.T, with func(t *testing.T, test func(t *testing.T, e Engine))) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			with(t, func(t *testing.T, e Engine) {
				if c.before != nil {
					c.before(e)
				}
				for i, x := range c.exchanges {
					x.run(t, e, i)
				}
			})
		})
	}
	for name, test := range map[string]func(*testing.T, Engine){
		"messages": messages, "time": clock, "one moment": oneMoment, "ended context": endedContext,
	} {
		t.Run(name, func(t *testing.T) { with(t, test) })
	}
}

// exchange is a call and its expected result.
type exchange struct {
	after  time.Duration // how long to wait before the call
	latest time.Duration // NotAfter minus the time of the engine's clock; 0: no NotAfter
	guard  string
	steps  []shared.Step
	want   []shared.Loaded // the Life of a value may be a little shorter
	late   bool
	wrong  string // the key of the expected KeyError; "": no error
}

const (
	a, b = "{enginetest}:a", "{enginetest}:b"
	life = time.Minute
)

func load(key string) shared.Step { return shared.Step{Key: key} }

func replace(key, version, value string) shared.Step {
	return shared.Step{Key: key, Version: version, Value: value, Life: life}
}

func replaceAny(key, value string) shared.Step {
	return shared.Step{Key: key, Any: true, Value: value, Life: life}
}

func steps(all ...shared.Step) []shared.Step { return all }

// left is the result of a step that has found this value and not replaced it.
func left(value string) shared.Loaded { return shared.Loaded{Value: value, Life: life} }

var (
	nothing  = shared.Loaded{}
	first    = shared.Loaded{Replaced: true}             // there was no value
	replaced = shared.Loaded{Replaced: true, Life: life} // there was a value
	every    = func() string {
		var b strings.Builder
		for range 10 {
			for i := range 256 {
				b.WriteByte(byte(i))
			}
		}
		return b.String()
	}()
)

func results(all ...shared.Loaded) []shared.Loaded { return all }

var cases = []struct {
	name      string
	before    func(e Engine)
	exchanges []exchange
}{
	{name: "load", exchanges: []exchange{
		{steps: steps(load(a)), want: results(nothing)},
		{steps: steps(replace(a, "", "v1 x")), want: results(first)},
		{steps: steps(load(a), load(b)), want: results(left("v1 x"), nothing)},
	}},
	{name: "replace", exchanges: []exchange{
		{steps: steps(replace(a, "v1", "v2 y")), want: results(nothing)},
		{steps: steps(replace(a, "", "v1 x")), want: results(first)},
		{steps: steps(replace(a, "", "v2 y")), want: results(left("v1 x"))},
		{steps: steps(replace(a, "v", "v2 y")), want: results(left("v1 x"))},
		{steps: steps(replace(a, "v1 x", "v2 y")), want: results(left("v1 x"))},
		{steps: steps(replace(a, "v1", "v2 y")), want: results(replaced)},
		{steps: steps(load(a)), want: results(left("v2 y"))},
	}},
	{name: "any", exchanges: []exchange{
		{steps: steps(replaceAny(a, "v1 x")), want: results(first)},
		{steps: steps(replaceAny(a, "v2 y")), want: results(replaced)},
		{steps: steps(replaceAny(a, "")), want: results(left("v2 y"))},
		{steps: steps(replace(a, "v2", "")), want: results(left("v2 y"))},
	}},
	{name: "bytes", exchanges: []exchange{
		{steps: steps(replace(a, "", "v1 "+every)), want: results(first)},
		{steps: steps(load(a)), want: results(left("v1 " + every))},
		{steps: steps(replace(a, "v1", "v2 ")), want: results(replaced)},
		{steps: steps(load(a)), want: results(left("v2 "))},
	}},
	{name: "one step after the other", exchanges: []exchange{
		{steps: steps(load(a), replace(a, "", "v1 x"), load(a), replace(a, "v1", "v2 y"), load(a), replace(a, "v1", "v3 z")),
			want: results(nothing, first, left("v1 x"), replaced, left("v2 y"), left("v2 y"))},
		{steps: steps(load(a)), want: results(left("v2 y"))},
	}},
	{name: "guard", exchanges: []exchange{
		{guard: "v1", steps: steps(load(a), replace(b, "", "v1 x")), want: results(nothing)},
		{guard: "v1", steps: steps(replace(a, "", "v1 x"), replace(b, "", "v1 x")), want: results(first, first)},
		{guard: "v1", steps: steps(load(a), replace(b, "v1", "v2 y"), load(b)),
			want: results(left("v1 x"), replaced, left("v2 y"))},
		{guard: "v1", steps: steps(replace(a, "v1", "v2 y"), replace(b, "v2", "v3 z"), load(b)), want: results(replaced)},
		{guard: "v3", steps: steps(replace(a, "v1", "v3 z"), replace(b, "v2", "v3 z")), want: results(left("v2 y"))},
		{guard: "v2", steps: steps(replace(a, "v1", "v3 z"), replace(b, "v1", "v3 z"), load(b)),
			want: results(left("v2 y"), left("v2 y"), left("v2 y"))},
	}},
	{name: "not after", exchanges: []exchange{
		{latest: time.Hour, steps: steps(replace(a, "", "v1 x")), want: results(first)},
		{latest: -10 * time.Millisecond, steps: steps(replace(a, "v1", "v2 y")), late: true},
		{steps: steps(load(a)), want: results(left("v1 x"))},
	}},
	{name: "life", exchanges: []exchange{
		{steps: steps(shared.Step{Key: a, Value: "v1 x", Life: 400 * time.Millisecond}, replace(b, "", "v1 x")),
			want: results(first, first)},
		{after: 100 * time.Millisecond, steps: steps(load(a)),
			want: results(shared.Loaded{Value: "v1 x", Life: 300 * time.Millisecond})},
		{after: 310 * time.Millisecond, steps: steps(load(a), load(b)),
			want: results(nothing, shared.Loaded{Value: "v1 x", Life: life - 410*time.Millisecond})},
		{steps: steps(replace(a, "v1", "v2 y")), want: results(nothing)},
		{steps: steps(shared.Step{Key: a, Value: "v2 y", Life: 200 * time.Millisecond}), want: results(first)},
		{steps: steps(replace(a, "v2", "v3 z")), want: results(shared.Loaded{Replaced: true, Life: 200 * time.Millisecond})},
		{after: 250 * time.Millisecond, steps: steps(load(a)),
			want: results(shared.Loaded{Value: "v3 z", Life: life - 250*time.Millisecond})},
		{steps: steps(shared.Step{Key: b, Any: true, Value: "v2 y", Life: 100 * time.Millisecond}),
			want: results(shared.Loaded{Replaced: true, Life: life - 660*time.Millisecond})},
		{after: 110 * time.Millisecond, steps: steps(load(b)), want: results(nothing)},
	}},
	{name: "another type", before: func(e Engine) { e.SetForeign(b) }, exchanges: []exchange{
		{steps: steps(load(b)), wrong: b},
		{steps: steps(replaceAny(b, "v1 x")), wrong: b},
		{steps: steps(load(a), load(b)), wrong: b},
		{guard: "v1", steps: steps(load(a), load(b)), want: results(nothing)},
		{steps: steps(replace(a, "", "v1 x")), want: results(first)},
	}},
	{name: "no version", before: func(e Engine) { e.Set(a, "mine"); e.Set(b, " mine") }, exchanges: []exchange{
		{steps: steps(load(a)), wrong: a},
		{steps: steps(load(b)), wrong: b},
		{steps: steps(replace(a, "", "v1 x")), wrong: a},
		{steps: steps(replaceAny(b, "v1 x")), wrong: b},
	}},
	{name: "value without an end", before: func(e Engine) { e.Set(a, "v1 x") }, exchanges: []exchange{
		{steps: steps(load(a)), want: results(shared.Loaded{Value: "v1 x"})},
		{steps: steps(replace(a, "v1", "v2 y")), want: results(first)},
		{steps: steps(load(a)), want: results(left("v2 y"))},
	}},
}

// slack is how long all calls of one case may take together.
const slack = 80 * time.Millisecond

func (x *exchange) run(t *testing.T, e Engine, number int) {
	t.Helper()
	time.Sleep(x.after)
	call := &shared.Call{Purpose: "test", Guard: x.guard, Steps: x.steps}
	if x.latest != 0 {
		call.NotAfter = now(t, e) + x.latest
	}
	reply, err := e.Exchange(t.Context(), call)
	if x.wrong != "" {
		var wrong *shared.KeyError
		require.ErrorAs(t, err, &wrong, "call %d", number)
		assert.Equal(t, x.wrong, wrong.Key, "call %d", number)
		assert.NotEmpty(t, wrong.Problem, "call %d", number)
		return
	}
	require.NoError(t, err, "call %d", number)
	assert.Equal(t, x.late, reply.Late, "call %d", number)
	require.Len(t, reply.Values, len(x.want), "call %d", number)
	for i, is := range reply.Values {
		want := x.want[i]
		assert.LessOrEqual(t, is.Life, want.Life, "call %d, step %d", number, i)
		assert.GreaterOrEqual(t, is.Life, max(want.Life-slack, 0), "call %d, step %d", number, i)
		is.Life, want.Life = 0, 0
		assert.Equal(t, want, is, "call %d, step %d", number, i)
	}
}

// now returns the time of the engine's clock.
func now(t *testing.T, e Engine) time.Duration {
	t.Helper()
	reply, err := e.Exchange(t.Context(), &shared.Call{Purpose: "test", Steps: steps(load(a))})
	require.NoError(t, err)
	return reply.Time
}

func messages(t *testing.T, e Engine) {
	const ours, others = "{enginetest}:ours", "{enginetest}:others"
	ctx, cancel := context.WithCancel(t.Context())
	received := make(chan string, 100)
	ended := make(chan error)
	go func() { ended <- e.Subscribe(ctx, ours, func(message string) { received <- message }) }()
	send := func(message string, step shared.Step) {
		t.Helper()
		step.Message, step.Channels = message, []string{others, ours}
		_, err := e.Exchange(t.Context(), &shared.Call{Purpose: "test", Steps: steps(step)})
		require.NoError(t, err)
	}
	ready := false
	for range 100 { // until the subscription works
		send("ready ", replaceAny(b, "v1 x"))
		select {
		case message := <-received:
			ready = assert.Equal(t, "ready v1 x", message)
		case <-time.After(20 * time.Millisecond):
		}
		if ready {
			break
		}
	}
	require.True(t, ready, "no message was received")
	send("loads ", load(a))
	send("replaces ", replace(a, "", "v1 x"))
	send("does not ", replace(a, "", "v2 y"))
	send("", replace(a, "v1", "v2 "+every))
	_, err := e.Exchange(t.Context(), &shared.Call{
		Purpose: "test", Steps: steps(shared.Step{Key: a, Any: true, Value: "v3 z", Life: life, Channels: []string{others}}),
	})
	require.NoError(t, err)
	send("ends ", replaceAny(a, "v4 x"))
	for _, want := range []string{"replaces v1 x", "v2 " + every, "ends v4 x"} {
		select {
		case message := <-received:
			assert.Equal(t, want, message)
		case <-time.After(time.Second):
			assert.Fail(t, "lost", "%.10q", want)
		}
	}
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

func clock(t *testing.T, e Engine) {
	before := now(t, e)
	assert.Positive(t, before)
	start := time.Now()
	time.Sleep(300 * time.Millisecond)
	took := now(t, e) - before
	assert.InDelta(t, time.Since(start), took, float64(slack))
}

// oneMoment tests that calls are atomic: of many concurrent calls, exactly one finds a value under neither of the two
// keys.
func oneMoment(t *testing.T, e Engine) {
	var mu sync.Mutex
	var all sync.WaitGroup
	wins, seen := 0, ""
	for range 20 {
		all.Go(func() {
			both := steps(replace(a, "", "v1 x"), replaceAny(b, "v1 x"))
			reply, err := e.Exchange(t.Context(), &shared.Call{Purpose: "test", Steps: both})
			mu.Lock()
			defer mu.Unlock()
			if !assert.NoError(t, err) || !assert.Len(t, reply.Values, 2) {
				return
			}
			if reply.Values[0].Replaced {
				wins++
				assert.Zero(t, reply.Values[1].Life, "the call that finds no value of one key finds none of the other key")
			}
			seen += reply.Values[0].Value
		})
	}
	all.Wait()
	assert.Equal(t, 1, wins)
	assert.Equal(t, strings.Repeat("v1 x", 19), seen)
}

func endedContext(t *testing.T, e Engine) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := e.Exchange(ctx, &shared.Call{Purpose: "test", Steps: steps(load(a))})
	require.ErrorIs(t, err, context.Canceled)
}
