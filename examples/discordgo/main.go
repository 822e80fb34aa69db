// Command discordgo is a bot that answers "!ping":
//
//	TOKEN=… go run ./discordgo
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/bwmarrin/discordgo"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/discordgolimit"
	"github.com/ratelight/ratelight/ratelimits"
)

func main() {
	transport := httpclient.NewTransport()
	defer transport.Close()
	session, err := newSession(os.Getenv("TOKEN"), transport)
	if err != nil {
		log.Fatal(err)
	}
	if err := session.Open(); err != nil {
		log.Fatal(httpclient.Redact(err))
	}
	defer session.Close()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	<-ctx.Done()
}

func newSession(token string, transport *httpclient.Transport) (*discordgo.Session, error) {
	session, err := discordgo.New("Bot " + token)
	if err != nil {
		return nil, err
	}
	session.Identify.Intents |= discordgo.IntentMessageContent
	discordgolimit.Prepare(session, transport)
	session.AddHandler(answer)
	return session, nil
}

// answer replies within ten seconds. A reply that would take longer is not sent at all.
func answer(session *discordgo.Session, m *discordgo.MessageCreate) {
	if m.Content != "!ping" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err := discordgolimit.Call(session).ChannelMessageSend(m.ChannelID, "pong", discordgo.WithContext(ctx))
	var tooLong *ratelimits.TooLongError
	switch {
	case errors.As(err, &tooLong):
		log.Printf("channel %s is busy for %v", m.ChannelID, tooLong.Wait)
	case err != nil:
		log.Print(httpclient.Redact(err))
	}
}
