package buckets

import (
	"bytes"
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// mover is a manager whose work a test can do a part at a time.
type mover struct {
	*testing.T
	*RESTBucketManager
}

func movers(t *testing.T, test func(m mover), options ...Option) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := NewRESTBucketManager(append([]Option{WithGlobalLimit(0), WithMaxRateLimit(24 * time.Hour)}, options...)...)
		require.NoError(t, m.Start())
		defer m.Close()
		test(mover{t, m})
		mover{t, m}.idle()
	})
}

// idle requires that no work is left, and that all counts agree with what is in flight.
func (m mover) idle() {
	s := m.discord
	s.mu.Lock()
	defer s.mu.Unlock()
	assert.Empty(m, s.leaving)
	assert.Empty(m, s.late)
	assert.Empty(m, s.overdue)
	assert.Empty(m, s.touched)
	assert.Zero(m, s.judging)
	assert.False(m, s.working)
	undiscovered, inFlight, waiting := 0, 0, 0
	for _, a := range s.accounts {
		for _, all := range a.undiscovered {
			undiscovered += len(all)
		}
	}
	for _, b := range s.buckets {
		assert.False(m, b.leaving)
		for h := b.inFlight; h != nil; h = h.next {
			inFlight++
			if h.undiscovered {
				undiscovered--
			}
		}
		n := 0
		for q := range b.queues.all {
			n += q.waiting.Len()
			assert.False(m, q.late)
		}
		assert.Equal(m, b.queues.length(), n)
		waiting += n
	}
	assert.Zero(m, undiscovered)
	assert.Equal(m, s.waiting, waiting)
	if !m.closed() {
		assert.Equal(m, s.budget.inFlight, inFlight)
		assert.LessOrEqual(m, s.awaited.Len(), inFlight)
	}
}

// sender is one request and what became of it.
type sender struct {
	lease Lease
	err   error
	done  bool
	then  func(*sender)
}

func (m mover) ask(route routes.Route, parameters ...string) *sender {
	return m.askWith(context.Background(), "Bot one", nil, route, parameters...)
}

func (m mover) askWith(
	ctx context.Context, authorization string, then func(*sender), route routes.Route, parameters ...string,
) *sender {
	m.Helper()
	compiled, err := route.Compile(parameters...)
	require.NoError(m, err)
	a := &sender{then: then}
	AcquireFunc(ctx, m.RESTBucketManager, &Request{Route: compiled, Authorization: authorization}, func(lease Lease, err error) {
		a.lease, a.err, a.done = lease, err, true
		if a.then != nil {
			a.then(a)
		}
	})
	synctest.Wait()
	return a
}

func (a *sender) granted() bool { return a.done && a.err == nil }

func (m mover) answer(a *sender, r ratelimits.Response) {
	m.Helper()
	require.True(m, a.granted())
	a.lease.Update(r)
	synctest.Wait()
}

func named(hash string, limit, remaining int, after time.Duration) ratelimits.Response {
	return ratelimits.Response{
		Status: 200, Limited: true, Bucket: hash, Limit: limit, Remaining: remaining, ResetAfter: after,
	}
}

func refusal(class ratelimits.Class, wait time.Duration) ratelimits.Response {
	return ratelimits.Response{Status: 429, Class: class, HasRetryAfter: true, RetryAfter: wait}
}

func (m mover) wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// byParts lets nobody do the server's work until resume, as if one part of it were always just over. part does one, and
// reports whether there is more.
func (m mover) byParts() (part func() (more bool), resume func()) {
	s := m.discord
	s.mu.Lock()
	s.working = true
	s.mu.Unlock()
	return func() bool {
			s.mu.Lock()
			more := s.dispatch(s.now())
			for _, tell := range s.letGo(s.now()) {
				tell()
			}
			synctest.Wait()
			return more
		}, func() {
			s.mu.Lock()
			s.working = false
			s.unlock(s.now())
			synctest.Wait()
		}
}

