package shared_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/buckets"
)

// TestACallSaysABoundedAmount tests that many who leave together keep nobody waiting at the server.
func TestACallSaysABoundedAmount(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.limited()
		a.asleep = true
		var tickets []buckets.Ticket
		for range 5000 {
			tickets = append(tickets, a.bucket.Join(w.now(), w.now()))
		}
		b.join(4)
		pass(100 * ms)
		for _, ticket := range tickets {
			a.bucket.Leave(w.now(), ticket)
		}
		pass(100 * ms)
		assert.Less(t, a.link.most, 2000)
		assert.True(t, b.served(4), "their places are free")
	})
}
