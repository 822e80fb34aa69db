package buckets_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// Discord accepts two changes of a channel's name in ten minutes, but no header shows that limit. With a declared
// limit, the manager sends only as many of these requests as Discord accepts.
func ExampleWithLimit() {
	manager := buckets.NewRESTBucketManager(
		buckets.WithMaxRateLimit(time.Minute),
		buckets.WithKnownLimits(buckets.ChannelNameAndTopic), // a limit that the package knows
		buckets.WithLimit(buckets.ForPattern("*", "/guilds/*"), 100, time.Hour, // a limit of your own
			buckets.PerMajor(), buckets.Named("calls of a guild")),
	)
	if err := manager.Start(); err != nil {
		panic(err)
	}
	defer manager.Close()
	route, err := routes.UpdateChannel.Compile("1")
	if err != nil {
		panic(err)
	}

	for range 3 {
		request := buckets.Request{
			Route: route, Authorization: "Bot my-token", Fields: func() []string { return []string{"name"} },
		}
		lease, err := manager.AcquireRequest(context.Background(), &request)
		var tooLong *ratelimits.TooLongError
		if errors.As(err, &tooLong) {
			fmt.Println("not sent, because of", tooLong.Declared)
			fmt.Println("next in", tooLong.Wait.Round(time.Minute))
			break
		}
		fmt.Println("sent")
		lease.Update(ratelimits.Response{Status: http.StatusOK})
	}
	// Output:
	// sent
	// sent
	// not sent, because of channel-name-and-topic
	// next in 10m0s
}

// A large guild has three requests in the queue. A later request of a small guild waits for only one of them.
func ExampleContextWithGroup() {
	queued := make(chan struct{})
	manager := buckets.NewRESTBucketManager(buckets.WithHooks(buckets.Hooks{
		Waiting: func(context.Context, buckets.Waiting) { queued <- struct{}{} },
	}))
	if err := manager.Start(); err != nil {
		panic(err)
	}
	defer manager.Close()
	route, err := routes.CreateMessage.Compile("1")
	if err != nil {
		panic(err)
	}
	// All other requests wait for the response to this request.
	first, err := manager.Acquire(context.Background(), route, "Bot my-token")
	if err != nil {
		panic(err)
	}

	oneAtATime := ratelimits.Response{
		Status: http.StatusOK, Limited: true, Bucket: "messages", Limit: 1, ResetAfter: 20 * time.Millisecond,
	}
	sent := make(chan string, 4)
	for _, guild := range []string{"large", "large", "large", "small"} {
		go func() {
			ctx := buckets.ContextWithGroup(context.Background(), guild)
			lease, err := manager.Acquire(ctx, route, "Bot my-token")
			if err != nil {
				panic(err)
			}
			sent <- guild
			lease.Update(oneAtATime)
		}()
		<-queued
	}
	first.Update(oneAtATime)
	for range 4 {
		fmt.Println(<-sent)
	}
	// Output:
	// large
	// small
	// large
	// large
}

// Predict says how long a request would have to wait, but does not queue it. So a program can postpone a job.
func ExampleRESTBucketManager_Predict() {
	manager := buckets.NewRESTBucketManager()
	if err := manager.Start(); err != nil {
		panic(err)
	}
	defer manager.Close()
	server := discord(1)
	defer server.Close()
	if err := sendMessage(context.Background(), manager, server.Client()); err != nil { // uses up the limit for an hour
		panic(err)
	}

	route, err := routes.CreateMessage.Compile("1")
	if err != nil {
		panic(err)
	}
	wait, because, err := manager.Predict(&buckets.Request{Route: route, Authorization: "Bot my-token"})
	if err != nil {
		panic(err)
	}
	fmt.Printf("wait %v for: %s\n", wait.Round(time.Minute), because)
	// Output:
	// wait 1h0m0s for: window
}

// WaitingRequests lists the requests that wait: their places in the queue, what they wait for, and for how long.
func ExampleRESTBucketManager_WaitingRequests() {
	queued := make(chan struct{})
	manager := buckets.NewRESTBucketManager(buckets.WithMaxRateLimit(24*time.Hour), buckets.WithHooks(buckets.Hooks{
		Waiting: func(context.Context, buckets.Waiting) { queued <- struct{}{} },
	}))
	if err := manager.Start(); err != nil {
		panic(err)
	}
	defer manager.Close()
	server := discord(1)
	defer server.Close()
	if err := sendMessage(context.Background(), manager, server.Client()); err != nil {
		panic(err)
	}
	route, err := routes.CreateMessage.Compile("1")
	if err != nil {
		panic(err)
	}
	for range 2 {
		go manager.Acquire(context.Background(), route, "Bot my-token")
		<-queued
	}

	for w := range manager.WaitingRequests() {
		fmt.Printf("%s of %s: %d ahead, %s for %s\n",
			w.Route, w.Major, w.Ahead, w.WaitAfter.Round(time.Minute), w.WaitsFor)
	}
	// Output:
	// POST /channels/{channel_id}/messages of 1: 0 ahead, 1h0m0s for window
	// POST /channels/{channel_id}/messages of 1: 1 ahead, 2h0m0s for window
}
