package buckets_test

import (
	"context"
	"io"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
)

// acquireMessage lets a request to a channel wait. When the request is granted or rejected, the callback gets the
// result.
func acquireMessage(ctx context.Context, m *buckets.RESTBucketManager, channel int, then func(buckets.Lease, error)) {
	buckets.AcquireFunc(ctx, m, request(message(channel)), then)
	synctest.Wait()
}

// The waiting requests of channel 1 move to another bucket. Requests of channel 2 must not wait for this move, because
// their own bucket has room.
func TestRequestOfAnotherMajorParameterDoesNotJoinABucketThatMoves(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(24*time.Hour))
		discover(t, m, message(1), limited("old", 3, 2, time.Minute))
		discover(t, m, message(2), limited("old", 3, 2, time.Minute))
		ask(m, message(1))
		last := ask(m, message(1))
		for range 300 { // the queue without a group is empty
			call(background, m, buckets.Request{Route: message(1), Authorization: bot, Group: "guild"})
		}
		_, resume := buckets.ByParts(m)
		last.update(limited("new", 3, 0, time.Minute))
		first, second := ask(m, message(2)), ask(m, message(2))
		resume()
		assert.True(t, first.granted())
		assert.True(t, second.granted(), "the bucket of channel 2 has room for two")
	})
}

// Requests arrive while several buckets of their route move. Each new request must leave after the earlier requests of
// its own bucket.
func TestWhoComesWhileSeveralBucketsMoveIsBehind(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(24*time.Hour))
		discover(t, m, message(1), plain(404))
		probe := ask(m, message(1))
		ask(m, message(2))
		var order [3][]int
		add := func(major, i int) {
			acquireMessage(background, m, major, func(lease buckets.Lease, _ error) {
				order[major] = append(order[major], i)
				lease.Update(limited("found", 5, 4, time.Second))
			})
		}
		for i := range 600 {
			add(1, i)
			add(2, i)
		}
		part, resume := buckets.ByParts(m)
		probe.update(limited("found", 5, 4, time.Second))
		for i := 600; part(); i++ {
			add(1, i)
			add(2, i)
		}
		resume()
		wait(time.Hour)
		for major := range order {
			last := -1
			for _, i := range order[major] {
				require.Greater(t, i, last, "order of major parameter %d", major)
				last = i
			}
		}
	})
}

// A bucket with two queues moves in parts. The first request must leave first, whichever queue it is in.
func TestFirstOfAllQueuesMovesFirst(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(24*time.Hour))
		probe, first := as(m, "", webhookPost("token")), as(m, bot, webhookPost("token"))
		for range 600 {
			as(m, "", webhookPost("token"))
		}
		probe.update(limited("hook", 3, 1, time.Minute))
		assert.True(t, first.granted())
	})
}

// While the manager closes, a request gets a 429 or its response names the bucket hash. Close must still reject all
// waiting requests.
func TestCloseRejectsAllWhateverIsAnsweredMeanwhile(t *testing.T) {
	for name, r := range map[string]ratelimits.Response{
		"refused": refused(ratelimits.ClassUser, time.Minute), "found": limited("found", 1, 0, time.Minute),
	} {
		subtest(t, name, func(t *testing.T) {
			m := started(t, buckets.WithMaxRateLimit(24*time.Hour))
			probe := ask(m, message(1))
			waiting := ask(m, message(1))
			discover(t, m, list(9), limited("busy", 1, 0, time.Minute))
			asks(m, list(9), 300)
			buckets.WhenClosing(m, func() { probe.lease.Update(r) })
			require.NoError(t, m.Close())
			synctest.Wait()
			assert.ErrorIs(t, waiting.err, buckets.ErrClosed)
			assert.Zero(t, m.Stats().Waiting)
		})
	}
}

// While the manager closes, requests are moving in parts to another bucket. Close must reject all of them.
func TestCloseRejectsAllWhoMove(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(24*time.Hour))
		probe := ask(m, message(1))
		waiting := asks(m, message(1), 1000)
		part, resume := buckets.ByParts(m)
		buckets.WhenClosing(m, func() {
			for range 3 {
				part()
			}
		})
		probe.lease.Update(limited("found", 1, 0, time.Minute))
		require.NoError(t, m.Close())
		resume()
		synctest.Wait()
		for i, w := range waiting {
			require.ErrorIs(t, w.err, buckets.ErrClosed, "number %d", i)
		}
		assert.Zero(t, m.Stats().Waiting)
	})
}

