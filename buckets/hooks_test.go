package buckets_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

func TestHooksAreToldWhatHappens(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var m *buckets.RESTBucketManager
		var waiting []buckets.Waiting
		var held []buckets.Held
		var budget []buckets.BudgetUsed
		var collected []buckets.Collected
		m = started(t, buckets.WithInvalidBudget(4, time.Hour, 0), buckets.WithHooks(buckets.Hooks{
			Waiting: func(_ context.Context, w buckets.Waiting) {
				m.Stats() // possible, because no lock is held
				for range m.Buckets() {
				}
				waiting = append(waiting, w)
			},
			Held: func(_ context.Context, h buckets.Held) {
				for range m.Buckets() {
				}
				held = append(held, h)
			},
			BudgetUsed: func(_ context.Context, b buckets.BudgetUsed) { budget = append(budget, b) },
			Collected:  func(c buckets.Collected) { collected = append(collected, c) },
		}))
		const route = "POST /channels/{channel_id}/messages"
		discover(t, m, message(1), limited("messages", 2, 1, 10*time.Second))
		assert.Empty(t, waiting)
		together := asks(m, message(1), 1)
		assert.Empty(t, waiting, "the bucket had room")
		queued := ask(m, message(1))
		require.Len(t, waiting, 1)
		assert.Equal(t, buckets.Waiting{Route: route, Major: "1", Wait: 10*time.Second + time.Millisecond}, waiting[0])

		updateAll(together, refused(ratelimits.ClassUser, 20*time.Second))
		assert.Equal(t, []buckets.Held{{
			Class: ratelimits.ClassUser, Route: route, Major: "1", Wait: 20*time.Second + time.Millisecond,
		}}, held)
		m.Throttle(time.Second)
		assert.Equal(t, buckets.Held{Class: ratelimits.ClassGlobal, Wait: time.Second}, held[1])

		ask(m, callback(1)).update(plain(401))
		require.Len(t, budget, 1)
		assert.Equal(t, buckets.BudgetUsed{
			Route: callback(1).Route().String(), Major: "1:…", Used: 2, Limit: 4, Period: time.Hour, Fraction: 0.5,
		}, budget[0])
		ask(m, callback(1)).update(plain(401))
		require.Len(t, budget, 2)
		assert.InDelta(t, 0.75, budget[1].Fraction, 0)

		queued.cancel()
		wait(2 * time.Minute)
		require.NotEmpty(t, collected)
		assert.Zero(t, collected[len(collected)-1].Left)
	})
}

// Several requests that were in flight together get a 429 each. These 429s must count as one hold, with one warning.
func TestThereIsOneWarningForEachNewHold(t *testing.T) {
	t.Parallel()
	for _, class := range []ratelimits.Class{
		ratelimits.ClassUser, ratelimits.ClassShared, ratelimits.ClassSubLimit,
		ratelimits.ClassGlobal, ratelimits.ClassEdge,
	} {
		subtest(t, class.String(), func(t *testing.T) {
			var log bytes.Buffer
			m := started(t, buckets.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
			discover(t, m, message(1), roomy)
			for range 2 {
				together := asks(m, message(1), 3)
				for i, c := range together {
					answer(t, c,
						inBucket(refused(class, time.Duration(2+i)*time.Second), "messages", 100, 80, time.Minute))
				}
				wait(2 * time.Minute)
				discover(t, m, message(1), roomy)
			}
			assert.Equal(t, 2, strings.Count(log.String(), "level=WARN"), log.String())
			assert.Contains(t, log.String(), "class="+class.String())
		})
	}
}

func TestDebuggingIsForALoggerThatWantsIt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var log bytes.Buffer
		handler := slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})
		m := started(t, buckets.WithLogger(slog.New(handler)))
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
			assert.Zero(t, strings.Count(log.String(), "DEBUG"),
				"debug lines are only for a logger given by WithLogger")
		})
	}
}

