package shared_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/buckets/shared"
)

// TestASpoiltFieldStopsNobodyElse tests that who uses a bucket of which a field holds nonsense is told so or goes on, and that others do not
// notice.
func TestASpoiltFieldStopsNobodyElse(t *testing.T) {
	const key = "rl2:{default}:b:0123456789abcdef/hash/1"
	for _, field := range []string{"born", "lim", "rem", "fin", "per", "stamp", "free", "hold", "oend", "loan"} {
		for _, value := range []string{"nan", "inf", "-5", "0", "0.5", "1e300", "9007199254740993000", "1.5"} {
			t.Run(field+" "+value, func(t *testing.T) {
				inWorld(t, func(w *world) {
					a, _ := w.limited(shared.WithOutage(shared.OutageFail))
					w.server.Redis.HSet(key, field, value)
					a.join(1)
					other := a.process.use(shared.Key{Hash: "other"})
					other.join(1)
					for range 15 {
						pass(time.Second)
						for a.inFlight() > 0 {
							a.answer(headers(5, 1, 500*ms, int64(w.now()/time.Second)*1000))
						}
					}
					a.mu.Lock()
					defer a.mu.Unlock()
					assert.True(t, len(a.sent) > 1 || a.lent || len(a.errs) > 0, "it hangs")
					for _, err := range append(a.errs, other.errs...) {
						var wrong *shared.KeyError
						assert.True(t, errors.As(err, &wrong), err)
					}
					assert.True(t, other.lent)
					other.giveBack(other.window.State(w.now()))
				})
			})
		}
	}
}
