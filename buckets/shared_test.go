package buckets_test

import (
	"context"
	"iter"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// accepted returns the numbers of the requests that the server accepted, in the order in which it accepted them.
func accepted(s *discordsim.Server) (numbers []int) {
	events := slices.Clone(s.Events())
	slices.SortFunc(events, func(a, b discordsim.Event) int { return a.Accepted - b.Accepted })
	for _, e := range events {
		if e.Accepted > 0 {
			numbers = append(numbers, int(e.Sequence))
		}
	}
	return numbers
}

func refusals(s *discordsim.Server) (n int) {
	for _, e := range s.Events() {
		if e.Status == http.StatusTooManyRequests {
			n++
		}
	}
	return n
}

func TestCancelledWaitersGiveTheirPlaceBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a, b := sharers(t, 1)
		first, second, third := ask(a, message(1)), askShared(a, message(1)), askShared(b, message(1))
		require.True(t, first.granted())
		second.cancel()
		synctest.Wait()
		require.ErrorIs(t, second.failed(), context.Canceled)
		first.update(limited("messages", 1, 0, time.Second))
		wait(1100 * time.Millisecond)
		require.True(t, third.granted())
		third.lease.Return() // the request was not sent
		assert.True(t, askShared(a, message(1)).granted())
	})
}

func TestLeasesThatWereNotSentAreGivenBackToAll(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a, b := sharers(t, 2)
		first, second, third := ask(a, message(1)), askShared(a, message(1)), askShared(b, message(1))
		require.True(t, first.granted() && second.granted())
		require.False(t, third.done())
		second.lease.Return()
		exchanged()
		assert.True(t, third.granted())
	})
}

func TestTryAcquireWaitsOnlyForTheFirstAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &noisy{store: patientStore(t)}
		a, b := pair(t, s)
		known(t, 2, a, b)
		lease, err := a.TryAcquire(message(1), bot)
		require.NoError(t, err)
		require.True(t, rightNow(b, message(1)).granted())
		tooLong(t, rightNow(b, message(1)))
		lease.Update(limited("messages", 2, 0, time.Second))
		exchanged()

		s.freeze(true)
		c := rightNow(a, message(1))
		wait(400 * time.Millisecond)
		s.changed()
		require.False(t, c.done(), "the engine has not answered yet")
		s.freeze(false)
		late := tooLong(t, c)
		assert.InDelta(t, 0.6, (late.Wait - late.Waited).Seconds(), 0.02)
		assert.InDelta(t, 0.4, late.Waited.Seconds(), 0.02)
		wait(time.Second)
		s.freeze(true)
		c = rightNow(a, message(1))
		require.False(t, c.done())
		s.freeze(false)
		require.True(t, c.granted())
	})
}

// Even a request with a maximum wait of 0 waits for the store's answer, but for at most a second. If there is no answer
// by then, the request is rejected.
func TestAcquireAtOnceGetsNoAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &noisy{store: patientStore(t)}
		a, b := pair(t, s)
		known(t, 2, a, b)
		s.freeze(true)
		c := rightNow(a, message(1))
		wait(990 * time.Millisecond)
		s.changed()
		require.False(t, c.done())
		wait(10 * time.Millisecond)
		s.changed()
		tooLong(t, c)
	})
}

// prompt is a store that answers while the manager reports its waiting requests.
type prompt struct{ shared.Source }

type promptSession struct{ shared.Session }

type promptBucket struct{ shared.Bucket }

func (p prompt) Join(clock clockwork.Clock, origin time.Time) shared.Session {
	return promptSession{p.Source.Join(clock, origin)}
}

func (s promptSession) Bucket(key shared.Key, w *ratelimits.Window, changed func()) shared.Bucket {
	return promptBucket{s.Session.Bucket(key, w, changed)}
}

func (b promptBucket) Demand(now time.Duration, waiting int, arrivals iter.Seq[time.Duration]) {
	b.Bucket.Demand(now, waiting, arrivals)
	for range 1000 { // bounded, because the store may not answer before Demand returns
		if waiting == 0 || b.Bucket.Predict(now, waiting-1).Certain {
			return
		}
		runtime.Gosched()
	}
}

