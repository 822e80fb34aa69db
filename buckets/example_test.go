package buckets_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient/discordtest"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// discord returns a fake Discord that accepts the given number of messages an hour in each channel. The caller must
// close the server.
func discord(messages int) *discordtest.Server {
	return discordtest.NewServer(nil,
		discordtest.Window("create_message", messages, time.Hour).Bucket("80c17d2f203122d936070c88c8d10f33"))
}

// A manager decides when an HTTP client sends its requests.
func Example() {
	const authorization = "Bot my-token"
	server := discord(5)
	defer server.Close()
	client := server.Client()

	manager := buckets.NewRESTBucketManager(buckets.WithMaxRateLimit(30 * time.Second))
	if err := manager.Start(); err != nil {
		panic(err)
	}
	defer manager.Close()

	send := func(ctx context.Context, request *http.Request) (*http.Response, error) {
		route, err := routes.Match(request.Method, request.URL.Path)
		if err != nil {
			return nil, err
		}
		lease, err := manager.Acquire(ctx, route, authorization) // waits until the request may be sent
		if err != nil {
			return nil, err
		}
		defer lease.Release() // for the cases without a response; no effect after Update
		request.Header.Set("Authorization", authorization)
		response, err := client.Do(request)
		if err != nil {
			return nil, err
		}
		var refusal []byte
		if response.StatusCode == http.StatusTooManyRequests {
			refusal, _ = io.ReadAll(response.Body) // only the body of a 429 is needed
		}
		lease.Update(ratelimits.ParseResponse(response.StatusCode, response.Header, refusal))
		return response, nil
	}

	request, err := http.NewRequest("POST", "https://discord.com/api/v10/channels/81384788765712384/messages", nil)
	if err != nil {
		panic(err)
	}
	response, err := send(context.Background(), request)
	if err != nil {
		panic(err)
	}
	defer response.Body.Close()
	fmt.Println(response.StatusCode)
	fmt.Println("in flight:", manager.Stats().InFlight)
	// Output:
	// 200
	// in flight: 0
}

