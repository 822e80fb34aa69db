package discordgolimit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/bwmarrin/discordgo"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/discordgolimit"
	"github.com/ratelight/ratelight/httpclient/discordtest"
	"github.com/ratelight/ratelight/ratelimits"
)

// A bot with a gateway. It answers "ping" with "pong".
func Example() {
	transport := httpclient.NewTransport(httpclient.WithMaxRateLimit(10 * time.Second))
	defer transport.Close()

	session, err := discordgo.New("Bot " + os.Getenv("TOKEN"))
	if err != nil {
		fmt.Println(err)
		return
	}
	discordgolimit.Prepare(session, transport)
	session.AddHandler(func(s *discordgo.Session, m *discordgo.MessageCreate) {
		if m.Content == "ping" {
			if _, err := discordgolimit.Call(s).ChannelMessageSend(m.ChannelID, "pong"); err != nil {
				fmt.Println(err)
			}
		}
	})
	if err := session.Open(); err != nil {
		fmt.Println(err)
		return
	}
	defer session.Close()
	stop, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	<-stop.Done()
}

// A channel accepts five messages in five seconds. The program sends six, and lets each wait for a second at most.
func ExampleCall() {
	transport, end := example() // in a program: httpclient.NewTransport(httpclient.WithMaxRateLimit(10 * time.Second))
	defer end()
	session, err := discordgo.New("Bot token")
	if err != nil {
		fmt.Println(err)
		return
	}
	discordgolimit.Prepare(session, transport)

	for range 6 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		message, err := discordgolimit.Call(session).ChannelMessageSend("900000000000000000", "hello",
			discordgo.WithContext(ctx))
		cancel()
		if _, ok := errors.AsType[*ratelimits.TooLongError](err); ok {
			fmt.Println("not sent: it would have waited too long")
			continue
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(message.Content)
	}
	// Output:
	// hello
	// hello
	// hello
	// hello
	// hello
	// not sent: it would have waited too long
}

// example returns a transport to a fake Discord.
func example() (transport http.RoundTripper, end func()) {
	discord := discordtest.NewServer(nil,
		discordtest.Window("create_message", 5, 5*time.Second),
		discordtest.Answer("create_message", 200,
			`{"id":"1","channel_id":"900000000000000000","content":"hello","author":{"id":"2"}}`))
	limiting := httpclient.NewTransport(httpclient.WithMaxRateLimit(10*time.Second),
		httpclient.WithBase(discord.Client().Transport))
	return limiting, func() {
		_ = limiting.Close()
		discord.Close()
	}
}