// Requests of another major parameter do not wait in the bucket that requests of their route leave: their own has room.
func TestRequestOfAnotherMajorParameterDoesNotJoinABucketThatMoves(t *testing.T) {
	movers(t, func(m mover) {
		m.answer(m.ask(routes.CreateMessage, "1"), named("old", 3, 2, time.Minute))
		m.answer(m.ask(routes.CreateMessage, "2"), named("old", 3, 2, time.Minute))
		m.ask(routes.CreateMessage, "1")
		last := m.ask(routes.CreateMessage, "1")
		for range 300 {
			m.ask(routes.CreateMessage, "1")
		}
		_, resume := m.byParts()
		m.answer(last, named("new", 3, 0, time.Minute))
		first, second := m.ask(routes.CreateMessage, "2"), m.ask(routes.CreateMessage, "2")
		resume()
		assert.True(t, first.granted())
		assert.True(t, second.granted(), "their bucket has room for two")
	})
}

// Who comes while several buckets of a route move waits behind those of its own.
func TestWhoComesWhileSeveralBucketsMoveIsBehind(t *testing.T) {
	movers(t, func(m mover) {
		m.answer(m.ask(routes.CreateMessage, "1"), ratelimits.Response{Status: 404})
		probe := m.ask(routes.CreateMessage, "1")
		m.ask(routes.CreateMessage, "2")
		var order [3][]int
		add := func(major, i int) {
			m.askWith(context.Background(), "Bot one", func(a *sender) {
				order[major] = append(order[major], i)
				if a.err == nil {
					a.lease.Update(named("found", 5, 4, time.Second))
				}
			}, routes.CreateMessage, strconv.Itoa(major))
		}
		for i := range 600 {
			add(1, i)
			add(2, i)
		}
		part, resume := m.byParts()
		m.answer(probe, named("found", 5, 4, time.Second))
		for i := 600; part(); i++ {
			add(1, i)
			add(2, i)
		}
		resume()
		m.wait(time.Hour)
		for major := range order {
			last := -1
			for _, i := range order[major] {
				require.Greater(t, i, last, "order of major parameter %d", major)
				last = i
			}
		}
	})
}

// Those who arrived first leave first when a bucket moves in parts, also if they wait in another queue of it.
func TestFirstOfAllQueuesMovesFirst(t *testing.T) {
	movers(t, func(m mover) {
		hook := []string{"77", "abcdefghijklmnop"}
		probe := m.askWith(context.Background(), "", nil, routes.ExecuteWebhook, hook...)
		first := m.askWith(context.Background(), "Bot one", nil, routes.ExecuteWebhook, hook...)
		for range 600 {
			m.askWith(context.Background(), "", nil, routes.ExecuteWebhook, hook...)
		}
		m.answer(probe, named("hook", 3, 1, time.Minute))
		assert.True(t, first.granted())
	})
}

// whenClosing calls a function while the manager closes and has given the lock back for a moment.
func (m mover) whenClosing(meanwhile func()) {
	s := m.discord
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tell(func() {
		if m.closed() {
			meanwhile()
		} else {
			m.whenClosing(meanwhile)
		}
	})
}

// Everybody is rejected by Close, also in a bucket of which a 429 comes meanwhile, or whose hash is found.
func TestCloseRejectsAllWhateverIsAnsweredMeanwhile(t *testing.T) {
	for name, r := range map[string]ratelimits.Response{
		"refused": refusal(ratelimits.ClassUser, time.Minute), "found": named("found", 1, 0, time.Minute),
	} {
		t.Run(name, func(t *testing.T) {
			movers(t, func(m mover) {
				probe := m.ask(routes.CreateMessage, "1")
				waiting := m.ask(routes.CreateMessage, "1")
				m.answer(m.ask(routes.ListMessages, "9"), named("busy", 1, 0, time.Minute))
				for range 300 {
					m.ask(routes.ListMessages, "9")
				}
				m.whenClosing(func() { probe.lease.Update(r) })
				require.NoError(t, m.Close())
				synctest.Wait()
				assert.ErrorIs(t, waiting.err, ErrClosed)
				assert.Zero(t, m.Stats().Waiting)
			})
		})
	}
}

// The same while requests move in parts.
func TestCloseRejectsAllWhoMove(t *testing.T) {
	movers(t, func(m mover) {
		probe := m.ask(routes.CreateMessage, "1")
		var waiting []*sender
		for range 1000 {
			waiting = append(waiting, m.ask(routes.CreateMessage, "1"))
		}
		part, resume := m.byParts()
		m.whenClosing(func() {
			for range 3 {
				part()
			}
		})
		probe.lease.Update(named("found", 1, 0, time.Minute))
		require.NoError(t, m.Close())
		resume()
		synctest.Wait()
		for i, w := range waiting {
			require.ErrorIs(t, w.err, ErrClosed, "number %d", i)
		}
		assert.Zero(t, m.Stats().Waiting)
	})
}

