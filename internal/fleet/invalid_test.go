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

// All processes behind one address have one budget of invalid requests. The other processes know within two seconds
// what one process has counted.
func TestInvalidRequestsOfAllCountTogether(t *testing.T) {
	t.Parallel()
	config := everything(0)
	config.Default.Status = 403 // a 401 would end it at once
	config.Rules = append(config.Rules, discordsim.Rule{Method: "GET", Path: "/channels/1", Quota: discordsim.Unlimited()})
	inBubble(t, fleet.Config{
		Processes: 4, Discord: config, Buckets: []buckets.Option{buckets.WithInvalidBudget(100, 10*time.Minute, 0)},
	}, func(t *testing.T, f *fleet.Fleet) {
		var refused atomic.Int32
		for _, p := range f.Processes {
			f.Go(func() {
				p.Do(t.Context(), fleet.Request{Method: "GET", Path: "/channels/1"}) // proves the credential
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
		assert.LessOrEqual(t, invalid, 100+16, "what four processes send in two seconds")
		assert.Positive(t, refused.Load())
	})
}
