package buckets_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
)

// These tests compare the defaults with the documented numbers. Tests that use the constants would pass with any value.

func TestBucketIsEvictedTenSecondsAfterItsResetByDefault(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, message(1), limited("early", 5, 4, 9*time.Second))
		discover(t, m, list(1), limited("late", 5, 4, 11*time.Second))
		kept := func() (hashes []string) {
			for b := range m.Buckets() {
				if b.Hash != buckets.UnknownHash {
					hashes = append(hashes, b.Hash)
				}
			}
			return hashes
		}
		wait(20*time.Second - time.Millisecond)
		assert.ElementsMatch(t, []string{"early", "late"}, kept(), "the garbage collector has not run yet")
		wait(2 * time.Millisecond)
		assert.Equal(t, []string{"late"}, kept(), "the bucket \"late\" can be evicted from 21 s on")
		wait(20*time.Second - 2*time.Millisecond)
		assert.Equal(t, []string{"late"}, kept())
		wait(2 * time.Millisecond)
		assert.Empty(t, kept())
	})
}

func TestWaitOfFiveMinutesIsAcceptedByDefault(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, message(1),
			inBucket(refused(ratelimits.ClassUser, 301*time.Second), "messages", 5, 0, time.Second))
		var tooLong *ratelimits.TooLongError
		require.ErrorAs(t, ask(m, message(1)).failed(), &tooLong)
		assert.Equal(t, 300*time.Second, tooLong.Max)
		wait(2 * time.Second)
		assert.False(t, ask(m, message(1)).done(), "the request waits 299 s")
	})
}

func TestFiftyRequestsASecondLeaveByDefault(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := buckets.NewRESTBucketManager()
		require.NoError(t, m.Start())
		defer m.Close()
		discover(t, m, message(1), plain(200))
		wait(2 * time.Second)
		all := asks(m, message(1), 60)
		require.Equal(t, 50, granted(t, all))
		for _, c := range all[:50] {
			c.lease.Return()
		}
		for _, c := range all[50:] {
			c.cancel()
		}
	})
}

func TestBudgetOfInvalidRequestsByDefault(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		assert.Equal(t, 9500, m.Stats().InvalidLimit)
		discover(t, m, message(1), plain(403))
		wait(10*time.Minute - 10*time.Second)
		assert.Equal(t, 1, m.Stats().Invalid)
		wait(20 * time.Second)
		assert.Zero(t, m.Stats().Invalid)
	})
}
