// Command example sends 60 messages to two channels of a fake Discord, by tasks in Redis. Each channel accepts five
// messages in five seconds. You can stop the command at any time. When the command is started again, it adds 60 tasks,
// and works on these and on the tasks that remain from the earlier run.
//
//	REDIS=127.0.0.1:6379 go run ./example
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/hibiken/asynq"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/asynqlimit"
	"github.com/ratelight/ratelight/httpclient/discordtest"
	"github.com/ratelight/ratelight/httpclient/jobs"
	"github.com/ratelight/ratelight/httpclient/rest"
)

// message is the payload of a task: one message to a channel.
type message struct {
	Channel string `json:"channel"`
	Content string `json:"content"`
}

func send(discord *rest.Client) asynq.Handler {
	return asynqlimit.JSON(func(ctx context.Context, m message) error {
		body := jobs.WithNonce(map[string]string{"content": m.Content}, asynqlimit.Nonce(ctx))
		err := discord.DoJSON(ctx, http.MethodPost, "/channels/"+m.Channel+"/messages", body, nil)
		fmt.Println(time.Now().Format(time.TimeOnly), m.Channel, m.Content, err)
		return err
	})
}

func main() {
	if err := run(asynq.RedisClientOpt{Addr: os.Getenv("REDIS")}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(redis asynq.RedisClientOpt) error {
	fake := discordtest.NewServer(nil)
	defer fake.Close()
	// Without this option, the client would send to the real Discord.
	discord := rest.New("token", rest.WithTransport(httpclient.WithBase(fake.Client().Transport)))
	defer discord.Close()

	client := asynq.NewClient(redis)
	defer client.Close()
	for i := range 60 {
		payload, err := json.Marshal(message{Channel: fmt.Sprint(1 + i%2), Content: fmt.Sprint("message ", i)})
		if err != nil {
			return err
		}
		if _, err := client.Enqueue(asynq.NewTask("message", payload)); err != nil {
			return err
		}
	}
	limiter, err := asynqlimit.New()
	if err != nil {
		return err
	}
	config := asynq.Config{Concurrency: 100, DelayedTaskCheckInterval: time.Second}
	server := asynq.NewServer(redis, limiter.Configure(config))
	mux := asynq.NewServeMux()
	mux.Use(limiter.Middleware)
	mux.Handle("message", send(discord))
	return server.Run(mux) // returns when the process is interrupted
}
