// Command example sends 60 messages to two channels of a fake Discord with jobs in PostgreSQL. Each channel accepts
// five messages in five seconds. Stop the command at any time and start it again: it continues with the remaining jobs,
// and adds 60.
//
//	DATABASE_URL=postgres://localhost/example go run ./example
package main

import (
	"context"
	"fmt"
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

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/discordtest"
	"github.com/ratelight/ratelight/httpclient/jobs"
	"github.com/ratelight/ratelight/httpclient/rest"
	"github.com/ratelight/ratelight/httpclient/riverlimit"
)

// Message is a job: one message to a channel.
type Message struct {
	Channel string `json:"channel"`
	Content string `json:"content"`
}

// Kind names the job for River.
func (Message) Kind() string { return "message" }

// Sender is the worker of Message jobs.
type Sender struct {
	river.WorkerDefaults[Message]
	discord *rest.Client
}

// Work sends one message.
func (w *Sender) Work(ctx context.Context, job *river.Job[Message]) error {
	message := jobs.WithNonce(map[string]string{"content": job.Args.Content}, riverlimit.Nonce(job.JobRow))
	err := w.discord.DoJSON(ctx, http.MethodPost, "/channels/"+job.Args.Channel+"/messages", message, nil)
	fmt.Println(time.Now().Format(time.TimeOnly), job.Args.Channel, job.Args.Content, err)
	return err
}

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer pool.Close()
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}

	fake := discordtest.NewServer(nil)
	defer fake.Close()
	// Without the option the client sends to Discord itself.
	discord := rest.New("token", rest.WithTransport(httpclient.WithBase(fake.Client().Transport)))
	defer discord.Close()
	queue, err := newQueue(pool, discord)
	if err != nil {
		return err
	}
	if err := queue.Start(ctx); err != nil {
		return err
	}
	for i := range 60 {
		message := Message{Channel: fmt.Sprint(1 + i%2), Content: fmt.Sprint("message ", i)}
		if _, err := queue.Insert(ctx, message, nil); err != nil {
			return err
		}
	}
	<-ctx.Done()
	stop, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return queue.StopAndCancel(stop)
}

func newQueue(pool *pgxpool.Pool, discord *rest.Client) (*river.Client[pgx.Tx], error) {
	plugin, err := riverlimit.New()
	if err != nil {
		return nil, err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, &Sender{discord: discord})
	return river.NewClient(riverpgxv5.New(pool), &river.Config{
		Queues:               map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 100}},
		Workers:              workers,
		Plugins:              []rivertype.Plugin{plugin},
		RescueStuckJobsAfter: 2 * time.Minute,
	})
}