// sendMessage sends a message to channel 1 and gives the response to the manager.
func sendMessage(ctx context.Context, manager *buckets.RESTBucketManager, client *http.Client) error {
	route, err := routes.CreateMessage.Compile("1")
	if err != nil {
		return err
	}
	lease, err := manager.Acquire(ctx, route, "Bot my-token")
	if err != nil {
		return err
	}
	defer lease.Release()
	response, err := client.Post("https://discord.com/api/v10"+route.Path(), "application/json", nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	lease.Update(ratelimits.ParseResponse(response.StatusCode, response.Header, nil))
	return nil
}

// A request that would have to wait longer than the maximum fails at once. The error says how long the wait would have
// been.
func ExampleRESTBucketManager_Acquire_tooLong() {
	manager := buckets.NewRESTBucketManager(buckets.WithMaxRateLimit(30 * time.Second))
	if err := manager.Start(); err != nil {
		panic(err)
	}
	defer manager.Close()
	server := discord(1)
	defer server.Close()
	if err := sendMessage(context.Background(), manager, server.Client()); err != nil { // uses up the limit for an hour
		panic(err)
	}

	err := sendMessage(context.Background(), manager, server.Client())
	var tooLong *ratelimits.TooLongError
	if errors.As(err, &tooLong) {
		fmt.Println("route:", tooLong.Route)
		fmt.Println("wait: ", tooLong.Wait.Round(time.Minute))
		fmt.Println("limit:", tooLong.Limit, "per", tooLong.Period)
	}

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err = sendMessage(ctx, manager, server.Client())
	fmt.Println("past the deadline:", errors.Is(err, context.DeadlineExceeded))
	// Output:
	// route: POST /channels/{channel_id}/messages
	// wait:  1h0m0s
	// limit: 1 per 1h0m0s
	// past the deadline: true
}

// With a maximum wait of 0, a request is sent only if it can leave at once.
func ExampleContextWithMaxWait() {
	manager := buckets.NewRESTBucketManager()
	if err := manager.Start(); err != nil {
		panic(err)
	}
	defer manager.Close()

	server := discord(2)
	defer server.Close()
	now := buckets.ContextWithMaxWait(context.Background(), 0)
	for range 3 {
		var tooLong *ratelimits.TooLongError
		err := sendMessage(now, manager, server.Client())
		fmt.Println("sent:", err == nil, "- too long:", errors.As(err, &tooLong))
	}
	// Output:
	// sent: true - too long: false
	// sent: true - too long: false
	// sent: false - too long: true
}

// Buckets lists the state of all buckets, for example for a dashboard.
func ExampleRESTBucketManager_Buckets() {
	manager := buckets.NewRESTBucketManager()
	if err := manager.Start(); err != nil {
		panic(err)
	}
	defer manager.Close()
	server := discord(5)
	defer server.Close()
	for range 2 {
		if err := sendMessage(context.Background(), manager, server.Client()); err != nil {
			panic(err)
		}
	}

	for bucket := range manager.Buckets() {
		if bucket.Hash == buckets.UnknownHash {
			continue // the bucket of routes whose bucket hash no response has named yet
		}
		fmt.Printf("bucket %.8s of channel %s: %d of %d left\n",
			bucket.Hash, bucket.Major, bucket.Remaining, bucket.Limit)
		fmt.Println("resets in", bucket.ResetAfter.Round(time.Minute))
	}
	// Output:
	// bucket 80c17d2f of channel 1: 3 of 5 left
	// resets in 1h0m0s
}

// After a 429, the same Request is acquired again. AcquireRequest waits as long as the 429 says, and the request keeps
// its place in the queue.
func ExampleRESTBucketManager_AcquireRequest() {
	manager := buckets.NewRESTBucketManager()
	if err := manager.Start(); err != nil {
		panic(err)
	}
	defer manager.Close()
	route, err := routes.CreateMessage.Compile("1")
	if err != nil {
		panic(err)
	}
	answers := []ratelimits.Response{ // the first attempt is refused
		ratelimits.ParseResponse(http.StatusTooManyRequests, http.Header{},
			[]byte(`{"message": "…", "retry_after": 0.001, "global": false}`)),
		ratelimits.ParseResponse(http.StatusOK, http.Header{}, nil),
	}

	request := buckets.Request{Route: route, Authorization: "Bot my-token"}
	for attempt, answer := range answers {
		lease, err := manager.AcquireRequest(context.Background(), &request)
		if err != nil {
			panic(err)
		}
		fmt.Println("attempt", attempt+1, "is answered with", answer.Status)
		lease.Update(answer)
		if answer.Status != http.StatusTooManyRequests {
			break
		}
	}
	// Output:
	// attempt 1 is answered with 429
	// attempt 2 is answered with 200
}

// The second manager restores the state of the first, so it knows the route's bucket and how many requests the bucket's
// window still allows.
func ExampleRESTBucketManager_RestoreState() {
	const authorization = "Bot my-token"
	route, err := routes.CreateMessage.Compile("1")
	if err != nil {
		panic(err)
	}
	var state bytes.Buffer // usually a file, see httpclient/statefile
	for range 2 {
		manager := buckets.NewRESTBucketManager(buckets.WithMaxRateLimit(time.Second))
		if err := manager.Start(); err != nil {
			panic(err)
		}
		if state.Len() > 0 {
			if err := manager.RestoreState(&state); err != nil { // before the first request
				panic(err)
			}
		}
		lease, err := manager.Acquire(context.Background(), route, authorization)
		if err != nil {
			fmt.Println("not sent:", errors.As(err, new(*ratelimits.TooLongError)))
		}
		lease.Update(ratelimits.Response{
			Status: http.StatusOK, Limited: true, Bucket: "80c17d2f", Limit: 1, ResetAfter: time.Hour,
		})

		// At intervals, in case the program is killed:
		if err := manager.WriteState(io.Discard); err != nil {
			panic(err)
		}
		// And when the program ends:
		if err := manager.Close(); err != nil {
			panic(err)
		}
		if err := manager.WriteState(&state); err != nil {
			panic(err)
		}
	}
	// Output:
	// not sent: true
}
