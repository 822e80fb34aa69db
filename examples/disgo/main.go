// Command disgo is a bot that answers "!ping":
//
//	TOKEN=… go run ./disgo
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/disgoorg/disgo"
	"github.com/disgoorg/disgo/bot"
	"github.com/disgoorg/disgo/discord"
	"github.com/disgoorg/disgo/events"
	"github.com/disgoorg/disgo/gateway"
	"github.com/disgoorg/disgo/rest"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/disgolimit"
	"github.com/ratelight/ratelight/ratelimits"
)

func main() {
	transport := httpclient.NewTransport()
	defer transport.Close()
	client, err := newClient(os.Getenv("TOKEN"), transport)
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	defer client.Close(context.Background())
	if err := client.OpenGateway(ctx); err != nil {
		log.Fatal(httpclient.Redact(err))
	}
	<-ctx.Done()
}

func newClient(token string, transport *httpclient.Transport) (*bot.Client, error) {
	return disgo.New(token,
		bot.WithRestClientConfigOpts(disgolimit.Options(transport)...),
		bot.WithGatewayConfigOpts(gateway.WithIntents(gateway.IntentGuildMessages, gateway.IntentMessageContent)),
		bot.WithEventListenerFunc(answer))
}

// answer replies within ten seconds. A reply that would take longer is not sent at all.
func answer(e *events.MessageCreate) {
	if e.Message.Content != "!ping" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err := e.Client().Rest.CreateMessage(e.ChannelID, discord.MessageCreate{Content: "pong"}, rest.WithCtx(ctx))
	var tooLong *ratelimits.TooLongError
	switch {
	case errors.As(err, &tooLong):
		log.Printf("channel %s is busy for %v", e.ChannelID, tooLong.Wait)
	case err != nil:
		log.Print(httpclient.Redact(err))
	}
}
