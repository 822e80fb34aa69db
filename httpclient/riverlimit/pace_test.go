package riverlimit_test

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient/discordtest"
)

// If RATELIGHT_LONG is 1, the test runs 10,000 jobs at 5 a second, which takes 34 minutes, and asserts how long they
// took. Otherwise it does not assert the time, which would depend too much on the machine.
func TestJobsThatAreDueAtOnceLeaveAtThePaceOfTheirBucket(t *testing.T) {
	t.Parallel()
	n, limit, workers := 2000, 100, 700
	long := os.Getenv("RATELIGHT_LONG") == "1"
	if long {
		n, limit, workers = 10_000, 5, 50
	}
	server := discordtest.NewServer(t, discordtest.Window(create, limit, time.Second), discordtest.GlobalLimit(100_000))
	discord := newDiscord(server.URL)
	t.Cleanup(func() { _ = discord.Close() })
	_, pool := newDatabase(t)
	queue, err := newQueue(pool, workers, &sender{discord: discord})
	require.NoError(t, err)
	insert(t, queue, "1", n)
	start(t, queue)
	ideal := time.Duration(n/limit-1) * time.Second
	waitFor(t, pool, n, completed, 2*ideal+time.Minute)

	sent := server.Requests()
	took := sent[len(sent)-1].Time.Sub(sent[0].Time)
	snoozes := count(t, pool, "SELECT sum((metadata->>'snoozes')::int) FROM river_job")
	t.Logf("%d jobs, %d a second: %v, ideal %v: %.4f; %d snoozes", n, limit, took, ideal, ideal.Seconds()/took.Seconds(),
		snoozes)
	if long {
		assert.GreaterOrEqual(t, ideal.Seconds()/took.Seconds(), 0.97)
	}
	assert.Empty(t, server.Avoidable())
	assert.Len(t, sent, n)
	assert.Positive(t, snoozes)
	assert.Zero(t, count(t, pool, "SELECT count(*) FROM river_job WHERE attempt <> 1"), "a snooze uses up no attempt")
}