// A request that moved by a hint may still belong to another bucket, so it must be charged in both buckets.
func TestRequestThatMovedByAHintIsChargedWhereItMayCount(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(24*time.Hour))
		discover(t, m, message(1), limited("other", 1, 0, time.Second))
		wait(2 * time.Second)
		discover(t, m, message(1), limited("other", 1, 0, time.Second))
		wait(2 * time.Second)
		slow := ask(m, react(1))
		wait(patience)
		second := ask(m, unreact(1))
		require.True(t, second.granted())
		slow.update(limited("reactions", 9, 8, time.Second))
		third := ask(m, message(1))
		assert.False(t, third.granted(), "the second request may have used up the bucket")
		second.update(limited("other", 1, 0, time.Second))
		wait(2 * time.Second)
		assert.True(t, third.granted())
	})
}

// A route must not be forgotten while its bucket is held.
func TestRouteIsKnownAsLongAsItsBucketIsHeld(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(24*time.Hour))
		discover(t, m, message(1), limited("messages", 2, 1, time.Minute))
		discover(t, m, message(1), usedUp("messages", 2, 6*time.Hour))
		wait(4 * time.Hour)
		assert.False(t, ask(m, message(1)).granted(), "the bucket is held for two more hours")
	})
}

// A hold makes the wait of a request too long. The request must be rejected at once, however many other queues the
// manager has to check first.
func TestLateAreRejectedHoweverManyAreLookedAt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(24*time.Hour))
		used := limited("messages", 1, 0, time.Minute)
		for others := 120; others < 130; others++ {
			channel := func(i int) int { return 1000*others + i }
			discover(t, m, message(channel(0)), used)
			late := call(buckets.ContextWithMaxWait(background, 2*time.Minute), m, *request(message(channel(0))))
			// This bucket is held but has no waiting requests, so a check of this bucket costs half as much as a check of
			// another one.
			discover(t, m, message(channel(800)), refused(ratelimits.ClassUser, time.Minute))
			for i := range others {
				discover(t, m, message(channel(1+i)), used)
				acquireMessage(background, m, channel(1+i), func(lease buckets.Lease, _ error) { lease.Update(used) })
			}
			discover(t, m, message(channel(900)), refused(ratelimits.ClassGlobal, 30*time.Minute))
			assert.True(t, late.done(), "%d others", others)
			wait(2 * time.Hour)
			late.lease.Return()
		}
	})
}

// While LiftHolds runs, the requests of a bucket with a hold move to another bucket. The hold that moves with them must
// end as well.
func TestLiftHoldsEndsAHoldThatMoves(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(24*time.Hour))
		discover(t, m, message(1), limited("old", 9, 8, time.Minute))
		held, last := ask(m, message(1)), ask(m, message(1))
		held.update(inBucket(refused(ratelimits.ClassShared, time.Hour), "old", 9, 7, time.Minute))
		for i := range 300 {
			discover(t, m, list(i+1), limited("list", 9, 8, time.Hour))
		}
		buckets.Meanwhile(m, func() { last.lease.Update(limited("new", 9, 8, time.Minute)) })
		m.LiftHolds()
		synctest.Wait()
		assert.True(t, ask(m, message(1)).granted())
	})
}

// A request with priority arrives while a bucket moves. Its place in the queue is among requests that have already
// moved, so the request must follow them and not stay in the UNKNOWN bucket.
func TestUrgentRequestFollowsThoseWhoHaveMoved(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(24*time.Hour))
		probe := ask(m, message(1))
		asks(m, message(1), 600)
		part, resume := buckets.ByParts(m)
		probe.update(limited("found", 1, 0, time.Minute))
		for range 2 {
			require.True(t, part())
		}
		first := urgent(m)
		resume()
		assert.False(t, first.granted(), "the bucket is used up")
	})
}

