package load

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
func simulate(t *testing.T, changes ...func(*discordsim.Config)) (*Trace, func(now time.Duration, path string)) {
	t.Helper()
	config := discordsim.Config{
		Rules:  []discordsim.Rule{{Path: "**", Hash: "h", Quota: discordsim.Fixed(2, time.Second)}},
		Global: discordsim.Fixed(4, time.Second),
	}
	for _, change := range changes {
		change(&config)
	}
	trace := &Trace{}
	trace.Start(start)
	trace.Simulator(&config)
	world, err := discordsim.NewWorld(start, config)
	require.NoError(t, err)
	return trace, func(now time.Duration, path string) {
		world.Handle(at(now), discordsim.Request{Method: "POST", Path: path, Authorization: "Bot a"})
	}
}

func TestCallsKnowWhatTheyDidToTheirBucket(t *testing.T) {
	t.Parallel()
	trace, send := simulate(t)
	send(0, "/channels/1/messages")
	send(10*ms, "/channels/2/messages")
	send(20*ms, "/channels/1/messages")
	send(30*ms, "/channels/1/messages") // the bucket is full
	send(40*ms, "/channels/2/messages") // so is the global limit
	log := trace.Log()
	require.Len(t, log.Limits, 3)
	global, one, two := log.Limits[0], log.Limits[1], log.Limits[2]
	assert.Equal(t, discordsim.ClassGlobal, global.Class)
	assert.Equal(t, "1", one.Major)
	assert.Equal(t, []report.Use{
		{At: 0, Taken: true, Used: 1, ResetAfter: time.Second},
		{At: 20 * ms, Taken: true, Used: 2, ResetAfter: 980 * ms},
		{At: 30 * ms, Taken: false, Used: 2, ResetAfter: 970 * ms},
	}, one.Uses)
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
	trace, send := simulate(t, func(c *discordsim.Config) { c.Faults = []discordsim.Fault{{Every: 2, Uncounted: true}} })
	for range 2 {
		send(0, "/channels/1/messages")
	}
	log := trace.Log()
	assert.Equal(t, 0, log.Calls[0].Use)
	assert.Equal(t, -1, log.Calls[1].Use)
	assert.NotNil(t, log.Calls[1].Bucket)
}

func TestOthersAndBlocksAreRecorded(t *testing.T) {
	t.Parallel()
	trace, send := simulate(t, func(c *discordsim.Config) {
		c.Blocks = []discordsim.GlobalBlock{{From: 5 * time.Second, Until: 6 * time.Second}}
		c.Foreign = []discordsim.ForeignUse{{
			Request: discordsim.Request{Method: "POST", Path: "/channels/1/messages", Authorization: "Bot a"},
			At:      []time.Duration{10 * ms},
		}}
	})
	send(20*ms, "/channels/1/messages")
	log := trace.Log()
	assert.Equal(t, []report.Block{{From: 5 * time.Second, Until: 6 * time.Second}}, log.Blocks)
	assert.Len(t, log.Calls, 1)
	bucket := log.Calls[0].Bucket
	assert.Equal(t, []bool{true, false}, []bool{bucket.Uses[0].Foreign, bucket.Uses[1].Foreign})
	assert.Equal(t, 1, log.Calls[0].Use)
}
