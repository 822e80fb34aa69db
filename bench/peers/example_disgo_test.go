package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/disgoorg/disgo/discord"
	"github.com/disgoorg/disgo/rest"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/ratelimits"
)

// disgo takes the transport in an HTTP client, and a limiter that does nothing. A bot gives the same options to
// bot.WithRestClientConfigOpts.
func Example_disgo() {
	simulated := example()
	defer simulated.server.Close()

	transport := httpclient.NewTransport(httpclient.WithBase(simulated))
	defer transport.Close()
	client := rest.New(rest.NewClient(token,
		rest.WithHTTPClient(&http.Client{Transport: transport}),
		rest.WithRateLimiter(rest.NewNoopRateLimiter()),
	))

	message, err := client.CreateMessage(1, discord.MessageCreate{Content: "hello"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(message.Content)
	// Output: hello
}

// The bucket manager can also stand where disgo has its own limiter; then rest.WithCtx bounds the waits.
func Example_disgoLimiter() {
	simulated := example()
	defer simulated.server.Close()

	manager := buckets.NewRESTBucketManager()
	if err := manager.Start(); err != nil {
		fmt.Println(err)
		return
	}
	defer manager.Close()
	client := rest.New(rest.NewClient(token,
		rest.WithRateLimiter(newDisgoLimiter(manager, token)),
		rest.WithHTTPClient(&http.Client{Transport: simulated}), // in a bot: &http.Client{Timeout: …}
	))

	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for range 6 { // one more than the channel takes in a minute
		_, err := client.CreateMessage(1, discord.MessageCreate{Content: "hello"}, rest.WithCtx(ctx))
		var tooLong *ratelimits.TooLongError
		if errors.As(err, &tooLong) {
			fmt.Println("not sent: the deadline is too near")
		} else {
			fmt.Println("sent:", err == nil)
		}
	}
	// Output:
	// sent: true
	// sent: true
	// sent: true
	// sent: true
	// sent: true
	// not sent: the deadline is too near
}
