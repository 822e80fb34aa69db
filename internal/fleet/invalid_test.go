package fleet_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/fleet"
	"github.com/ratelight/ratelight/ratelimits"
)

// All processes with the same IP address share one budget of invalid requests. Within two seconds, a process knows the
// counts of the others.
func TestInvalidRequestsOfAllProcessesCountTogether(t *testing.T) {
	t.Parallel()
	config := everything(0)
	config.Default.Status = 403 // not 401, which would block the credential at once
	config.Rules = append(config.Rules, discordsim.Rule{Method: "GET", Path: "/channels/1", Quota: discordsim.Unlimited()})
	inBubble(t, fleet.Config{
		Processes: 4, Discord: config, Buckets: []buckets.Option{buckets.WithInvalidBudget(100, 10*time.Minute, 0)},
	}, func(t *testing.T, f *fleet.Fleet) {
		var refused atomic.Int32
		for _, p := range f.Processes {
			f.Go(func() {
				p.Do(t.Context(), fleet.Request{Method: "GET", Path: "/channels/1"}) // proves that the credential is valid
				for f.Now() < time.Minute {
					o := p.Do(t.Context(), fleet.Request{Method: "GET", Path: "/users/@me"})
					if errors.As(o.Err, new(*ratelimits.BudgetError)) {
						refused.Add(1)
					}
					time.Sleep(500 * time.Millisecond)
				}
			})
		}
		finish(t, f, time.Hour)
		invalid := f.Discord.Report().Invalid
		t.Logf("%d invalid, %d refused by the budget", invalid, refused.Load())
		assert.GreaterOrEqual(t, invalid, 100)
		assert.LessOrEqual(t, invalid, 100+16, "four processes send 16 requests in two seconds")
		assert.Positive(t, refused.Load())
	})
}