// A request that moves by a hint may still belong elsewhere, so it is charged there.
func TestRequestThatMovedByAHintIsChargedWhereItMayCount(t *testing.T) {
	movers(t, func(m mover) {
		m.answer(m.ask(routes.CreateMessage, "1"), named("other", 1, 0, time.Second))
		m.wait(2 * time.Second)
		m.answer(m.ask(routes.CreateMessage, "1"), named("other", 1, 0, time.Second))
		m.wait(2 * time.Second)
		slow := m.ask(routes.AddMyMessageReaction, "1", "1", "x")
		m.wait(patience)
		second := m.ask(routes.DeleteMyMessageReaction, "1", "1", "x")
		require.True(t, second.granted())
		m.answer(slow, named("reactions", 9, 8, time.Second))
		third := m.ask(routes.CreateMessage, "1")
		assert.False(t, third.granted(), "the second may have used up its bucket")
		m.answer(second, named("other", 1, 0, time.Second))
		m.wait(2 * time.Second)
		assert.True(t, third.granted())
		assert.Empty(t, m.discord.accounts[m.hash(&Request{Authorization: "Bot one"})].undiscovered)
	})
}

// Nobody waits for longer than the patience for the outcome of a request that may belong to the bucket.
func TestChargeOfASlowRequestIsNotWaitedFor(t *testing.T) {
	movers(t, func(m mover) {
		m.answer(m.ask(routes.CreateMessage, "1"), named("messages", 9, 8, time.Second))
		m.answer(m.ask(routes.CreateMessage, "1"), refusal(ratelimits.ClassShared, time.Minute))
		slow := m.ask(routes.ListMessages, "1")
		require.True(t, slow.granted())
		m.wait(2 * time.Minute)
		assert.True(t, m.ask(routes.CreateMessage, "1").granted())
	})
}

// A lost request of a route that is not known is charged to a bucket that was forgotten before it was sent.
func TestLostRequestIsChargedToABucketThatWasForgotten(t *testing.T) {
	movers(t, func(m mover) {
		m.answer(m.ask(routes.CreateMessage, "1"), named("messages", 1, 0, time.Minute))
		m.wait(5 * time.Minute)
		lost := m.ask(routes.ListMessages, "1")
		require.True(t, lost.granted())
		lost.lease.Release()
		assert.False(t, m.ask(routes.CreateMessage, "1").granted(), "the lost one may have used it up")
	})
}

// A route is known as long as its bucket is held.
func TestRouteIsKnownAsLongAsItsBucketIsHeld(t *testing.T) {
	movers(t, func(m mover) {
		m.answer(m.ask(routes.CreateMessage, "1"), named("messages", 2, 1, time.Minute))
		r := named("messages", 2, 0, 6*time.Hour)
		r.Status, r.Class, r.HasRetryAfter, r.RetryAfter = 429, ratelimits.ClassUser, true, 6*time.Hour
		m.answer(m.ask(routes.CreateMessage, "1"), r)
		m.wait(4 * time.Hour)
		assert.False(t, m.ask(routes.CreateMessage, "1").granted(), "it is held for two hours more")
	})
}

// Who would wait too long is rejected at once, however many others are looked at before.
func TestLateAreRejectedHoweverManyAreLookedAt(t *testing.T) {
	movers(t, func(m mover) {
		for others := 120; others < 130; others++ {
			major := func(i int) string { return strconv.Itoa(1000*others + i) }
			m.answer(m.ask(routes.CreateMessage, major(0)), named("messages", 1, 0, time.Minute))
			short := ContextWithMaxWait(context.Background(), 2*time.Minute)
			late := m.askWith(short, "Bot one", nil, routes.CreateMessage, major(0))
			answer := func(a *sender) {
				if a.err == nil {
					a.lease.Update(named("messages", 1, 0, time.Minute))
				}
			}
			held := m.ask(routes.CreateMessage, major(800))
			m.answer(held, refusal(ratelimits.ClassUser, time.Minute)) // it is busy, and costs half as much as the others
			for i := range others {
				m.answer(m.ask(routes.CreateMessage, major(1+i)), named("messages", 1, 0, time.Minute))
				m.askWith(context.Background(), "Bot one", answer, routes.CreateMessage, major(1+i))
			}
			m.answer(m.ask(routes.CreateMessage, major(900)), refusal(ratelimits.ClassGlobal, 30*time.Minute))
			assert.True(t, late.done, "%d others", others)
			m.wait(2 * time.Hour)
			if late.granted() {
				late.lease.Return()
			}
		}
	})
}

