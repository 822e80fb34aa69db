// Command example sends a message to each of several channels, by jobs in PostgreSQL that survive a restart:
//
//	DATABASE_URL=postgres://localhost/example TOKEN=… go run ./example CHANNEL…
package main

import (
	"context"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"

	"github.com/ratelight/ratelight/httpclient/jobs"
	"github.com/ratelight/ratelight/httpclient/rest"
	"github.com/ratelight/ratelight/httpclient/riverlimit"
)

// Message is a job: one message to a channel.
type Message struct{ Channel, Content string }

// Kind names the job for River.
func (Message) Kind() string { return "message" }

// sender is the worker of Message jobs.
type sender struct {
	river.WorkerDefaults[Message]
	discord *rest.Client
}

// Work sends one message. A job that would have to wait long goes back to the queue, and a job that runs twice posts
// its message only once.
func (w *sender) Work(ctx context.Context, job *river.Job[Message]) error {
	message := jobs.WithNonce(map[string]string{"content": job.Args.Content}, riverlimit.Nonce(job.JobRow))
	return w.discord.DoJSON(ctx, http.MethodPost, "/channels/"+job.Args.Channel+"/messages", message, nil)
}

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	discord := rest.New(os.Getenv("TOKEN"))
	defer discord.Close()
	pool := must(pgxpool.New(ctx, os.Getenv("DATABASE_URL")))
	defer pool.Close()
	queue := start(ctx, pool, discord)
	for _, channel := range os.Args[1:] {
		must(queue.Insert(ctx, Message{channel, "hello"}, nil))
	}
	<-ctx.Done() // jobs run until the program is interrupted; the next run continues with the rest
	last, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = queue.StopAndCancel(last)
}

// start creates River's tables in a database, and starts the workers of its queue.
func start(ctx context.Context, pool *pgxpool.Pool, discord *rest.Client) *river.Client[pgx.Tx] {
	migrator := must(rivermigrate.New(riverpgxv5.New(pool), nil))
	must(migrator.Migrate(ctx, rivermigrate.DirectionUp, nil))
	workers := river.NewWorkers()
	river.AddWorker(workers, &sender{discord: discord})
	queue := must(river.NewClient(riverpgxv5.New(pool), &river.Config{
		Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 100}},
		Workers: workers,
		Plugins: []rivertype.Plugin{must(riverlimit.New())},
	}))
	must(queue, queue.Start(context.WithoutCancel(ctx)))
	return queue
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
