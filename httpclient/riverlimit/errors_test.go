package riverlimit_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient/discordtest"
	"github.com/ratelight/ratelight/httpclient/jobs"
	"github.com/ratelight/ratelight/httpclient/rest"
	"github.com/ratelight/ratelight/httpclient/riverlimit"
)

// step is a job that ends with the error that its name describes.
type step struct {
	Name string `json:"name"`
}

func (step) Kind() string { return "step" }

type stepper struct {
	river.WorkerDefaults[step]
	discord *rest.Client
}

var errDisk = errors.New("disk full")

func (s *stepper) Work(ctx context.Context, job *river.Job[step]) error {
	switch job.Args.Name {
	case "its own snooze":
		return river.JobSnooze(time.Hour)
	case "its own cancel":
		return river.JobCancel(errDisk)
	case "another error":
		return errDisk
	case "a JSON error of its own":
		return json.Unmarshal([]byte("{"), new(step))
	}
	return s.discord.DoJSON(ctx, http.MethodPost, "/channels/"+job.Args.Name+"/messages", nil, nil)
}

// row has those columns of a job in River's table that the tests look at.
type row struct {
	state    string
	attempt  int
	snoozes  int
	wait     time.Duration
	messages []string
}

func look(t *testing.T, pool *pgxpool.Pool, id int64) (r row) {
	t.Helper()
	var wait float64
	require.NoError(t, pool.QueryRow(t.Context(), `
		SELECT state::text, attempt, coalesce((metadata->>'snoozes')::int, 0),
			extract(epoch FROM scheduled_at - now())::float8,
			coalesce((SELECT array_agg(e->>'error') FROM unnest(errors) e), '{}')
		FROM river_job WHERE id = $1`, id).Scan(&r.state, &r.attempt, &r.snoozes, &wait, &r.messages))
	r.wait = time.Duration(wait * float64(time.Second))
	return r
}

func TestWhatBecomesOfAJob(t *testing.T) {
	t.Parallel()
	server := discordtest.NewServer(t,
		discordtest.Refuse("POST /channels/7/messages", discordtest.User, time.Hour),
		discordtest.Answer("POST /channels/403/messages", 403, `{"code":50013,"message":"Missing Permissions"}`),
		discordtest.Answer("POST /channels/404/messages", 404, `{"code":10003}`),
		discordtest.Answer("POST /channels/500/messages", 500, nil))
	discord := newDiscord(server.URL)
	t.Cleanup(func() { _ = discord.Close() })
	_, pool := newDatabase(t)
	queue, err := newQueue(pool, 10, &stepper{discord: discord})
	require.NoError(t, err)
	const retried = "retryable available running" // River retries for the first time after a second
	cases := map[string]struct {
		state            string
		attempt, snoozes int
		message          string
	}{
		"1":                       {"completed", 1, 0, ""},
		"7":                       {"scheduled", 0, 1, ""},
		"403":                     {"cancelled", 1, 0, "Missing Permissions"},
		"404":                     {"cancelled", 1, 0, "404"},
		"500":                     {retried, 1, 0, "500"},
		"another error":           {retried, 1, 0, "disk full"},
		"a JSON error of its own": {retried, 1, 0, "unexpected end of JSON input"},
		"its own snooze":          {"scheduled", 0, 1, ""},
		"its own cancel":          {"cancelled", 1, 0, "disk full"},
		"unreadable":              {"cancelled", 1, 0, "the arguments of job"},
	}
	ids := make(map[string]int64)
	for name := range cases {
		inserted, err := queue.Insert(t.Context(), step{name}, nil)
		require.NoError(t, err)
		ids[name] = inserted.Job.ID
	}
	_, err = pool.Exec(t.Context(), `UPDATE river_job SET args = '{"name": 7}' WHERE id = $1`, ids["unreadable"])
	require.NoError(t, err)
	start(t, queue)
	waitFor(t, pool, 0, "SELECT count(*) FROM river_job WHERE state = 'running' OR state = 'available' AND attempt = 0",
		time.Minute)
	for name, c := range cases {
		r := look(t, pool, ids[name])
		assert.Contains(t, c.state, r.state, name)
		assert.Equal(t, c.snoozes, r.snoozes, name)
		if c.state == retried {
			assert.GreaterOrEqual(t, r.attempt, c.attempt, name)
		} else {
			assert.Equal(t, c.attempt, r.attempt, name)
		}
		if c.message != "" {
			require.NotEmpty(t, r.messages, name)
			assert.Contains(t, r.messages[0], c.message, name)
		}
	}
	assert.Greater(t, look(t, pool, ids["7"]).wait, 50*time.Minute)
}

func TestOptionsThatMakeNoSenseAreNamed(t *testing.T) {
	t.Parallel()
	_, err := riverlimit.New(jobs.WithMaxWait(-time.Second))
	assert.EqualError(t, err, "riverlimit: jobs: WithMaxWait(-1s): want 0 or more")
}

func TestANonceIsTheSameForEachAttemptOfAJob(t *testing.T) {
	t.Parallel()
	_, pool := newDatabase(t)
	queue, err := newQueue(pool, 1, &sender{})
	require.NoError(t, err)
	a, err := queue.Insert(t.Context(), Message{}, nil)
	require.NoError(t, err)
	b, err := queue.Insert(t.Context(), Message{}, nil)
	require.NoError(t, err)
	again, err := queue.JobGet(t.Context(), a.Job.ID)
	require.NoError(t, err)
	assert.Equal(t, riverlimit.Nonce(a.Job), riverlimit.Nonce(again))
	assert.NotEqual(t, riverlimit.Nonce(a.Job), riverlimit.Nonce(b.Job))
	assert.NotEqual(t, riverlimit.Nonce(a.Job), riverlimit.Nonce(a.Job, "second"))
}
