package shared_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWhoClosesShortensNobodysLife tests that the last call of a session, which says that this session ends soon, does
// not make other sessions believe that the holder of the bucket ends soon.
func TestWhoClosesShortensNobodysLife(t *testing.T) {
	inWorld(t, func(w *world) {
		p, q := w.process(), w.process()
		a, b, c := p.use(someKey), q.use(someKey), w.process().use(someKey)
		a.join(1)
		pass(1100 * ms)
		require.True(t, a.lent)
		p.link.kill(true) // for less time than the others believe in it
		b.join(1)
		pass(50 * ms)
		b.bucket.Hold(w.now(), time.Second, 0) // which the last call says
		q.session.Close()
		pass(1300 * ms)
		c.join(1)
		pass(100 * ms)
		require.Greater(t, a.until(), w.now())
		assert.False(t, c.lent)
		assert.Zero(t, c.leaves())
	})
}
