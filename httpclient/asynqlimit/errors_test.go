package asynqlimit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient/asynqlimit"
	"github.com/ratelight/ratelight/httpclient/discordtest"
	"github.com/ratelight/ratelight/httpclient/jobs"
	"github.com/ratelight/ratelight/httpclient/rest"
	"github.com/ratelight/ratelight/ratelimits"
)

var errDisk = errors.New("disk full")

// steps returns a handler for tasks whose payload names the error that the handler returns.
func steps(discord *rest.Client) asynq.Handler {
	return asynqlimit.JSON(func(ctx context.Context, name string) error {
		switch name {
		case "its own cancel":
			return fmt.Errorf("%w: %w", errDisk, asynq.SkipRetry)
		case "another error":
			return errDisk
		case "a JSON error of its own":
			return json.Unmarshal([]byte("{"), new(string))
		}
		return discord.DoJSON(ctx, http.MethodPost, "/channels/"+name+"/messages", nil, nil)
	})
}

// reported records the errors that asynq passes to its ErrorHandler.
type reported struct {
	mu  sync.Mutex
	all map[string]string
}

func (r *reported) HandleError(_ context.Context, task *asynq.Task, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all[string(task.Payload())] = err.Error()
}

func TestWhatBecomesOfATask(t *testing.T) {
	t.Parallel()
	server := discordtest.NewServer(t,
		discordtest.Refuse("POST /channels/7/messages", discordtest.User, time.Hour),
		discordtest.Answer("POST /channels/403/messages", 403, `{"code":50013,"message":"Missing Permissions"}`),
		discordtest.Answer("POST /channels/404/messages", 404, `{"code":10003}`),
		discordtest.Answer("POST /channels/500/messages", 500, nil))
	discord := newDiscord(server.URL)
	t.Cleanup(func() { _ = discord.Close() })
	address, client, inspector := newQueue(t)
	cases := map[string]struct {
		state   asynq.TaskState
		retried int
		message string
	}{
		`"1"`:                       {asynq.TaskStateCompleted, 0, ""},
		`"7"`:                       {asynq.TaskStateRetry, 0, "snoozed until"},
		`"403"`:                     {asynq.TaskStateArchived, 0, "Missing Permissions"},
		`"404"`:                     {asynq.TaskStateArchived, 0, "404"},
		`"500"`:                     {asynq.TaskStateRetry, 1, "500"},
		`"another error"`:           {asynq.TaskStateRetry, 1, "disk full"},
		`"a JSON error of its own"`: {asynq.TaskStateRetry, 1, "unexpected end of JSON input"},
		`"its own cancel"`:          {asynq.TaskStateArchived, 0, "disk full"},
		`{"no": "text"}`:            {asynq.TaskStateArchived, 0, `the payload of a task of type "step" cannot be read`},
	}
	ids := make(map[string]string)
	for payload := range cases {
		info, err := client.Enqueue(asynq.NewTask("step", []byte(payload)), asynq.Retention(time.Hour))
		require.NoError(t, err)
		ids[payload] = info.ID
	}
	errs := &reported{all: make(map[string]string)}
	start(t, address, asynq.Config{
		Concurrency: 10, ErrorHandler: errs,
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Hour },
	}, steps(discord))
	eventually(t, time.Minute, func() bool {
		info, err := inspector.GetQueueInfo("default")
		require.NoError(t, err)
		return info.Pending+info.Active == 0
	})
	for payload, c := range cases {
		info, err := inspector.GetTaskInfo("default", ids[payload])
		require.NoError(t, err)
		assert.Equal(t, c.state, info.State, payload)
		assert.Equal(t, c.retried, info.Retried, payload)
		assert.Contains(t, info.LastErr, c.message, payload)
		errs.mu.Lock()
		_, told := errs.all[payload]
		errs.mu.Unlock()
		assert.Equal(t, c.message != "" && c.message != "snoozed until", told, "a snooze must not be reported: %s", payload)
		if payload == `"7"` {
			assert.Greater(t, time.Until(info.NextProcessAt), 50*time.Minute)
		}
	}
}

