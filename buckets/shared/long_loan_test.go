package shared_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestALoanOutlastsItsKey tests that a bucket is not lent twice if its holder uses it for longer than the server keeps
// an unwritten key.
func TestALoanOutlastsItsKey(t *testing.T) {
	inWorld(t, func(w *world) {
		f := w.fleet(2, oneRule(five, near))
		defer f.close()
		f.warm(own)
		for range 700 {
			require.NoError(t, f.post(context.Background(), 0, 1))
			pass(time.Second)
		}
		f.saturate(5, 10*time.Second, one)
		assert.Zero(t, f.refused())
	})
}

// TestWhoHasABucketAloneNoticesOthers tests that a bucket which was lent twice, because the server lost the first loan,
// does not stay lent twice.
func TestWhoHasABucketAloneNoticesOthers(t *testing.T) {
	inWorld(t, func(w *world) {
		f := w.fleet(2, oneRule(five, near))
		defer f.close()
		f.warm(own)
		for range 3 {
			require.NoError(t, f.post(context.Background(), 0, 1))
			pass(time.Second)
		}
		for _, key := range w.server.Keys() {
			if strings.HasSuffix(key, "/1") {
				require.True(t, w.server.Evict(key))
			}
		}
		f.saturate(5, 10*time.Second, one)
		assert.LessOrEqual(t, f.refused(), 5, "a window's worth")
	})
}
