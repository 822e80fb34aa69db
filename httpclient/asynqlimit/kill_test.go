package asynqlimit_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient/discordtest"
	"github.com/ratelight/ratelight/internal/redistest"
)

// A worker process is killed while it works on 1,000 tasks, and another process takes over. asynq waits for a minute
// before it gives the tasks of a dead process to another process. The test makes Redis believe that this minute has
// passed.
func TestNoTaskIsLostAndNoMessagePostedTwiceWhenAWorkerIsKilled(t *testing.T) {
	t.Parallel()
	const n = 1000
	server := discordtest.NewServer(t, discordtest.Window(create, 250, time.Second), discordtest.GlobalLimit(100_000),
		discordtest.Latency(20*time.Millisecond))
	engine := redistest.NewEngine(t)
	client := asynq.NewClient(asynq.RedisClientOpt{Addr: engine.Address()})
	defer client.Close()
	inspector := asynq.NewInspector(asynq.RedisClientOpt{Addr: engine.Address()})
	defer inspector.Close()
	enqueue(t, client, "1", n)

	first := startProcess(t, engine.Address(), server.URL)
	eventually(t, 30*time.Second, func() bool { return len(server.Requests()) >= 400 })
	require.NoError(t, first.Process.Kill())
	_ = first.Wait() // the error says that the process was killed
	answer, err := engine.Do("LRANGE", "asynq:{default}:active", "0", "-1")
	require.NoError(t, err)
	inFlight := make(map[string]bool)
	for _, id := range answer.([]any) {
		inFlight[id.(string)] = true
		_, err := engine.Do("ZADD", "asynq:{default}:lease", "XX", "0", id.(string))
		require.NoError(t, err)
	}
	assert.NotEmpty(t, inFlight)
	startProcess(t, engine.Address(), server.URL)
	eventually(t, time.Minute, func() bool { return completed(t, inspector) == n })

	created, sent := make(map[string]int), make(map[string]int)
	for _, r := range server.Requests() {
		if r.Status != 200 {
			continue
		}
		var m message
		require.NoError(t, json.Unmarshal(r.Body, &m))
		if sent[m.Content]++; !r.Repeated {
			created[m.Content]++
		}
	}
	assert.Len(t, created, n, "no message may be lost")
	twice := 0
	for content, times := range sent {
		assert.Equal(t, 1, created[content], "%s was posted twice", content)
		if times > 1 {
			twice++
			assert.True(t, inFlight[content], "%s was sent again, although it was not under way", content)
		}
	}
	t.Logf("%d of %d tasks were under way; %d were sent twice, and posted once", len(inFlight), n, twice)
}
