package buckets_test

import (
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
)

// notebook notes what the leases of a limiter are told.
type notebook struct{ refused, ended []ratelimits.Response }

func (n *notebook) End(_ bool, r ratelimits.Response) { n.ended = append(n.ended, r) }
func (n *notebook) Refused(r ratelimits.Response)     { n.refused = append(n.refused, r) }

// endOnly takes no notice of refusals.
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
	assert.Len(t, notes.refused, 1, "it has ended")
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

// What a lease stood for is used again by others, whom the old lease must not reach.
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
