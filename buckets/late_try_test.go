package buckets_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
)

// The request that tries whether the seconds are punctual again may be a large upload: all others of the credential
// wait for it no longer than until the second is certainly open.
func TestOthersDoNotWaitLongForTheOneThatTriesTheSeconds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithGlobalLimit(4))
		discover(t, m, message(1), plain(200))
		wait(5 * time.Second)
		all := asks(m, message(1), 5)
		require.Equal(t, 4, granted(t, all))
		for _, c := range all[:4] {
			c.update(plain(200))
		}
		wait(time.Second + roundings)
		require.Equal(t, 5, granted(t, all))
		all[4].update(refused(ratelimits.ClassGlobal, 190*ms))
		wait(3 * time.Minute) // then it is tried
		discover(t, m, message(1), plain(200))
		wait(5 * time.Second)
		all = asks(m, message(1), 8)
		require.Equal(t, 4, granted(t, all))
		for _, c := range all[:4] {
			c.update(plain(200))
		}
		wait(time.Second + roundings)
		require.Equal(t, 5, granted(t, all), "one tries")
		wait(900 * ms)
		require.Equal(t, 5, granted(t, all), "the second may not be open yet")
		wait(100 * ms)
		early := granted(t, all)
		wait(12 * time.Second)
		late := granted(t, all)
		wait(3 * time.Second)
		assert.Equal(t, 8, early, "after a second; %d after 13 s, %d after 16 s", late, granted(t, all))
	})
}
