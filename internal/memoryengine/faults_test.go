package memoryengine_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/internal/memoryengine"
)

// counter is a server that counts the calls which reach it.
type counter struct {
	*memoryengine.Faults
	n atomic.Int64
}

func withCounter(t *testing.T, test func(t *testing.T, c *counter)) {
	synctest.Test(t, func(t *testing.T) {
		c := &counter{Faults: memoryengine.NewFaults()}
		defer c.Close()
		test(t, c)
	})
}

// call makes a call with a timeout of one second.
func (c *counter) call() (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return memoryengine.Deliver(ctx, c.Faults, "count", func() (int, error) {
		return int(c.n.Add(1)), nil
	})
}

func TestCallsAreLostAndLate(t *testing.T) {
	withCounter(t, func(t *testing.T, c *counter) {
		fate := memoryengine.Fate{Lost: true}
		c.Decide(func(purpose string) memoryengine.Fate {
			assert.Equal(t, "count", purpose)
			return fate
		})
		_, err := c.call()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		fate = memoryengine.Fate{LostReply: true}
		_, err = c.call()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		fate = memoryengine.Fate{Before: 3 * time.Second}
		_, err = c.call()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		fate = memoryengine.Fate{}
		n, err := c.call()
		require.NoError(t, err)
		assert.Equal(t, 2, n, "the lost call was not counted, and the late call will be counted later")
		time.Sleep(2*time.Second + time.Millisecond)
		fate = memoryengine.Fate{Before: 100 * time.Millisecond, After: 200 * time.Millisecond}
		start := time.Now()
		n, err = c.call()
		require.NoError(t, err)
		assert.Equal(t, 4, n)
		assert.Equal(t, 300*time.Millisecond, time.Since(start))
		assert.Equal(t, map[string]int{"count": 5}, c.Calls())
		assert.Equal(t, 5, c.Total())
	})
}

func TestDownAndFrozen(t *testing.T) {
	withCounter(t, func(t *testing.T, c *counter) {
		c.SetDown(true)
		_, err := c.call()
		require.ErrorIs(t, err, memoryengine.ErrDown)
		assert.True(t, c.LosesMessages())
		c.SetDown(false)
		assert.False(t, c.LosesMessages())
		c.SetFrozen(true)
		_, err = c.call()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.True(t, c.LosesMessages())
		c.SetFrozen(false)
		synctest.Wait()
		n, err := c.call()
		require.NoError(t, err)
		assert.Equal(t, 2, n, "the server has carried out the call that timed out")
		c.SetQuiet(true)
		assert.True(t, c.LosesMessages())
	})
}

func TestCloseEndsCallsThatAreDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counter{Faults: memoryengine.NewFaults()}
		c.Decide(func(string) memoryengine.Fate { return memoryengine.Fate{Before: time.Hour} })
		_, err := c.call()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		c.Decide(nil)
		c.SetFrozen(true)
		_, err = c.call()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		start := time.Now()
		c.Close()
		assert.Zero(t, time.Since(start))
		assert.Zero(t, c.n.Load())
	})
}
