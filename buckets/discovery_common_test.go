package buckets_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/routes"
)

// An answer that was overtaken by one of its own route does not move the route, also if another route that shares the
// bucket has been answered since.
func TestOvertakenAnswerMovesNothingWhereTwoRoutesShareABucket(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t)
		old, new := limited("old", 50, 40, time.Minute), limited("new", 50, 40, time.Minute)
		for channel := range 2 {
			discover(t, m, message(channel+1), old)
			wait(time.Millisecond)
			discover(t, m, list(channel+1), old)
			wait(time.Millisecond)
		}
		var early []*caller // sent before the hash changed
		for range 3 {
			early = append(early, ask(m, message(1)))
			wait(time.Millisecond)
		}
		for range 2 {
			wait(time.Millisecond)
			post, get := ask(m, message(1)), ask(m, list(1))
			wait(time.Millisecond)
			post.update(new)
			get.update(new)
			wait(time.Millisecond)
		}
		for _, c := range early {
			c.update(old) // overtaken
			wait(time.Millisecond)
		}
		all := asks(m, message(1), 5)
		assert.Equal(t, 5, granted(t, all))
		assert.Equal(t, 5, snapshotOf2(t, m, "new", "1").InFlight, "the newest sent request of the route has named the new hash")
	})
}

// One change of a hash is one change, in whatever order its answers come, also if another route uses the bucket, too.
func TestOneChangeOfAHashIsOneChangeWhereTwoRoutesShareABucket(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t)
		old, new := limited("old", 50, 40, time.Minute), limited("new", 50, 40, time.Minute)
		for _, route := range []routes.CompiledRoute{message(1), list(1)} {
			discover(t, m, route, old)
			wait(time.Millisecond)
		}
		var early []*caller // sent before the hash changed, and answered late
		for range 4 {
			early = append(early, ask(m, message(1)))
			wait(time.Millisecond)
		}
		for _, late := range early {
			post, get := ask(m, message(1)), ask(m, list(1))
			wait(time.Millisecond)
			post.update(new)
			wait(time.Millisecond)
			get.update(new)
			wait(time.Millisecond)
			late.update(old) // overtaken by answers of its own route that say "new"
			wait(time.Millisecond)
		}
		wait(time.Second)
		ask(m, message(1)).update(new)
		wait(time.Millisecond)
		all := asks(m, message(1), 10)
		assert.Equal(t, 10, granted(t, all), "not one at a time")
	})
}

// Routes that were split share their bucket again when they agree, also if the one that stayed was forgotten meanwhile.
func TestRoutesThatAgreeAgainShareTheirBucketAfterOneWasForgotten(t *testing.T) {
	t.Parallel()
	for name, idle := range map[string]time.Duration{"remembered": 10 * time.Second, "forgotten": 5 * time.Hour} {
		subtest(t, name, func(t *testing.T) {
			m := started(t)
			for range 8 {
				discover(t, m, message(1), limited("same", 5, 4, time.Second))
				wait(time.Millisecond)
				discover(t, m, list(1), limited("same", 50, 49, time.Second))
				wait(2 * time.Second)
			}
			separate, other := message(1), list(1)
			for b := range m.Buckets() {
				if b.Hash == "same" && b.Route == list(1).Route().String() {
					separate, other = other, separate
				}
			}
			for range 10 { // the one that is separate is used all the time, the other one not at all
				wait(idle / 10)
				discover(t, m, separate, limited("same", 20, 19, time.Second))
			}
			for range 8 { // both name the same limit now
				wait(2 * time.Second)
				discover(t, m, other, limited("same", 20, 19, time.Second))
				wait(10 * time.Millisecond)
				discover(t, m, separate, limited("same", 20, 18, time.Second))
			}
			wait(2 * time.Second)
			n := 0
			for range 20 {
				for _, route := range []routes.CompiledRoute{separate, other} {
					c := ask(m, route)
					if c.granted() {
						n++
						c.lease.Release()
					}
					c.cancel()
					wait(0)
				}
			}
			assert.LessOrEqual(t, n, 20, "more than the bucket that they share lets through")
		})
	}
}

// A channel whose requests are answered with 404 is as good as any other where each channel has a hash of its own.
func TestChannelThatIsNotThereIsLimitedByItsOwnHash(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorld(t, one(discordsim.Rule{Quota: discordsim.Fixed(5, 10*time.Second), Vary: func(call discordsim.Call) discordsim.Variant {
			v := byChannel(call)
			if call.Major != "1" {
				v.Status = 404
			}
			return v
		}}))
		w.post(1, 1)
		w.finish()
		for channel := range 4 {
			w.post(channel+2, 7)
		}
		w.finish()
		refusedNothing(t, w)
	})
}

// Requests that waited in order while their route was unstable do not go on so when it is not any more.
func TestSingleFileEndsWithTheReasonForIt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(time.Hour))
		for i := range 8 { // as TestHashThatFlipsWithoutAMajorParameterEndsInSingleFile
			discover(t, m, message(1), limited([]string{"first", "second"}[i%2], 50, 49, time.Second))
			wait(2 * time.Millisecond)
		}
		for range 2 {
			all := asks(m, message(1), 3)
			for i, c := range all {
				require.Equal(t, i+1, granted(t, all), "one at a time")
				c.update(limited("first", 50, 49, time.Second))
			}
			wait(10*time.Minute - time.Second)
		}
		inFlight := ask(m, message(1)) // its hashes are believed again
		waiting := asks(m, message(1), 20)
		inFlight.update(limited("first", 50, 49, time.Second))
		wait(time.Millisecond)
		late := ask(m, message(1))
		assert.Equal(t, "first", snapshotOf2(t, m, "first", "1").Hash)
		assert.Equal(t, 20, granted(t, waiting), "the bucket has room for 49")
		assert.True(t, late.granted(), "and for one that comes now")
	})
}
