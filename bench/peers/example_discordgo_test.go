package main

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/bwmarrin/discordgo"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// example returns a simulated Discord whose channels take five messages a minute. In a bot there is no such thing, and no
// httpclient.WithBase.
func example() *simulated {
	d, err := newSimulated(discordsim.Config{
		Default: &discordsim.Rule{Path: "**", Quota: discordsim.Fixed(5, time.Minute)},
		Latency: discordsim.RoundTrip(50 * time.Millisecond),
	})
	if err != nil {
		panic(err)
	}
	return d
}

// discordgo takes the transport in Session.Client. WithoutRateLimitHeaders keeps its own limiter from waiting as well.
func Example_discordgo() {
	discord := example()
	defer discord.server.Close()
	session, err := discordgo.New("Bot " + token)
	if err != nil {
		fmt.Println(err)
		return
	}

	transport := httpclient.NewTransport(httpclient.WithoutRateLimitHeaders(), httpclient.WithBase(discord))
	defer transport.Close()
	session.Client = &http.Client{Transport: transport} // instead of one with a timeout
	session.MaxRestRetries = 0                          // discordgo's own would send messages twice

	message, err := session.ChannelMessageSend("1", "hello")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(message.Content)
	// Output: hello
}

// One session makes one call per channel and route at a time: its limiter holds a lock until the response is there. Sessions
// of their own, which share the client, make them at once.
func Example_discordgoAtOnce() {
	discord := example()
	defer discord.server.Close()
	session, err := discordgo.New("Bot " + token)
	if err != nil {
		fmt.Println(err)
		return
	}
	transport := httpclient.NewTransport(httpclient.WithoutRateLimitHeaders(), httpclient.WithBase(discord))
	defer transport.Close()
	session.Client = &http.Client{Transport: transport}

	var calls sync.WaitGroup
	for range 5 {
		calls.Go(func() {
			if _, err := withOwnLimiter(session).ChannelMessageSend("1", "hello"); err != nil {
				fmt.Println(err)
			}
		})
	}
	calls.Wait()
	fmt.Println("several at once:", discord.server.Report().MaxInFlight > 1)
	// Output: several at once: true
}

// A raw request needs no session of its own, only a bucket.
func Example_discordgoRawRequest() {
	discord := example()
	defer discord.server.Close()
	session, err := discordgo.New("Bot " + token)
	if err != nil {
		fmt.Println(err)
		return
	}
	transport := httpclient.NewTransport(httpclient.WithoutRateLimitHeaders(), httpclient.WithBase(discord))
	defer transport.Close()
	session.Client = &http.Client{Transport: transport}

	bucket := discordgo.NewRatelimiter().LockBucket("") // the request unlocks it
	_, err = session.RequestWithLockedBucket("POST", discordgo.EndpointChannelMessages("1"), "application/json",
		[]byte(`{"content":"hello"}`), bucket, 0)
	fmt.Println(err)
	// Output: <nil>
}
