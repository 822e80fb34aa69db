package riverlimit_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient/discordtest"
)

const create = "POST /channels/{id}/messages"

// A worker process is killed while it works on 1,000 jobs, and another process takes over. River waits for an hour
// before it gives the jobs of a dead process to another process, and for some seconds before it replaces a dead leader.
// The test makes the database believe that these times have passed.
func TestNoJobIsLostAndNoMessagePostedTwiceWhenAWorkerIsKilled(t *testing.T) {
	t.Parallel()
	const n = 1000
	server := discordtest.NewServer(t, discordtest.Window(create, 250, time.Second), discordtest.GlobalLimit(100_000),
		discordtest.Latency(20*time.Millisecond))
	database, pool := newDatabase(t)
	queue, err := newQueue(pool, 1, &sender{})
	require.NoError(t, err)
	insert(t, queue, "1", n)

	first := startProcess(t, database, server.URL)
	for deadline := time.Now().Add(30 * time.Second); len(server.Requests()) < 400; time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(deadline), "the first process must complete jobs")
	}
	require.NoError(t, first.Process.Kill())
	_ = first.Wait() // the error says that the process was killed
	rows, err := pool.Query(t.Context(), "SELECT args->>'content' FROM river_job WHERE state = 'running'")
	require.NoError(t, err)
	inFlight := make(map[string]bool)
	for rows.Next() {
		var content string
		require.NoError(t, rows.Scan(&content))
		inFlight[content] = true
	}
	require.NoError(t, rows.Err())
	assert.NotEmpty(t, inFlight)
	_, err = pool.Exec(t.Context(),
		"UPDATE river_job SET attempted_at = attempted_at - interval '2 hours' WHERE state = 'running'")
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), "DELETE FROM river_leader")
	require.NoError(t, err)
	startProcess(t, database, server.URL)
	waitFor(t, pool, n, completed, time.Minute)

	created, sent := make(map[string]int), make(map[string]int)
	for _, r := range server.Requests() {
		if r.Status != 200 {
			continue
		}
		var message struct{ Content string }
		require.NoError(t, json.Unmarshal(r.Body, &message))
		if sent[message.Content]++; !r.Repeated {
			created[message.Content]++
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
	t.Logf("%d of %d jobs were under way; %d were sent twice, and posted once", len(inFlight), n, twice)
}