// A Fields function panics. The request must not stay in flight.
func TestPanicOfFieldsLeavesNothingInFlight(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		c := call(background, m, buckets.Request{Route: message(1), Authorization: bot,
			Fields: func() []string { panic("of the fields") }})
		c.update(inBucket(refused(ratelimits.ClassSubLimit, time.Second), "messages", 100, 80, time.Minute))
		assert.Zero(t, m.Stats().InFlight)
	})
}

// A request is granted while its Waiting hook runs, and then the hook panics. The lease must be given back.
func TestPanicAfterTheGrantGivesTheLeaseBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var probe *caller
		m := started(t, buckets.WithHooks(buckets.Hooks{Waiting: func(context.Context, buckets.Waiting) {
			probe.lease.Update(roomy)
			panic("of the hook")
		}}))
		probe = ask(m, message(1))
		assert.PanicsWithValue(t, "of the hook", func() { _, _ = m.Acquire(t.Context(), message(1), bot) })
		assert.EqualValues(t, 2, m.Stats().Granted)
	})
}

// A slow hook must delay only the request for which it is called. While the hook runs, that request must keep its place
// in the queue, and its permit if it gets one. Other requests must not be delayed.
func TestSlowHookDelaysOnlyItsOwnRequest(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		slow := true
		m := started(t, buckets.WithHooks(buckets.Hooks{Waiting: func(context.Context, buckets.Waiting) {
			if slow {
				time.Sleep(time.Minute)
			}
		}}))
		discover(t, m, message(1), limited("messages", 2, 0, time.Second))
		first := ask(m, message(1))
		slow = false
		second, third := ask(m, message(1)), ask(m, message(1))
		wait(2 * time.Second)
		assert.False(t, first.done())
		assert.True(t, second.granted())
		assert.False(t, third.done(), "the first request has one of the two permits")
		second.update(limited("messages", 2, 0, time.Second))
		wait(2 * time.Second)
		assert.True(t, third.granted())
		third.update(limited("messages", 2, 0, time.Second))
		wait(time.Minute)
		require.True(t, first.granted())
	})
}

// A request's context ends while a hook or the request's Fields function runs. The request must fail, even if the
// bucket has room by then.
func TestContextThatEndsInACallersFunctionEndsTheRequest(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"hook", "fields"} {
		subtest(t, name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(background)
			var first *caller
			giveUp := func() {
				cancel()
				first.lease.Return() // now the bucket has room
			}
			m := started(t)
			request := *request(message(1))
			if name == "hook" {
				m.AddHooks(buckets.Hooks{Waiting: func(context.Context, buckets.Waiting) { giveUp() }})
			} else {
				request.Fields = func() []string { giveUp(); return nil }
			}
			discover(t, m, message(1), limited("messages", 1, 0, time.Second))
			wait(2 * time.Second)
			first = ask(m, message(1))
			require.True(t, first.granted())
			lease, err := m.AcquireRequest(ctx, &request)
			lease.Return()
			assert.ErrorIs(t, err, context.Canceled)
		})
	}
}

type contextKey struct{}

// named returns a context by which a test recognizes a request.
func named(name string) context.Context { return context.WithValue(background, contextKey{}, name) }

// contexts is a log handler that records to which request each line belongs.
type contexts struct {
	slog.Handler
	names map[string][]any // for each message, the requests of its lines
}

func (c *contexts) Enabled(context.Context, slog.Level) bool { return true }

func (c *contexts) Handle(ctx context.Context, r slog.Record) error {
	c.names[r.Message] = append(c.names[r.Message], ctx.Value(contextKey{}))
	return nil
}