// The store's answer with a permit comes after the manager has found no permit, but before the manager decides about
// the request. Even a request that must not wait must then be granted.
func TestAnswerThatComesBeforeARequestIsJudged(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a, b := pair(t, prompt{newStore(t)})
		known(t, 5, a, b)
		for _, m := range []*buckets.RESTBucketManager{a, b} { // after this, the bucket is not lent
			discoverShared(t, m, message(1), limited("messages", 5, 3, time.Second))
		}
		assert.True(t, rightNow(b, message(1)).granted())
	})
}

// Requests that must not wait must be rejected at once, whatever they would have to wait for.
func TestTryAcquireAlwaysComesBack(t *testing.T) {
	t.Parallel()
	var inFlight ratelimits.Response
	for name, c := range map[string]struct {
		limit   int // limit of the bucket; 0 if the bucket is not known
		byOther bool
		before  ratelimits.Response // to the previous request, which the other manager sends if byOther is true
		route   routes.CompiledRoute
	}{
		"sub-limit": {5, false, inBucket(refused(ratelimits.ClassSubLimit, time.Minute), "messages", 5, 4, time.Second),
			message(1)},
		"hold of a route that is not known": {0, false, refused(ratelimits.ClassGlobal, time.Minute), followUp(1)},
		"probe of the other manager":        {0, true, inFlight, message(1)},
		"own probe":                         {0, false, inFlight, message(1)},
		"hold": {5, true, usedUp("messages", 5, time.Minute),
			message(1)},
		"global hold": {5, true, refused(ratelimits.ClassGlobal, time.Minute), message(1)},
		"edge":        {5, false, refused(ratelimits.ClassEdge, time.Minute), message(1)},
		"used up":     {1, false, inFlight, message(1)},
	} {
		subtest(t, name, func(t *testing.T) {
			a, b := pair(t, newStore(t))
			if c.limit > 0 {
				known(t, c.limit, a, b)
			}
			sender := map[bool]*buckets.RESTBucketManager{false: a, true: b}[c.byOther]
			before := askShared(sender, c.route)
			require.True(t, before.granted())
			if c.before.Status != 0 {
				before.update(c.before)
			}
			for range 2 {
				tooLong(t, rightNow(a, c.route))
			}
		})
	}
}

func TestOutagesReachWhoWaitsAndWhoComes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStore(t, shared.WithOutage(shared.OutageFail))
		a, b := pair(t, s)
		known(t, 1, a, b)
		first, theirs := askShared(a, message(1)), askShared(b, message(1))
		probe, waits := askShared(a, list(1)), askShared(b, list(1))
		require.True(t, first.granted() && probe.granted())
		s.outage(true)
		for _, c := range []*caller{theirs, waits, ask(a, message(1)), ask(b, list(1))} {
			require.ErrorIs(t, c.failed(), shared.ErrOutage)
		}
		_, err := b.TryAcquire(message(1), bot)
		require.ErrorIs(t, err, shared.ErrOutage)
		_, because, err := b.Predict(request(message(1)))
		require.ErrorIs(t, err, shared.ErrOutage)
		require.Equal(t, buckets.WaitsForOutage, because)
		s.outage(false)
		first.update(limited("messages", 1, 0, time.Second))
		probe.update(limited("list", 1, 0, time.Second))
		later := ask(b, message(1))
		wait(1100 * time.Millisecond)
		assert.True(t, later.granted())
	})
}

