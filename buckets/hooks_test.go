package buckets_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
)

func TestHooksAreToldWhatHappens(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		var m *buckets.RESTBucketManager
		var waiting []buckets.Waiting
		var held []buckets.Held
		var budget []buckets.BudgetUsed
		var collected []buckets.Collected
		m = started(t, buckets.WithInvalidBudget(4, time.Hour, 0), buckets.WithHooks(buckets.Hooks{
			Waiting: func(w buckets.Waiting) {
				m.Stats() // no lock is held
				for range m.Buckets() {
				}
				waiting = append(waiting, w)
			},
			Held: func(h buckets.Held) {
				for range m.Buckets() {
				}
				held = append(held, h)
			},
			BudgetUsed: func(b buckets.BudgetUsed) { budget = append(budget, b) },
			Collected:  func(c buckets.Collected) { collected = append(collected, c) },
		}))
		const route = "POST /channels/{channel_id}/messages"
		discover(t, m, message(1), limited("messages", 2, 1, 10*time.Second))
		assert.Empty(t, waiting)
		together := asks(m, message(1), 1)
		assert.Empty(t, waiting, "there was a place")
		queued := ask(m, message(1))
		require.Len(t, waiting, 1)
		assert.Equal(t, buckets.Waiting{Route: route, Wait: 10*time.Second + time.Millisecond}, waiting[0])

		for _, c := range together {
			c.update(refused(ratelimits.ClassUser, 20*time.Second))
		}
		assert.Equal(t, []buckets.Held{{Class: ratelimits.ClassUser, Route: route, Wait: 20*time.Second + time.Millisecond}}, held)
		m.Throttle(time.Second)
		assert.Equal(t, buckets.Held{Class: ratelimits.ClassGlobal, Wait: time.Second}, held[1])

		ask(m, callback(1)).update(plain(401))
		require.Len(t, budget, 1)
		assert.Equal(t, buckets.BudgetUsed{Used: 2, Limit: 4, Period: time.Hour, Fraction: 0.5}, budget[0])
		ask(m, callback(1)).update(plain(401))
		require.Len(t, budget, 2)
		assert.InDelta(t, 0.75, budget[1].Fraction, 0)

		queued.cancel()
		wait(2 * time.Minute)
		require.NotEmpty(t, collected)
		assert.Zero(t, collected[len(collected)-1].Left)
	})
}

// One refusal after the other that were in flight together are one hold, and one warning.
func TestThereIsOneWarningForEachNewHold(t *testing.T) {
	t.Parallel()
	for _, class := range []ratelimits.Class{
		ratelimits.ClassUser, ratelimits.ClassShared, ratelimits.ClassSubLimit, ratelimits.ClassGlobal, ratelimits.ClassEdge,
	} {
		t.Run(class.String(), func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T) {
				var log bytes.Buffer
				m := started(t, buckets.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
				discover(t, m, message(1), roomy)
				for range 2 {
					together := asks(m, message(1), 3)
					for i, c := range together {
						require.True(t, c.granted())
						c.update(inBucket(refused(class, time.Duration(2+i)*time.Second), "messages", 100, 80, time.Minute))
					}
					wait(2 * time.Minute)
					probe := ask(m, message(1))
					require.True(t, probe.granted())
					probe.update(roomy)
				}
				assert.Equal(t, 2, strings.Count(log.String(), "level=WARN"), log.String())
				assert.Contains(t, log.String(), "class="+class.String())
			})
		})
	}
}

func TestDebuggingIsForALoggerThatWantsIt(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		var log bytes.Buffer
		m := started(t, buckets.WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))))
		discover(t, m, message(1), limited("messages", 1, 0, time.Second))
		queued := ask(m, message(1))
		assert.Contains(t, log.String(), "level=DEBUG")
		assert.NotContains(t, log.String(), "WARN")
		wait(2 * time.Second)
		queued.update(roomy)
		wait(3 * time.Minute)
		assert.Contains(t, log.String(), "evicted=")
	})
}

// Not parallel, because it replaces the default logger.
func TestWarningsGoToTheDefaultLoggerUnlessThereIsNone(t *testing.T) {
	before := slog.Default()
	defer slog.SetDefault(before)
	for name, c := range map[string]struct {
		options  []buckets.Option
		warnings int
	}{
		"default": {nil, 1},
		"none":    {[]buckets.Option{buckets.WithLogger(nil)}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			slog.SetDefault(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
			bubble(t, func(t *testing.T) {
				m := started(t, c.options...)
				discover(t, m, message(1), roomy)
				ask(m, message(1)).update(refused(ratelimits.ClassUser, time.Second))
				ask(m, message(1)).cancel()
			})
			assert.Equal(t, c.warnings, strings.Count(log.String(), "WARN"))
			assert.Zero(t, strings.Count(log.String(), "DEBUG"), "those are only for a logger that was given")
		})
	}
}

// A panic of the caller's own function must not take anything with it.
func TestPanicsOfTheCallersFunctionsLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		m := started(t, buckets.WithHooks(buckets.Hooks{Waiting: func(buckets.Waiting) { panic("of the hook") }}))
		probe := ask(m, message(1))
		func() {
			defer func() { assert.Equal(t, "of the hook", recover()) }()
			_, _ = m.Acquire(t.Context(), message(1), bot)
		}()
		probe.update(roomy)
		assert.Zero(t, m.Stats().Waiting)
		assert.Zero(t, m.Stats().InFlight)

		request := buckets.Request{Route: message(1), Authorization: bot, Fields: func() []string { panic("of the fields") }}
		lease, err := m.AcquireRequest(t.Context(), &request)
		require.NoError(t, err)
		lease.Update(inBucket(refused(ratelimits.ClassSubLimit, time.Second), "messages", 100, 80, time.Minute))
		assert.Zero(t, m.Stats().InFlight)
		drained(t, m)
	})
}

// A hook that takes its time takes no permit with it.
func TestSlowHookDelaysOnlyItsOwnRequest(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		m := started(t, buckets.WithHooks(buckets.Hooks{Waiting: func(buckets.Waiting) { time.Sleep(time.Minute) }}))
		discover(t, m, message(1), limited("messages", 1, 0, time.Second))
		slow := patient(m, 5*time.Second)
		wait(10 * time.Second)
		quick := ask(m, message(1))
		assert.True(t, quick.granted())
		quick.update(limited("messages", 1, 0, time.Second))
		wait(2 * time.Minute)
		assert.Equal(t, true, slow.done())
		if slow.granted() {
			slow.update(roomy)
		}
	})
}

// Whoever gives up while a hook is told of the wait gets no lease, although there is room by then.
func TestContextThatEndsInAHookEndsTheRequest(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(background)
		var first *caller
		m := started(t, buckets.WithHooks(buckets.Hooks{Waiting: func(buckets.Waiting) {
			cancel()
			first.lease.Return() // so there is room
		}}))
		discover(t, m, message(1), limited("messages", 1, 0, time.Second))
		wait(2 * time.Second)
		first = ask(m, message(1))
		require.True(t, first.granted())
		lease, err := m.Acquire(ctx, message(1), bot)
		lease.Return()
		assert.ErrorIs(t, err, context.Canceled)
		drained(t, m)
	})
}
