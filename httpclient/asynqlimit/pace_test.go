package asynqlimit_test

import (
	"context"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/httpclient/discordtest"
)

// If RATELIGHT_LONG is 1, the test runs 10,000 tasks at 5 a second, which takes 34 minutes, and asserts how long they
// took. Otherwise it runs 2,000 tasks at 100 a second, and does not assert the time, which would depend too much on the
// machine. As the README advises, asynq looks for due tasks every second. (Its default is every five seconds.)
func TestTasksThatAreDueAtOnceLeaveAtThePaceOfTheirBucket(t *testing.T) {
	t.Parallel()
	n, limit, workers := 2000, 100, 700
	long := os.Getenv("RATELIGHT_LONG") == "1"
	if long {
		n, limit, workers = 10_000, 5, 50
	}
	server := discordtest.NewServer(t, discordtest.Window(create, limit, time.Second), discordtest.GlobalLimit(100_000))
	discord := newDiscord(server.URL)
	t.Cleanup(func() { _ = discord.Close() })
	address, client, inspector := newQueue(t)
	enqueue(t, client, "1", n)
	var runs, failures atomic.Int64
	work := send(discord)
	start(t, address, asynq.Config{
		Concurrency: workers, DelayedTaskCheckInterval: time.Second,
		ErrorHandler: asynq.ErrorHandlerFunc(func(context.Context, *asynq.Task, error) { failures.Add(1) }),
	}, asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		runs.Add(1)
		return work.ProcessTask(ctx, task)
	}))
	ideal := time.Duration(n/limit-1) * time.Second
	eventually(t, 2*ideal+time.Minute, func() bool { return completed(t, inspector) == n })

	sent := server.Requests()
	took, snoozes := sent[len(sent)-1].Time.Sub(sent[0].Time), runs.Load()-int64(n)
	t.Logf("%d tasks, %d a second: %v, ideal %v: %.4f; %d snoozes", n, limit, took, ideal, ideal.Seconds()/took.Seconds(),
		snoozes)
	if long {
		assert.GreaterOrEqual(t, ideal.Seconds()/took.Seconds(), 0.97)
	}
	assert.Empty(t, server.Avoidable())
	assert.Len(t, sent, n)
	assert.Positive(t, snoozes)
	assert.Zero(t, failures.Load(), "a snooze is no failure")
}