func TestManagersThatShareAreClosedAndStartedAgain(t *testing.T) {
	t.Parallel()
	for name, frozen := range map[string]bool{"engine answers": false, "engine does not answer": true} {
		subtest(t, name, func(t *testing.T) {
			s := newStore(t)
			a, b := pair(t, s, buckets.WithGlobalLimit(50))
			known(t, 2, a)
			s.freeze(frozen)
			var callers []*caller
			for _, m := range []*buckets.RESTBucketManager{a, b} {
				callers = append(callers, asks(m, message(1), 4)...)
				callers = append(callers, asks(m, list(1), 3)...)
			}
			var all sync.WaitGroup
			for _, m := range []*buckets.RESTBucketManager{a, b} {
				all.Go(func() { assert.NoError(t, m.Close()) })
			}
			all.Wait()
			synctest.Wait()
			for _, c := range callers {
				require.True(t, c.done())
				if c.err != nil {
					require.ErrorIs(t, c.err, buckets.ErrClosed)
				} else { // leases that end after Close must change nothing
					c.lease.Update(limited("messages", 2, 1, time.Second))
				}
			}
			s.freeze(false)
			require.NoError(t, a.Start())
			require.NoError(t, b.Start())
			for _, m := range []*buckets.RESTBucketManager{a, b} {
				c := ask(m, message(1))
				wait(12 * time.Second)
				answer(t, c, limited("messages", 2, 1, time.Second))
			}
		})
	}
}

// While a session closes, the store may still call changed functions, and the session's Close waits for these calls. So
// the manager's Close must not hold a lock that the calls need.
func TestNewsThatComeWhileASessionEnds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithShared(&noisy{store: newStore(t)}))
		c := asks(m, message(1), 3)
		require.NoError(t, m.Close())
		synctest.Wait()
		require.ErrorIs(t, c[2].failed(), buckets.ErrClosed)
	})
}

// A request with priority leaves with the permit of another request. In return, the other request gets the place of the
// request with priority. If the other request is then cancelled, requests of other managers must not wait for it.
func TestPlacesOfOneManagerAreExchanged(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a, b := sharers(t, 1)
		first, usual := ask(a, message(1)), ask(a, message(1))
		hasty := urgent(a)
		theirs := askShared(b, message(1))
		first.update(limited("messages", 1, 0, time.Second))
		wait(1100 * time.Millisecond)
		require.True(t, hasty.granted())
		usual.cancel()
		synctest.Wait()
		hasty.update(limited("messages", 1, 0, time.Second))
		wait(1100 * time.Millisecond)
		require.True(t, theirs.granted())
	})
}

func TestNilSharesNothing(t *testing.T) {
	t.Parallel()
	var none *shared.Store
	for _, option := range []buckets.Option{buckets.WithShared(nil), buckets.WithShared(none)} {
		m := buckets.NewRESTBucketManager(option)
		assert.False(t, m.Shares())
		assert.NoError(t, m.Start())
		assert.NoError(t, m.Close())
	}
}

// In an outage, no request may wait longer than its maximum wait, even if its route moves to another bucket meanwhile.
func TestMaxWaitHoldsInAnOutageWhenARouteMoves(t *testing.T) {
	t.Parallel()
	for name, moves := range map[string]bool{"stays": false, "moves": true} {
		subtest(t, name, func(t *testing.T) {
			s := newStore(t)
			m := started(t, buckets.WithShared(s))
			discover(t, m, message(1), limited("messages", 1, 0, time.Second))
			wait(2 * time.Second)
			probe := ask(m, list(1))
			require.True(t, probe.granted())
			impatient := call(buckets.ContextWithMaxWait(background, 5*time.Second), m, *request(list(1)))
			require.False(t, impatient.done())
			until, cancel := context.WithTimeout(background, 5*time.Second)
			defer cancel()
			deadline := call(until, m, *request(list(1)))
			wait(time.Second)
			s.outage(true)
			if moves {
				probe.update(limited("messages", 1, 0, time.Second))
			}
			wait(10 * time.Second)
			var tooLong *ratelimits.TooLongError
			assert.ErrorAs(t, impatient.failed(), &tooLong, "the maximum wait is 5 s, and the request has waited 12 s")
			assert.ErrorAs(t, deadline.failed(), &tooLong, "the error says that the deadline has passed in an outage")
			s.outage(false)
			impatient.cancel()
			if !moves {
				probe.update(limited("messages", 1, 0, time.Second))
			}
			wait(10 * time.Second)
			if impatient.granted() {
				impatient.lease.Release()
			}
		})
	}
}
