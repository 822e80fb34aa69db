package shared

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestGarbageOfAServerIsNoReplyOrABoundedOne reads lists of any numbers as replies of the script.
func TestGarbageOfAServerIsNoReplyOrABoundedOne(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	some := []int64{0, 1, 2, 5, -1, math.MaxInt64, math.MinInt64, math.MaxInt64 - 18, 1 << 40}
	replies := 0
	for range 100_000 {
		values := make([]int64, random.IntN(20))
		for i := range values {
			values[i] = some[random.IntN(len(some))]
		}
		reply, ok := newReply(values)
		if !ok {
			continue
		}
		replies++
		assert.GreaterOrEqual(t, reply.Time, time.Duration(0))
		assert.Positive(t, reply.Time+forever, "there is no overflow")
		for _, loaded := range reply.Values {
			assert.GreaterOrEqual(t, loaded.Life, time.Duration(0))
			assert.LessOrEqual(t, loaded.Life, forever)
			assert.LessOrEqual(t, len(loaded.Value), len(values))
		}
	}
	assert.Positive(t, replies)
}
