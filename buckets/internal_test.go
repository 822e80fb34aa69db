package buckets

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/internal/fifo"
	"github.com/ratelight/ratelight/routes"
)

// Two queues swap their places in a line. The turn that one queue has at the global limit must not move to the other
// queue.
func TestQueuesThatChangePlacesKeepTheirTurnsElsewhere(t *testing.T) {
	t.Parallel()
	gate, own, other := &turns{}, &queue{}, &queue{}
	own.place.turn = turn{of: gate, tenant: gate.tenant(tenantKey{}), start: 5 * turnTime}
	l := &line{}
	for i, q := range []*queue{own, other} {
		q.place.Element = fifo.Element[*queue]{Value: q, Arrived: time.Duration(1 + i)}
		l.queues.Insert(&q.place.Element)
	}
	l.swap(own, other)
	assert.Equal(t, other, l.first())
	assert.Equal(t, 5*turnTime, own.place.start)
	assert.Zero(t, other.place.turn)
}

// canLeave must not overflow with the largest limits and periods.
func TestWhatAnExtremeWindowLetsLeave(t *testing.T) {
	t.Parallel()
	for _, period := range []time.Duration{time.Millisecond, time.Second, 24 * time.Hour} {
		for _, limit := range []int{1, 5, 50_000_000, maxDeclaredLimit} {
			var s source
			s.window.Declare(limit, period)
			assert.Equal(t, 1000, s.canLeave(0, longestWait, 1000), "%d in %v", limit, period)
			s.window.Hold(0, time.Hour)
			assert.Equal(t, 1000, s.canLeave(0, longestWait, 1000), "%d in %v, held", limit, period)
			assert.Zero(t, s.canLeave(0, time.Minute, 1000), "%d in %v, held", limit, period)
		}
	}
}

func TestSnowflakesAreNumbersInDiscordsForm(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]uint64{
		"1": 1, "175928847299117063": 175928847299117063, "1234567890123456789": 1234567890123456789,
		"9223372036854775807": 1<<63 - 1,
		"0":                   0, "01": 0, "9223372036854775808": 0, "99999999999999999999": 0,
		"me": 0, "1x": 0, "12345678901234567890x": 0, "+1": 0, "": 0,
	} {
		assert.Equal(t, want, snowflake(id), id)
	}
}

// The manager reuses the Request that it makes for Acquire, so the lease of Acquire must not refer to that Request. A
// lease of AcquireRequest refers to the caller's own Request.
func TestLeaseOfAcquireKeepsNoRequest(t *testing.T) {
	t.Parallel()
	m := NewRESTBucketManager()
	require.NoError(t, m.Start())
	defer m.Close()
	route := channel(routes.CreateMessage, 0)
	lease, err := m.Acquire(t.Context(), route, "Bot one")
	require.NoError(t, err)
	assert.Nil(t, lease.held.request)
	lease.Return()
	request := Request{Route: route, Authorization: "Bot one"}
	lease, err = m.AcquireRequest(t.Context(), &request)
	require.NoError(t, err)
	assert.Same(t, &request, lease.held.request)
	lease.Return()
}

// A waiter that goes back to the pool must contain nothing of its request, such as the token.
func TestWaiterThatIsKeptForOthersIsEmpty(t *testing.T) {
	t.Parallel()
	var pool waiterPool
	w := pool.get()
	w.own = &Request{Authorization: "Bot one"}
	w.request, w.held = w.own, &held{}
	pool.put(w)
	assert.Equal(t, &waiter{ready: w.ready, own: &Request{}}, w)
}

func TestEveryHookIsCalledThatWasAdded(t *testing.T) {
	t.Parallel()
	for i := range reflect.TypeFor[Hooks]().NumField() {
		var called []string
		hooks := func(name string) (h Hooks) {
			field := reflect.ValueOf(&h).Elem().Field(i)
			field.Set(reflect.MakeFunc(field.Type(),
				func([]reflect.Value) []reflect.Value { called = append(called, name); return nil }))
			return h
		}
		m := NewRESTBucketManager(WithHooks(hooks("first")))
		m.AddHooks(Hooks{})
		m.AddHooks(hooks("second"))
		hook := reflect.ValueOf(m.hooks.Load()).Elem().Field(i)
		arguments := make([]reflect.Value, hook.Type().NumIn())
		for j := range arguments {
			arguments[j] = reflect.Zero(hook.Type().In(j))
		}
		hook.Call(arguments)
		assert.Equal(t, []string{"first", "second"}, called, reflect.TypeFor[Hooks]().Field(i).Name)
	}
}
