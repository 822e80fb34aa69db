package buckets_test

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/buckets"
)

// A declared limit that has room makes nobody wait, but those to whom it applies wait for their bucket all the same:
// they are counted there, whatever keys they have, and nobody waits much longer than he may.
func TestWhoIsSubjectToADeclaredLimitIsCountedInHisBucket(t *testing.T) {
	t.Parallel()
	firstField := func(r *buckets.Request) string {
		if r.Fields == nil {
			return ""
		}
		return r.Fields()[0]
	}
	for name, options := range map[string][]buckets.LimitOption{
		"together":  nil,
		"per key":   {buckets.PerKey(firstField)},
		"per group": {buckets.PerGroup()},
	} {
		subtest(t, name, func(t *testing.T) {
			m := started(t, buckets.WithMaxRateLimit(10*time.Second), buckets.WithLimit(buckets.ForAll(), 100, time.Minute, options...))
			used := limited("messages", 1, 0, time.Second)
			discover(t, m, message(1), used)
			var longest time.Duration
			refused, start := 0, time.Now()
			for i := range 50 {
				r := request(message(1))
				r.Fields = func() []string { return []string{strconv.Itoa(i)} }
				if name == "per group" {
					r.Group = strconv.Itoa(i)
				}
				buckets.AcquireFunc(context.Background(), m, r, func(lease buckets.Lease, err error) {
					if err != nil {
						refused++
						return
					}
					longest = time.Since(start)
					lease.Update(used)
				})
				synctest.Wait()
			}
			wait(time.Minute)
			assert.InDelta(t, 10*time.Second, longest, float64(2*time.Second))
			assert.InDelta(t, 40, refused, 2)
		})
	}
}
