package buckets_test

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
)

// The first call that ends a lease counts; later calls must have no effect.
func TestOnlyTheFirstEndOfALeaseCounts(t *testing.T) {
	t.Parallel()
	update := func(l buckets.Lease) { l.Update(limited("messages", 5, 4, time.Minute)) }
	for _, c := range []struct {
		name      string
		ends      []func(buckets.Lease)
		lost, ok  uint64
		remaining int
	}{
		{"released twice", []func(buckets.Lease){buckets.Lease.Release, buckets.Lease.Release}, 1, 0, 3},
		{"updated after release", []func(buckets.Lease){buckets.Lease.Release, update}, 1, 0, 3},
		{"released after update", []func(buckets.Lease){update, buckets.Lease.Release}, 0, 1, 3},
		{"updated twice", []func(buckets.Lease){update, update}, 0, 1, 3},
		{"returned twice", []func(buckets.Lease){buckets.Lease.Return, buckets.Lease.Return}, 0, 0, 4},
		{"released after return", []func(buckets.Lease){buckets.Lease.Return, buckets.Lease.Release}, 0, 0, 4},
		{"returned after release", []func(buckets.Lease){buckets.Lease.Release, buckets.Lease.Return}, 1, 0, 3},
		{"returned after update", []func(buckets.Lease){update, buckets.Lease.Return}, 0, 1, 3},
	} {
		subtest(t, c.name, func(t *testing.T) {
			m := started(t)
			discover(t, m, message(1), limited("messages", 5, 4, time.Minute))
			ask(m, message(2)) // stays in flight, to show that the calls do not end another lease
			lease := ask(m, message(1)).lease
			assert.Equal(t, 2, m.Stats().InFlight)
			for _, end := range c.ends {
				end(lease)
			}
			s := m.Stats()
			assert.Equal(t, 1, s.InFlight)
			assert.Equal(t, c.lost, s.Lost)
			assert.Equal(t, 1+c.ok, s.Responses[ratelimits.ClassOK])
			assert.Equal(t, c.remaining, bucketOf(t, m, "1").Remaining)
		})
	}
}

// bucketOf returns a bucket that has this major parameter and a known hash.
func bucketOf(t *testing.T, m *buckets.RESTBucketManager, major string) buckets.LimitSnapshot {
	t.Helper()
	for b := range m.Buckets() {
		if b.Major == major && b.Hash != buckets.UnknownHash {
			return b
		}
	}
	require.FailNow(t, "no bucket", "major %s", major)
	return buckets.LimitSnapshot{}
}

func TestZeroLeaseDoesNothing(t *testing.T) {
	t.Parallel()
	assert.NotPanics(t, func() {
		var l buckets.Lease
		l.Update(roomy)
		l.Release()
		l.Return()
	})
}

func TestLeaseEndsOnceWhateverGoroutineEndsIt(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		lease := ask(m, message(1)).lease
		var all sync.WaitGroup
		for i := range 30 {
			all.Go(func() {
				switch i % 3 {
				case 0:
					lease.Update(limited("messages", 5, 4, time.Minute))
				case 1:
					lease.Release()
				default:
					lease.Return()
				}
			})
		}
		all.Wait()
		s := m.Stats()
		assert.LessOrEqual(t, s.Lost+s.Responses[ratelimits.ClassOK], uint64(1))
		assert.Zero(t, s.InFlight)
	})
}

func TestLeaseCanBeEndedAfterClose(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(buckets.Lease){
		"update":  func(l buckets.Lease) { l.Update(limited("messages", 5, 0, time.Hour)) },
		"refused": func(l buckets.Lease) { l.Update(refused(ratelimits.ClassUser, time.Hour)) },
		"release": buckets.Lease.Release,
		"return":  buckets.Lease.Return,
	} {
		subtest(t, name, func(t *testing.T) {
			m := started(t)
			lease := ask(m, message(1)).lease
			assert.NoError(t, m.Close())
			end(lease)
			assert.Zero(t, m.Stats().InFlight)
			assert.Zero(t, m.Stats().Buckets)

			require.NoError(t, m.Start())
			assert.True(t, ask(m, message(1)).granted(), "the restarted manager does not know the old lease's response")
		})
	}
}

