package arikawalimit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/diamondburned/arikawa/v3/api"
	"github.com/diamondburned/arikawa/v3/gateway"
	"github.com/diamondburned/arikawa/v3/state"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/arikawalimit"
	"github.com/ratelight/ratelight/httpclient/discordtest"
	"github.com/ratelight/ratelight/ratelimits"
)

// A bot with a gateway.
func Example() {
	transport := httpclient.NewTransport(httpclient.WithMaxRateLimit(10 * time.Second))
	defer transport.Close()

	s := state.NewWithIntents("Bot "+os.Getenv("TOKEN"), gateway.IntentGuildMessages)
	arikawalimit.Prepare(s.Client, transport)
	s.AddHandler(func(m *gateway.MessageCreateEvent) {
		if m.Content == "ping" {
			_, _ = s.SendMessage(m.ChannelID, "pong")
		}
	})
	if err := s.Connect(context.Background()); err != nil {
		fmt.Println(err)
	}
}

// A channel accepts five messages in five seconds. The program sends six, and lets each wait for a second at most.
func ExamplePrepare() {
	transport, end := example() // in a program: httpclient.NewTransport(httpclient.WithMaxRateLimit(10 * time.Second))
	defer end()
	client := api.NewClient("Bot token")
	arikawalimit.Prepare(client, transport)

	for range 6 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		message, err := client.WithContext(ctx).SendMessage(900000000000000000, "hello")
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
