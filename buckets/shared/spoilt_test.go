package shared_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
)

// If a stored state is invalid, requests to its bucket get an error or are sent. Other buckets are not affected.
func TestASpoiltStateStopsNobodyElse(t *testing.T) {
	const key = "rl2:{default}:b:0123456789abcdef/hash/1"
	for _, spoilt := range []byte{0, '7', 0xff} {
		for step := range 40 {
			t.Run(fmt.Sprint(spoilt, " ", step), func(t *testing.T) {
				inWorld(t, func(w *world) {
					a, _ := w.limited(shared.WithOutage(shared.OutageFail))
					value := w.server.Value(key)
					require.NotEmpty(t, value)
					changed := []byte(value)
					if at := step * len(value) / 20; step < 20 {
						changed[at] = spoilt
					} else {
						changed = append(changed[:at-len(value)], spoilt) // cut
					}
					w.server.Set(key, string(changed))
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
