package buckets_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
)

// leavers lists which of five waiting callers (0 to 4) give up.
var leavers = map[string][]int{
	"nobody": {}, "the first": {0}, "one in the middle": {2}, "the last": {4}, "all but the last": {0, 1, 2, 3}, "all": {0, 1, 2, 3, 4},
}

// Some of five callers that wait at a gate give up: before the gate opens, at that moment, or afterwards. The other
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
			for range 8 { // timed gates open within milliseconds of a multiple of 500 ms
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

// leave lets five callers wait at a gate and calls how, with a function that cancels the callers that leaving lists. It
// requires that the other callers are granted in order and that no request is left, and returns all five callers.
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

// endsAsGranted is a context that ends when its request is granted: end does both, as soon as the request begins to
// wait and Acquire calls Done.
type endsAsGranted struct {
	context.Context
	end func()
}

func (c *endsAsGranted) Done() <-chan struct{} {
	c.end()
	return c.Context.Done()
}

// A request is granted at the moment in which its context ends. Acquire returns either result, by chance; if it returns
// the context's error, the bucket must get the permit back.
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
