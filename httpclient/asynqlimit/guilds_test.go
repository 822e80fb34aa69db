package asynqlimit_test

import (
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/httpclient/discordtest"
)

// In asynq's own order, the second guild's tasks would be last, after minutes of the first guild's tasks. With the
// limiter, the tasks of the second guild must not wait for those of the first.
func TestTasksOfOneGuildDoNotDelayThoseOfAnother(t *testing.T) {
	t.Parallel()
	const many, few = 1000, 10
	server := discordtest.NewServer(t, discordtest.Window(create, 5, time.Second), discordtest.GlobalLimit(100_000))
	discord := newDiscord(server.URL)
	t.Cleanup(func() { _ = discord.Close() })
	address, client, _ := newQueue(t)
	enqueue(t, client, "1", many)
	enqueue(t, client, "2", few)
	start(t, address, asynq.Config{Concurrency: 100, DelayedTaskCheckInterval: time.Second}, send(discord))
	sent := func(channel string) (n int) {
		for _, r := range server.Requests() {
			if strings.HasSuffix(r.Path, "/channels/"+channel+"/messages") {
				n++
			}
		}
		return n
	}
	eventually(t, time.Minute, func() bool { return sent("2") == few })
	assert.Less(t, sent("1"), many/2, "most of the first guild's tasks must still wait")
	assert.Empty(t, server.Avoidable())
}