// Hooks and log handlers must get the context of the request for which they are called, because tracing needs that
// context. They must get this context even if the request was granted because another request ended.
func TestHooksAndLogsHaveTheContextOfTheRequest(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		told := make(map[string][]any)
		log := &contexts{names: make(map[string][]any)}
		tell := func(hook string, ctx context.Context) { told[hook] = append(told[hook], ctx.Value(contextKey{})) }
		m := started(t, buckets.WithInvalidBudget(4, time.Hour, 0), buckets.WithLogger(slog.New(log)),
			buckets.WithHooks(buckets.Hooks{
				Waiting:    func(ctx context.Context, _ buckets.Waiting) { tell("waiting", ctx) },
				Held:       func(ctx context.Context, _ buckets.Held) { tell("held", ctx) },
				BudgetUsed: func(ctx context.Context, _ buckets.BudgetUsed) { tell("budget", ctx) },
			}))
		discover(t, m, message(1), limited("messages", 1, 0, time.Second))
		request := func(name string) *caller {
			return call(named(name), m, *request(message(1)))
		}
		waited := request("waited")
		require.False(t, waited.done())
		wait(2 * time.Second)
		waited.update(usedUp("messages", 1, time.Second))
		wait(2 * time.Second)
		waited.cancel()

		at := request("at once")
		answer(t, at, refused(ratelimits.ClassGlobal, time.Second))
		wait(2 * time.Second)

		second, err := m.Acquire(named("second"), message(1), bot)
		require.NoError(t, err)
		second.Update(refused(ratelimits.ClassEdge, time.Second))
		wait(2 * time.Second)

		async := buckets.Request{Route: message(1), Authorization: bot}
		buckets.AcquireFunc(named("async"), m, &async, func(l buckets.Lease, err error) {
			if assert.NoError(t, err) {
				l.Update(usedUp("messages", 1, time.Second))
			}
		})
		wait(2 * time.Second)
		m.Throttle(time.Second)
		assert.Equal(t, []any{"waited"}, told["waiting"])
		assert.Equal(t, []any{"waited", "at once", "second", "async", nil}, told["held"])
		assert.Equal(t, []any{"at once", "second", "async"}, told["budget"])
		assert.Equal(t, []any{"waited"}, log.names["request waits"])
		assert.Equal(t, []any{"waited", "at once", "second"}, log.names["requests are held"],
			"later holds of the same classes are not logged at once")
	})
}

// A response often arrives when the request's context has already ended. Hooks and log handlers must get a context that
// has not ended. Otherwise, their own calls with this context would fail.
func TestContextsOfHooksAndLogsHaveNotEndedWithTheRequest(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var ended []error
		note := func(ctx context.Context) { ended = append(ended, ctx.Err()) }
		m := started(t, buckets.WithInvalidBudget(2, time.Hour, 0), buckets.WithLogger(slog.New(noting(note))),
			buckets.WithHooks(buckets.Hooks{
				Held:       func(ctx context.Context, _ buckets.Held) { note(ctx) },
				BudgetUsed: func(ctx context.Context, _ buckets.BudgetUsed) { note(ctx) },
			}))
		discover(t, m, message(1), roomy)
		for range 2 { // the warning of the second hold is logged by Close
			ctx, cancel := context.WithCancel(background)
			lease, err := m.Acquire(ctx, message(1), bot)
			require.NoError(t, err)
			cancel()
			lease.Update(refused(ratelimits.ClassGlobal, time.Second))
			wait(2 * time.Second)
		}
		require.NoError(t, m.Close())
		assert.GreaterOrEqual(t, len(ended), 5)
		for _, err := range ended {
			assert.NoError(t, err)
		}
	})
}

// noting is a function that serves as a log handler. It is called with the context of each line.
type noting func(context.Context)

func (n noting) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }
func (n noting) WithAttrs([]slog.Attr) slog.Handler               { return n }
func (n noting) WithGroup(string) slog.Handler                    { return n }

func (n noting) Handle(ctx context.Context, _ slog.Record) error {
	n(ctx)
	return nil
}

