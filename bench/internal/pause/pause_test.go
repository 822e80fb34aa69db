package pause_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"

	"github.com/ratelight/ratelight/bench/internal/pause"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAPauseEndsWithItsTimeOrItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		assert.NoError(t, pause.For(ctx, time.Second))
		assert.Equal(t, time.Second, time.Since(start))
		assert.NoError(t, pause.For(ctx, -time.Hour))
		assert.ErrorIs(t, pause.For(ctx, time.Hour), context.DeadlineExceeded)
		assert.Equal(t, 3*time.Second, time.Since(start))
		assert.ErrorIs(t, pause.For(ctx, 0), context.DeadlineExceeded)
	})
}