// A hint is not taken for what a route's own response has told when another manager goes on.
func TestHintIsStillAHintForTheNextManager(t *testing.T) {
	movers(t, func(m mover) {
		m.answer(m.ask(routes.AddMyMessageReaction, "1", "1", "x"), named("reactions", 9, 8, time.Second))
		require.True(m, m.ask(routes.DeleteMyMessageReaction, "1", "1", "x").granted())
		var state bytes.Buffer
		require.NoError(m, m.WriteState(&state))
		next := mover{m.T, NewRESTBucketManager(WithGlobalLimit(0))}
		require.NoError(m, next.Start())
		defer next.Close()
		require.NoError(m, next.RestoreState(&state))
		m.wait(time.Minute)
		next.answer(next.ask(routes.AddMyMessageReaction, "1", "1", "x"), named("reactions", 9, 8, time.Second))
		first := next.ask(routes.DeleteMyMessageReaction, "1", "1", "x")
		second := next.ask(routes.DeleteMyMessageReaction, "1", "1", "x")
		assert.True(t, first.granted())
		assert.False(t, second.granted(), "it may belong to another bucket, of one request")
	})
}

// LiftHolds ends also the hold of a bucket whose requests move to a new one meanwhile.
func TestLiftHoldsEndsAHoldThatMoves(t *testing.T) {
	movers(t, func(m mover) {
		m.answer(m.ask(routes.CreateMessage, "1"), named("old", 9, 8, time.Minute))
		held, last := m.ask(routes.CreateMessage, "1"), m.ask(routes.CreateMessage, "1")
		r := named("old", 9, 7, time.Minute)
		r.Status, r.Class, r.HasRetryAfter, r.RetryAfter = 429, ratelimits.ClassShared, true, time.Hour
		m.answer(held, r)
		for i := range 300 {
			m.answer(m.ask(routes.ListMessages, strconv.Itoa(i+1)), named("list", 9, 8, time.Hour))
		}
		m.discord.mu.Lock()
		m.discord.tell(func() { last.lease.Update(named("new", 9, 8, time.Minute)) })
		m.discord.mu.Unlock()
		m.LiftHolds()
		synctest.Wait()
		assert.True(t, m.ask(routes.CreateMessage, "1").granted())
	})
}

// Who comes to a place among those who have moved already follows them, and does not stay behind in the UNKNOWN bucket.
func TestUrgentRequestFollowsThoseWhoHaveMoved(t *testing.T) {
	movers(t, func(m mover) {
		probe := m.ask(routes.CreateMessage, "1")
		for range 600 {
			m.ask(routes.CreateMessage, "1")
		}
		part, resume := m.byParts()
		m.answer(probe, named("found", 1, 0, time.Minute))
		for range 2 {
			require.True(m, part())
		}
		urgent := m.askWith(ContextWithPriority(context.Background()), "Bot one", nil, routes.CreateMessage, "1")
		resume()
		assert.False(t, urgent.granted(), "its bucket is used up")
	})
}