// Various events happen between two parts of a move. Each waiting request must get exactly one result.
func TestAnythingMayHappenBetweenPartsOfAMove(t *testing.T) {
	end := func(end func(buckets.Lease)) func(*buckets.RESTBucketManager, context.CancelFunc, buckets.Lease) {
		return func(_ *buckets.RESTBucketManager, _ context.CancelFunc, slow buckets.Lease) { end(slow) }
	}
	events := map[string]func(m *buckets.RESTBucketManager, cancel context.CancelFunc, slow buckets.Lease){
		"cancelled": func(_ *buckets.RESTBucketManager, cancel context.CancelFunc, _ buckets.Lease) { cancel() },
		"lifted":    func(m *buckets.RESTBucketManager, _ context.CancelFunc, _ buckets.Lease) { m.LiftHolds() },
		"throttled": func(m *buckets.RESTBucketManager, _ context.CancelFunc, _ buckets.Lease) { m.Throttle(time.Minute) },
		"collected": func(m *buckets.RESTBucketManager, _ context.CancelFunc, _ buckets.Lease) { buckets.Collect(m) },
		"written": func(m *buckets.RESTBucketManager, _ context.CancelFunc, _ buckets.Lease) {
			_ = m.WriteState(io.Discard)
		},
		"another hash":   end(update(limited("other", 2, 1, time.Second))),
		"no limits":      end(update(plain(200))),
		"refused":        end(update(refused(ratelimits.ClassUser, time.Hour))),
		"refused to all": end(update(refused(ratelimits.ClassGlobal, time.Hour))),
		"lost":           end(buckets.Lease.Release),
		"never sent":     end(buckets.Lease.Return),
	}
	for name, event := range events {
		for at := range 5 {
			subtest(t, name+" after "+strconv.Itoa(at)+" parts", func(t *testing.T) {
				m := started(t, buckets.WithMaxRateLimit(24*time.Hour))
				probe := ask(m, message(1))
				wait(patience)
				ctx, cancel := context.WithCancel(background)
				defer cancel()
				slow := ask(m, message(2))
				require.True(t, slow.granted())
				var told [800]int
				var last [3]int
				for i := range told {
					of := ctx
					if i%3 == 0 {
						of = background
					}
					if i%5 == 0 {
						of = buckets.ContextWithMaxWait(of, 20*time.Minute)
					}
					acquireMessage(of, m, 1+i%3, func(lease buckets.Lease, err error) {
						told[i]++
						if err == nil {
							assert.GreaterOrEqual(t, i, last[i%3])
							last[i%3] = i
							go func() {
								time.Sleep(time.Millisecond)
								lease.Update(limited("found", 2, 1, time.Second))
							}()
						}
					})
				}
				part, resume := buckets.ByParts(m)
				probe.update(limited("found", 2, 0, time.Second))
				for range at {
					part()
				}
				event(m, cancel, slow.lease)
				synctest.Wait()
				resume()
				wait(3 * time.Hour)
				for i, n := range told {
					assert.Equal(t, 1, n, "number %d", i)
				}
			})
		}
	}
}

// A 429 arrives between two parts of a move. The 429 must hold all requests to which it applies, whether they have
// moved or not. Requests that would have to wait too long must be rejected at once.
func TestRefusalBetweenPartsOfAMoveHoldsAll(t *testing.T) {
	classes := []ratelimits.Class{
		ratelimits.ClassUser, ratelimits.ClassShared, ratelimits.ClassGlobal, ratelimits.ClassEdge,
	}
	for _, class := range classes {
		for at := range 6 {
			subtest(t, class.String()+" after "+strconv.Itoa(at)+" parts", func(t *testing.T) {
				m := started(t, buckets.WithMaxRateLimit(24*time.Hour))
				probe := ask(m, message(1))
				wait(patience)
				slow, other := ask(m, message(2)), ask(m, message(1))
				var end time.Time
				rejected, short := 0, 0
				for i := range 900 {
					ofBucket := class == ratelimits.ClassUser || class == ratelimits.ClassShared
					of, held := background, !ofBucket || i%2 == 1
					if i%5 == 0 {
						of = buckets.ContextWithMaxWait(of, 20*time.Minute)
						if held {
							short++
						}
					}
					acquireMessage(of, m, 1+i%2, func(lease buckets.Lease, err error) {
						if held && !end.IsZero() {
							if err == nil {
								assert.False(t, time.Now().Before(end), "number %d", i)
							} else if time.Until(end) == time.Hour {
								rejected++
							}
						}
						if err == nil {
							lease.Update(limited("found", 2, 1, time.Second))
						}
					})
				}
				part, resume := buckets.ByParts(m)
				probe.update(limited("found", 2, 0, time.Second))
				for range at {
					part()
				}
				end = time.Now().Add(time.Hour)
				r := refused(class, time.Hour)
				if class == ratelimits.ClassUser || class == ratelimits.ClassShared {
					r.Bucket = "found"
				}
				slow.lease.Update(r)
				resume()
				assert.Equal(t, short, rejected)
				wait(3 * time.Hour)
				other.update(limited("found", 2, 1, time.Second))
			})
		}
	}
}

// A 429 makes the waits of 900 requests too long. The manager checks fewer than 900 requests at a time. Nevertheless,
// all 900, and no others, must be rejected at once.
func TestVeryManyAreRejectedAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(1000*time.Second), buckets.WithGlobalLimit(0))
		discover(t, m, message(1), limited("messages", 2, 1, time.Second))
		last := ask(m, message(1))
		rejected, granted := 0, 0
		for range 1900 {
			buckets.AcquireFunc(background, m, request(message(1)), func(lease buckets.Lease, err error) {
				if err != nil {
					rejected++
					return
				}
				granted++
				lease.Update(limited("messages", 2, 1, time.Second))
			})
		}
		wait(0)
		require.Zero(t, rejected)
		last.update(usedUp("messages", 2, 500*time.Second))
		wait(0)
		assert.InDelta(t, 900, rejected, 10)
		wait(2000 * time.Second)
		assert.Equal(t, 1900, rejected+granted)
		assert.InDelta(t, 900, rejected, 10)
	})
}
