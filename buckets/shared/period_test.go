package shared_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// A bucket that only one process uses stays lent to it, although each burst shows a longer period than the quiet time
// before: the other processes already know that period.
func TestABucketWhosePeriodSeemsToChangeStaysLent(t *testing.T) {
	for name, quota := range map[string]discordsim.Quota{
		"leaky": discordsim.Leaky(5, 5*time.Second), "aligned": discordsim.Aligned(5, 5*time.Second, 0),
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				f := w.fleet(1, oneRule(discordsim.Rule{Hash: "h", Quota: quota}, near))
				defer f.close()
				f.warm(one)
				pass(30 * time.Second)
				before, sent := w.server.Calls()["swap"], 0
				for range 20 {
					for range 4 {
						require.NoError(t, f.post(context.Background(), 0, 1))
						pass(6 * time.Second)
					}
					for range quota.Limit {
						f.all.Go(func() { assert.NoError(t, f.post(context.Background(), 0, 1)) })
					}
					f.all.Wait()
					pass(6 * time.Second)
					sent += 4 + quota.Limit
				}
				assert.Less(t, 10*(w.server.Calls()["swap"]-before), sent, "calls, times ten, for %d requests", sent)
				assert.Zero(t, f.refused())
			})
		})
	}
}
