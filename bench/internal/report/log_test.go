package report_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/bench/internal/report"
	"github.com/ratelight/ratelight/internal/discordsim"
)

var start = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return start.Add(d) }

// simulate makes a world that a trace listens to.
func simulate(t *testing.T, changes ...func(*discordsim.Config)) (*report.Log, func(now time.Duration, path string)) {
	t.Helper()
	config := discordsim.Config{
		Rules:  []discordsim.Rule{{Path: "**", Hash: "h", Quota: discordsim.Fixed(2, time.Second)}},
		Global: discordsim.Fixed(4, time.Second),
	}
	for _, change := range changes {
		change(&config)
	}
	log := report.NewLog(true)
	log.Start(start)
	log.Observe(&config)
	world, err := discordsim.NewWorld(start, config)
	require.NoError(t, err)
	return log, func(now time.Duration, path string) {
		world.Handle(at(now), discordsim.Request{Method: "POST", Path: path, Authorization: "Bot a"})
	}
}

func TestCallsKnowWhatTheyDidToTheirBucket(t *testing.T) {
	t.Parallel()
	log, send := simulate(t)
	send(0, "/channels/1/messages")
	send(10*ms, "/channels/2/messages")
	send(20*ms, "/channels/1/messages")
	send(30*ms, "/channels/1/messages") // the bucket is full
	send(40*ms, "/channels/2/messages") // so is the global limit
	require.Len(t, log.Limits, 3)
	global, one, two := log.Limits[0], log.Limits[1], log.Limits[2]
	assert.Equal(t, discordsim.ClassGlobal, global.Class)
	assert.Equal(t, "1", one.Major)
	require.Len(t, one.Uses, 3)
	for i, want := range []struct {
		at         time.Duration
		taken      bool
		remaining  int
		resetAfter time.Duration
	}{{0, true, 1, time.Second}, {20 * ms, true, 0, 980 * ms}, {30 * ms, false, 0, 970 * ms}} {
		use := one.Uses[i]
		assert.Equal(t, want.at, use.At)
		assert.Equal(t, want.taken, use.Taken)
		assert.Equal(t, want.remaining, use.State.Remaining)
		assert.Equal(t, want.resetAfter, use.State.ResetAfter)
	}
	assert.Len(t, two.Uses, 1)
	assert.Equal(t, discordsim.Fixed(4, time.Second), global.Quota)
	assert.Len(t, global.Uses, 5)

	require.Len(t, log.Calls, 5)
	for i, want := range []struct {
		bucket *report.Limit
		use    int
		class  discordsim.Class
	}{{one, 0, 0}, {two, 0, 0}, {one, 1, 0}, {one, 2, discordsim.ClassUser}, {nil, -1, discordsim.ClassGlobal}} {
		assert.Same(t, want.bucket, log.Calls[i].Bucket, i)
		assert.Equal(t, want.use, log.Calls[i].Use, i)
		assert.Equal(t, want.class, log.Calls[i].Class, i)
	}
	assert.Equal(t, discordsim.Avoidable, log.Calls[3].Verdict)
	assert.NotEmpty(t, log.Calls[3].Because)
	assert.Equal(t, 40*ms, log.Lasted)
}

func TestUncountedCallHasNoUse(t *testing.T) {
	t.Parallel()
	log, send := simulate(t, func(c *discordsim.Config) { c.Faults = []discordsim.Fault{{Every: 2, Uncounted: true}} })
	for range 2 {
		send(0, "/channels/1/messages")
	}
	assert.Equal(t, 0, log.Calls[0].Use)
	assert.Equal(t, -1, log.Calls[1].Use)
	assert.NotNil(t, log.Calls[1].Bucket)
}

func TestOthersAndBlocksAreRecorded(t *testing.T) {
	t.Parallel()
	log, send := simulate(t, func(c *discordsim.Config) {
		c.Blocks = []discordsim.GlobalBlock{{From: 5 * time.Second, Until: 6 * time.Second}}
		c.Foreign = []discordsim.ForeignUse{{
			Request: discordsim.Request{Method: "POST", Path: "/channels/1/messages", Authorization: "Bot a"},
			At:      []time.Duration{10 * ms},
		}}
	})
	send(20*ms, "/channels/1/messages")
	assert.Equal(t, []discordsim.GlobalBlock{{From: 5 * time.Second, Until: 6 * time.Second}}, log.Blocks)
	assert.Len(t, log.Calls, 1)
	bucket := log.Calls[0].Bucket
	assert.Equal(t, []discordsim.Consumer{discordsim.Foreign, discordsim.Own}, []discordsim.Consumer{bucket.Uses[0].Who, bucket.Uses[1].Who})
	assert.Equal(t, 1, log.Calls[0].Use)
}
