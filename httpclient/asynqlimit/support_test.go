package asynqlimit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/asynqlimit"
	"github.com/ratelight/ratelight/httpclient/jobs"
	"github.com/ratelight/ratelight/httpclient/rest"
	"github.com/ratelight/ratelight/internal/redistest"
)

// If workerVariable is set, the test's program runs as a worker process, with the Redis server and the fake Discord
// that the other two variables name.
const (
	workerVariable  = "ASYNQLIMIT_WORKER"
	redisVariable   = "ASYNQLIMIT_REDIS"
	discordVariable = "ASYNQLIMIT_DISCORD"
)

func TestMain(m *testing.M) {
	if os.Getenv(workerVariable) == "1" {
		fmt.Fprintln(os.Stderr, workForEver(os.Getenv(redisVariable), os.Getenv(discordVariable)))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

const create = "POST /channels/{id}/messages"

// message is the payload of a task that sends one message to a channel.
type message struct {
	Channel string `json:"channel"`
	Content string `json:"content"`
}

// newDiscord returns a client of the fake Discord at url, without an effective global limit.
func newDiscord(url string) *rest.Client {
	return rest.New("token", rest.WithBaseURL(url+"/api/v10"), rest.WithTransport(
		httpclient.WithBuckets(buckets.WithGlobalLimit(100_000)), httpclient.WithLogger(slog.New(slog.DiscardHandler))))
}

// send returns a handler that sends messages.
func send(discord *rest.Client) asynq.Handler {
	return asynqlimit.JSON(func(ctx context.Context, m message) error {
		body := jobs.WithNonce(map[string]string{"content": m.Content}, asynqlimit.Nonce(ctx))
		return discord.DoJSON(ctx, http.MethodPost, "/channels/"+m.Channel+"/messages", body, nil)
	})
}

// quiet is a logger that drops everything, because the tests cause warnings on purpose.
type quiet struct{}

func (quiet) Debug(...any) {}
func (quiet) Info(...any)  {}
func (quiet) Warn(...any)  {}
func (quiet) Error(...any) {}
func (quiet) Fatal(...any) { os.Exit(1) }

// newServer returns a server with the given configuration, to which the limiter's settings are added.
func newServer(address string, config asynq.Config, handler asynq.Handler,
	options ...jobs.Option) (*asynq.Server, error) {
	limiter, err := asynqlimit.New(options...)
	if err != nil {
		return nil, err
	}
	config.Logger = quiet{}
	server := asynq.NewServer(asynq.RedisClientOpt{Addr: address}, limiter.Configure(config))
	return server, server.Start(limiter.Middleware(handler))
}

// start starts a server that runs until the test ends.
func start(t *testing.T, address string, config asynq.Config, handler asynq.Handler, options ...jobs.Option) {
	t.Helper()
	server, err := newServer(address, config, handler, options...)
	require.NoError(t, err)
	t.Cleanup(server.Shutdown)
}

// newQueue starts a Redis server, and returns its address and asynq's two clients for it.
func newQueue(t *testing.T) (address string, client *asynq.Client, inspector *asynq.Inspector) {
	t.Helper()
	address = redistest.NewEngine(t).Address()
	client = asynq.NewClient(asynq.RedisClientOpt{Addr: address})
	inspector = asynq.NewInspector(asynq.RedisClientOpt{Addr: address})
	t.Cleanup(func() { assert.NoError(t, errors.Join(client.Close(), inspector.Close())) })
	return address, client, inspector
}

// enqueue adds n messages for a channel. The content of a message is also the id of its task.
func enqueue(t *testing.T, client *asynq.Client, channel string, n int) {
	t.Helper()
	for i := range n {
		content := fmt.Sprintf("%s-%d", channel, i)
		payload, err := json.Marshal(message{channel, content})
		require.NoError(t, err)
		_, err = client.EnqueueContext(t.Context(), asynq.NewTask("message", payload), asynq.TaskID(content),
			asynq.Retention(time.Hour))
		require.NoError(t, err)
	}
}

// eventually waits until the function so returns true. The test fails if the wait reaches longest.
func eventually(t *testing.T, longest time.Duration, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(longest); !so(); time.Sleep(50 * time.Millisecond) {
		require.True(t, time.Now().Before(deadline), "the condition does not become true in time")
	}
}

// completed returns the number of completed tasks.
func completed(t *testing.T, inspector *asynq.Inspector) int {
	t.Helper()
	info, err := inspector.GetQueueInfo("default")
	require.NoError(t, err)
	return info.Completed
}

// workForEver works on tasks until the process is killed.
func workForEver(address, discord string) error {
	if _, err := newServer(address, asynq.Config{Concurrency: 100}, send(newDiscord(discord))); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, os.Stdin) // Stdin is closed when the test ends
	return errors.Join(errors.New("the test has ended"), err)
}

// startProcess starts a worker process, which ends when the test ends.
func startProcess(t *testing.T, address, discord string) *exec.Cmd {
	t.Helper()
	process := exec.Command(os.Args[0])
	process.Env = append(os.Environ(), workerVariable+"=1", redisVariable+"="+address, discordVariable+"="+discord)
	process.Stderr = os.Stderr
	_, err := process.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, process.Start())
	t.Cleanup(func() {
		_ = process.Process.Kill()
		_ = process.Wait() // the error says that the process was killed
	})
	return process
}