// The manager reuses the memory of leases. An old copy of a lease that has ended must not end another request's lease.
func TestStaleLeaseNeverTouchesAnother(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, message(1), plain(204))
		var stale []buckets.Lease
		for range 500 {
			c := ask(m, message(1))
			require.True(t, c.granted())
			for _, old := range stale {
				old.Return()
				old.Update(refused(ratelimits.ClassUser, time.Hour))
				old.Release()
			}
			require.Equal(t, 1, m.Stats().InFlight)
			stale = append(stale[max(len(stale)-10, 0):], c.lease)
			c.lease.Update(plain(204))
		}
		s := m.Stats()
		assert.Equal(t, uint64(501), s.Responses[ratelimits.ClassOK])
		assert.Zero(t, s.Lost+s.Responses[ratelimits.ClassUser])
	})
}

// The manager reuses the memory of leases. A Request whose lease has ended must not get the place of the request that
// uses that memory now.
func TestEndedRequestDoesNotGetThePlaceOfAnother(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, message(1), roomy)
		done := ask(m, message(1))
		done.update(roomy)
		for range 20 {
			lease, err := m.Acquire(background, message(1), bot)
			require.NoError(t, err)
			lease.Release()
		}
		ask(m, message(1)).update(limited("messages", 1, 0, time.Minute))
		before := ask(m, message(1))
		done.again(m)
		wait(time.Minute + 10*time.Millisecond)
		require.False(t, done.done())
		require.True(t, before.granted())
	})
}

// notebook is another limiter's lease that records all responses.
type notebook struct{ refused, ended []ratelimits.Response }

func (n *notebook) End(_ bool, r ratelimits.Response) { n.ended = append(n.ended, r) }
func (n *notebook) Refused(r ratelimits.Response)     { n.refused = append(n.refused, r) }

// endOnly is another limiter's lease without the method Refused.
type endOnly struct{ ended int }

func (e *endOnly) End(bool, ratelimits.Response) { e.ended++ }

func TestAnotherLimiterIsToldOfARefusalBeforeItsLeaseEnds(t *testing.T) {
	t.Parallel()
	headers := ratelimits.Response{Status: http.StatusTooManyRequests, Class: ratelimits.ClassUser}
	whole := headers
	whole.Class = ratelimits.ClassGlobal
	var notes notebook
	lease := buckets.NewLease(&notes)
	lease.Refused(headers)
	assert.Equal(t, []ratelimits.Response{headers}, notes.refused)
	assert.Empty(t, notes.ended)
	lease.Update(whole)
	lease.Refused(headers)
	assert.Len(t, notes.refused, 1, "the lease has ended")
	assert.Equal(t, []ratelimits.Response{whole}, notes.ended)
}

func TestAnotherLimiterNeedNotBeToldOfRefusals(t *testing.T) {
	t.Parallel()
	var e endOnly
	lease := buckets.NewLease(&e)
	lease.Refused(ratelimits.Response{})
	assert.Zero(t, e.ended)
	lease.Release()
	assert.Equal(t, 1, e.ended)
	assert.NotPanics(t, func() { buckets.Lease{}.Refused(ratelimits.Response{}) })
}

// The manager reuses the memory of leases. A call of Refused on a lease that has ended, or is ending, must not reach
// the next lease.
func TestALeaseThatHasEndedTellsNobodyOfARefusal(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 1000 {
				var first, second notebook
				old := buckets.NewLease(&first)
				var late sync.WaitGroup
				late.Go(func() { old.Return() })
				late.Go(func() { old.Refused(ratelimits.Response{}) })
				late.Wait()
				next := buckets.NewLease(&second)
				old.Refused(ratelimits.Response{})
				next.Return()
				assert.Empty(t, second.refused)
			}
		})
	}
	all.Wait()
}
