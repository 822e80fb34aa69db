package shared_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

func TestMeasureForeign(t *testing.T) {
	for _, foreign := range []float64{0, .02, .2} {
		inWorld(t, func(w *world) {
			f := w.fleet(4, oneRule(five, near))
			defer f.close()
			f.warm(func(m int) int { return 1 + 10*m })
			chance := rand.New(rand.NewPCG(1, 2))
			calls, before := w.server.Total(), f.discord.Report().Accepted
			rate := f.saturate(20, 30*time.Second, func(m int) int {
				if chance.Float64() < foreign {
					m = chance.IntN(4)
				}
				return 1 + 10*m + chance.IntN(10)
			})
			n := f.discord.Report().Accepted - before
			fmt.Printf("foreign %v: rate %.1f refused %d, calls per request %.3f %v\n", foreign, rate, f.refused(), float64(w.server.Total()-calls)/float64(n), w.server.Calls())
		})
	}
}
