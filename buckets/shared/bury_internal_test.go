package shared

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/ratelimits"
)

// TestWhatTheDeadMayHaveSentLateStaysCharged tests that a permit counts as used at the end of its session's life: it
// may have waited for the global limit until then.
func TestWhatTheDeadMayHaveSentLateStaysCharged(t *testing.T) {
	granted, period := time.Hour, 10*time.Second
	s := state{window: ratelimits.NewWindow(granted, ratelimits.State{Limit: 1, Period: period})}
	s.touch(granted, "dead", 1, 0)
	s.enqueue("dead", []place{{session: "dead", number: 1, arrived: granted}})
	require.Len(t, s.serve(granted), 1)
	now := granted + 8*time.Second // its session lived, and used other buckets, for five
	s.bury(now, "dead")
	at, ok := s.window.Next(now)
	require.True(t, ok)
	assert.GreaterOrEqual(t, at, now+period)
}