// logged is a writer that keeps the log. The garbage collector may write to it while a test reads it.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// If a limit refuses requests again and again, the 429s must not fill the log. The first warning must name the channel,
// and a later one must count the repetitions.
func TestManyRefusalsAreOneWarningThatNamesTheChannel(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var log logged
		m := started(t, buckets.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		discover(t, m, message(12), roomy)
		for range 600 {
			m.UpdateRateLimits(message(12), bot,
				inBucket(refused(ratelimits.ClassShared, time.Second), "messages", 100, 80, time.Minute))
			m.LiftHolds()
			wait(20 * time.Millisecond)
		}
		const line = `level=WARN msg="requests are held" route="POST /channels/{channel_id}/messages" ` +
			`major=12 class=shared hold=`
		assert.Equal(t, 1, strings.Count(log.String(), line), log.String())
		wait(time.Minute)
		assert.Equal(t, 2, strings.Count(log.String(), line), "the garbage collector logs how many lines were left out")
		assert.Equal(t, 600, stoodFor(t, log.String()))
	})
}

// Close must log how many warnings were left out, because nothing logs them later.
func TestCloseTellsOfTheLinesThatWereLeftOut(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var log logged
		m := started(t, buckets.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		for range 5 {
			m.Throttle(time.Second)
			m.LiftHolds()
		}
		require.NoError(t, m.Close())
		assert.Equal(t, 2, strings.Count(log.String(), "level=WARN"), log.String())
		assert.Equal(t, 5, stoodFor(t, log.String()))
	})
}

// stoodFor returns how many events a log covers: its lines and the repetitions that these lines name.
func stoodFor(t *testing.T, log string) (n int) {
	for line := range strings.Lines(log) {
		n++
		if _, left, ok := strings.Cut(strings.TrimSpace(line), "repeated="); ok {
			repeated, err := strconv.Atoi(left)
			require.NoError(t, err)
			n += repeated
		}
	}
	return n
}

func TestWarningsNameAWebhookWithoutItsToken(t *testing.T) {
	t.Parallel()
	for name, class := range map[string]ratelimits.Response{
		"hold": refused(ratelimits.ClassUser, time.Second), "budget": plain(401), "wait": limited("hooks", 1, 0, time.Second),
	} {
		subtest(t, name, func(t *testing.T) {
			var log, events logged
			const canary = "canary-5f0c2e"
			m := started(t, buckets.WithInvalidBudget(2, time.Hour, 0),
				buckets.WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))),
				buckets.WithHooks(buckets.Hooks{
					Waiting:    func(_ context.Context, w buckets.Waiting) { fmt.Fprintf(&events, "%+v", w) },
					Held:       func(_ context.Context, h buckets.Held) { fmt.Fprintf(&events, "%+v", h) },
					BudgetUsed: func(_ context.Context, b buckets.BudgetUsed) { fmt.Fprintf(&events, "%+v", b) },
				}))
			webhook := compile(routes.ExecuteWebhook, "77", canary)
			ask(m, webhook).update(class)
			ask(m, webhook).cancel()
			wait(time.Minute)
			assert.Contains(t, log.String(), `route="POST /webhooks/{webhook_id}/{webhook_token}" major=77:…`)
			assert.Contains(t, events.String(), "Major:77:…")
			assert.NotContains(t, log.String()+events.String(), canary)
		})
	}
}

func TestTheDebugLineHasThePredictionOnceItIsKnown(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var log logged
		handler := slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})
		m := started(t, buckets.WithLogger(slog.New(handler)))
		probe := ask(m, message(1))
		asks(m, message(1), 5)
		assert.Contains(t, log.String(),
			`msg="request waits" route="POST /channels/{channel_id}/messages" major=1 class=ok`+"\n")
		assert.NotContains(t, log.String(), "predicted_wait")
		probe.update(limited("messages", 3, 0, 10*time.Second))
		assert.Contains(t, log.String(),
			`msg="request waits" route="POST /channels/{channel_id}/messages" major=1 class=ok predicted_wait=10.001s waiting=5`)
	})
}
