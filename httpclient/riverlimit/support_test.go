package riverlimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/jobs"
	"github.com/ratelight/ratelight/httpclient/rest"
	"github.com/ratelight/ratelight/httpclient/riverlimit"
	"github.com/ratelight/ratelight/internal/postgrestest"
)

// If workerVariable is set, the test's program runs as a worker process, with the database and the fake Discord that
// the other two variables name.
const (
	workerVariable   = "RIVERLIMIT_WORKER"
	databaseVariable = "RIVERLIMIT_DATABASE"
	discordVariable  = "RIVERLIMIT_DISCORD"
)

func TestMain(m *testing.M) {
	if os.Getenv(workerVariable) == "1" {
		fmt.Fprintln(os.Stderr, workForEver(os.Getenv(databaseVariable), os.Getenv(discordVariable)))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// Message is a job that sends one message to a channel.
type Message struct {
	Channel string `json:"channel"`
	Content string `json:"content"`
}

func (Message) Kind() string { return "message" }

// sender works on Message jobs.
type sender struct {
	river.WorkerDefaults[Message]
	discord *rest.Client
}

func (s *sender) Work(ctx context.Context, job *river.Job[Message]) error {
	message := jobs.WithNonce(map[string]string{"content": job.Args.Content}, riverlimit.Nonce(job.JobRow))
	return s.discord.DoJSON(ctx, http.MethodPost, "/channels/"+job.Args.Channel+"/messages", message, nil)
}

// silent is a logger that drops all lines, because the tests cause warnings on purpose.
var silent = slog.New(slog.DiscardHandler)

// newDiscord returns a client of the fake Discord at url, without an effective global limit.
func newDiscord(url string) *rest.Client {
	return rest.New("token", rest.WithBaseURL(url+"/api/v10"), rest.WithTransport(
		httpclient.WithBuckets(buckets.WithGlobalLimit(100_000)), httpclient.WithLogger(silent)))
}

// newDatabase starts a database with River's tables.
func newDatabase(t *testing.T) (url string, pool *pgxpool.Pool) {
	t.Helper()
	url = postgrestest.NewServer(t)
	pool, err := pgxpool.New(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: silent})
	require.NoError(t, err)
	_, err = migrator.Migrate(t.Context(), rivermigrate.DirectionUp, nil)
	require.NoError(t, err)
	return url, pool
}

// newQueue returns a River client with default settings, except for the number of workers.
func newQueue[T river.JobArgs](pool *pgxpool.Pool, workers int, worker river.Worker[T],
	options ...jobs.Option) (*river.Client[pgx.Tx], error) {
	plugin, err := riverlimit.New(options...)
	if err != nil {
		return nil, err
	}
	all := river.NewWorkers()
	river.AddWorker(all, worker)
	return river.NewClient(riverpgxv5.New(pool), &river.Config{
		Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: workers}},
		Workers: all,
		Plugins: []rivertype.Plugin{plugin},
		Logger:  silent,
	})
}

// start starts a queue that runs until the test ends.
func start(t *testing.T, queue *river.Client[pgx.Tx]) {
	t.Helper()
	require.NoError(t, queue.Start(context.WithoutCancel(t.Context())))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		assert.NoError(t, queue.StopAndCancel(ctx))
	})
}

// insert adds n messages for a channel, in the order of their contents.
func insert(t *testing.T, queue *river.Client[pgx.Tx], channel string, n int) {
	t.Helper()
	all := make([]river.InsertManyParams, n)
	for i := range all {
		all[i].Args = Message{Channel: channel, Content: fmt.Sprintf("%s-%d", channel, i)}
	}
	_, err := queue.InsertManyFast(t.Context(), all)
	require.NoError(t, err)
}

// count returns the number that a query selects.
func count(t *testing.T, pool *pgxpool.Pool, query string) (n int) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(), query).Scan(&n))
	return n
}

// waitFor waits until a query selects want. The test fails if the wait reaches longest.
func waitFor(t *testing.T, pool *pgxpool.Pool, want int, query string, longest time.Duration) {
	t.Helper()
	for deadline := time.Now().Add(longest); ; time.Sleep(50 * time.Millisecond) {
		n := count(t, pool, query)
		if n == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %d, want %d", query, n, want)
		}
	}
}

const completed = "SELECT count(*) FROM river_job WHERE state = 'completed'"

// workForEver works on messages until the process is killed.
func workForEver(database, discord string) error {
	pool, err := pgxpool.New(context.Background(), database)
	if err != nil {
		return err
	}
	queue, err := newQueue(pool, 100, &sender{discord: newDiscord(discord)})
	if err != nil {
		return err
	}
	if err := queue.Start(context.Background()); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin) // Stdin is closed when the test ends
	return errors.Join(errors.New("the test has ended"), err)
}

// startProcess starts a worker process, which ends when the test ends.
func startProcess(t *testing.T, database, discord string) *exec.Cmd {
	t.Helper()
	process := exec.Command(os.Args[0])
	process.Env = append(os.Environ(), workerVariable+"=1", databaseVariable+"="+database, discordVariable+"="+discord)
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