// Whatever happens between two parts of a move, everybody is told once.
func TestAnythingMayHappenBetweenPartsOfAMove(t *testing.T) {
	events := map[string]func(m mover, cancel context.CancelFunc, slow *sender){
		"cancelled": func(_ mover, cancel context.CancelFunc, _ *sender) { cancel() },
		"lifted":    func(m mover, _ context.CancelFunc, _ *sender) { m.LiftHolds() },
		"throttled": func(m mover, _ context.CancelFunc, _ *sender) { m.Throttle(time.Minute) },
		"collected": func(m mover, _ context.CancelFunc, _ *sender) { m.collect() },
		"written":   func(m mover, _ context.CancelFunc, _ *sender) { assert.NoError(m, m.WriteState(&bytes.Buffer{})) },
		"another hash": func(_ mover, _ context.CancelFunc, slow *sender) {
			slow.lease.Update(named("other", 2, 1, time.Second))
		},
		"no limits": func(_ mover, _ context.CancelFunc, slow *sender) {
			slow.lease.Update(ratelimits.Response{Status: 200})
		},
		"refused": func(_ mover, _ context.CancelFunc, slow *sender) {
			slow.lease.Update(refusal(ratelimits.ClassUser, time.Hour))
		},
		"refused to all": func(_ mover, _ context.CancelFunc, slow *sender) {
			slow.lease.Update(refusal(ratelimits.ClassGlobal, time.Hour))
		},
		"lost":       func(_ mover, _ context.CancelFunc, slow *sender) { slow.lease.Release() },
		"never sent": func(_ mover, _ context.CancelFunc, slow *sender) { slow.lease.Return() },
	}
	for name, event := range events {
		for at := range 5 {
			t.Run(name+" after "+strconv.Itoa(at), func(t *testing.T) {
				movers(t, func(m mover) {
					probe := m.ask(routes.CreateMessage, "1")
					m.wait(patience)
					ctx, cancel := context.WithCancel(context.Background())
					defer cancel()
					slow := m.ask(routes.CreateMessage, "2")
					require.True(t, slow.granted())
					var told [800]int
					var last [3]int
					for i := range told {
						of := ctx
						if i%3 == 0 {
							of = context.Background()
						}
						if i%5 == 0 {
							of = ContextWithMaxWait(of, 20*time.Minute)
						}
						m.askWith(of, "Bot one", func(a *sender) {
							told[i]++
							if a.err == nil {
								assert.GreaterOrEqual(t, i, last[i%3])
								last[i%3] = i
								go func() {
									time.Sleep(time.Millisecond)
									a.lease.Update(named("found", 2, 1, time.Second))
								}()
							}
						}, routes.CreateMessage, strconv.Itoa(1+i%3))
					}
					part, resume := m.byParts()
					m.answer(probe, named("found", 2, 0, time.Second))
					for range at {
						part()
					}
					event(m, cancel, slow)
					synctest.Wait()
					resume()
					m.wait(3 * time.Hour)
					for i, n := range told {
						assert.Equal(t, 1, n, "number %d", i)
					}
					slow.lease.Release()
				})
			})
		}
	}
}

// Nobody leaves whom a 429 between two parts of a move holds, whether they have moved or not.
// Who would have to wait for too long is rejected at once.
func TestRefusalBetweenPartsOfAMoveHoldsAll(t *testing.T) {
	classes := []ratelimits.Class{
		ratelimits.ClassUser, ratelimits.ClassShared, ratelimits.ClassGlobal, ratelimits.ClassEdge,
	}
	for _, class := range classes {
		for at := range 6 {
			t.Run(class.String()+" after "+strconv.Itoa(at), func(t *testing.T) {
				movers(t, func(m mover) {
					probe := m.ask(routes.CreateMessage, "1")
					m.wait(patience)
					slow, other := m.ask(routes.CreateMessage, "2"), m.ask(routes.CreateMessage, "1")
					var end time.Time
					rejected, short := 0, 0
					for i := range 900 {
						ofBucket := class == ratelimits.ClassUser || class == ratelimits.ClassShared
						of, held := context.Background(), !ofBucket || i%2 == 1
						if i%5 == 0 {
							of = ContextWithMaxWait(of, 20*time.Minute)
							if held {
								short++
							}
						}
						m.askWith(of, "Bot one", func(a *sender) {
							if held && !end.IsZero() {
								if a.err == nil {
									assert.False(t, time.Now().Before(end), "number %d", i)
								} else if time.Until(end) == time.Hour {
									rejected++
								}
							}
							if a.err == nil {
								a.lease.Update(named("found", 2, 1, time.Second))
							}
						}, routes.CreateMessage, strconv.Itoa(1+i%2))
					}
					part, resume := m.byParts()
					m.answer(probe, named("found", 2, 0, time.Second))
					for range at {
						part()
					}
					end = time.Now().Add(time.Hour)
					r := refusal(class, time.Hour)
					if class == ratelimits.ClassUser || class == ratelimits.ClassShared {
						r.Bucket = "found"
					}
					slow.lease.Update(r)
					resume()
					assert.Equal(t, short, rejected)
					m.wait(3 * time.Hour)
					m.answer(other, named("found", 2, 1, time.Second))
				})
			})
		}
	}
}