// asynq would archive a task that is snoozed in its last attempt. So the last attempt must wait in the process instead.
func TestTheLastAttemptOfATaskWaitsInTheProcess(t *testing.T) {
	t.Parallel()
	server := discordtest.NewServer(t, discordtest.Refuse(create, discordtest.User, 300*time.Millisecond).Nth(1))
	discord := newDiscord(server.URL)
	t.Cleanup(func() { _ = discord.Close() })
	address, client, inspector := newQueue(t)
	payload, err := json.Marshal(message{"1", "hello"})
	require.NoError(t, err)
	_, err = client.Enqueue(asynq.NewTask("message", payload), asynq.MaxRetry(0), asynq.Retention(time.Hour))
	require.NoError(t, err)
	start(t, address, asynq.Config{Concurrency: 1}, send(discord), jobs.WithMaxWait(0))
	eventually(t, time.Minute, func() bool { return completed(t, inspector) == 1 })
	assert.Len(t, server.Requests(), 2)
}

func TestAConfigurationKeepsWhatItSaysOfOtherErrors(t *testing.T) {
	t.Parallel()
	limiter, err := asynqlimit.New(jobs.WithSpread(0))
	require.NoError(t, err)
	task := asynq.NewTask("step", nil)
	snooze := limiter.Middleware(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		options := buckets.OptionsOf(ctx)
		assert.True(t, options.HasMaxWait)
		assert.Equal(t, jobs.DefaultMaxWait, options.MaxWait)
		return &ratelimits.TooLongError{Wait: time.Hour}
	})).ProcessTask(t.Context(), task)
	require.ErrorAs(t, snooze, new(*asynqlimit.SnoozeError))
	require.ErrorAs(t, snooze, new(*ratelimits.TooLongError))

	config := limiter.Configure(asynq.Config{})
	assert.False(t, config.IsFailure(snooze))
	assert.True(t, config.IsFailure(errDisk))
	assert.InDelta(t, time.Hour, config.RetryDelayFunc(0, snooze, task), float64(time.Minute))
	assert.Greater(t, config.RetryDelayFunc(3, errDisk, task), 81*time.Second, "asynq's own delay")
	assert.Equal(t, time.Second, config.RetryDelayFunc(3, asynq.ErrLeaseExpired, task))

	config = limiter.Configure(asynq.Config{
		IsFailure:      func(err error) bool { return !errors.Is(err, errDisk) },
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Minute },
	})
	assert.False(t, config.IsFailure(snooze))
	assert.False(t, config.IsFailure(errDisk))
	assert.InDelta(t, time.Hour, config.RetryDelayFunc(0, snooze, task), float64(time.Minute))
	assert.Equal(t, time.Minute, config.RetryDelayFunc(0, errDisk, task))
}

func TestOptionsThatMakeNoSenseAreNamed(t *testing.T) {
	t.Parallel()
	_, err := asynqlimit.New(jobs.WithSpread(-time.Second))
	assert.EqualError(t, err, "asynqlimit: jobs: WithSpread(-1s): want 0 or more")
}

func TestANonceIsThatOfTheTask(t *testing.T) {
	t.Parallel()
	limiter, err := asynqlimit.New()
	require.NoError(t, err)
	nonce := func(payload string, parts ...string) (nonce string) {
		handler := limiter.Middleware(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
			nonce = asynqlimit.Nonce(ctx, parts...)
			return nil
		}))
		require.NoError(t, handler.ProcessTask(t.Context(), asynq.NewTask("message", []byte(payload))))
		return nonce
	}
	assert.Equal(t, nonce("a"), nonce("a"))
	assert.NotEqual(t, nonce("a"), nonce("b"))
	assert.NotEqual(t, nonce("a"), nonce("a", "second"))
}
