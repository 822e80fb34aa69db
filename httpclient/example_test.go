package httpclient_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/discordtest"
	"github.com/ratelight/ratelight/ratelimits"
)

// discord returns a fake Discord with a limit of one request an hour for each route and channel.
func discord() *discordtest.Server {
	return discordtest.NewServer(nil, discordtest.Window("*", 1, time.Hour))
}

// standIn returns an option that makes the transport send its requests to the fake server. For Discord itself you need
// no such option.
func standIn(server *discordtest.Server) httpclient.Option {
	return httpclient.WithBase(server.Client().Transport)
}

// Put the transport into an http.Client, and give this client to any library that takes one. The requests of the
// library then keep to the limits.
func Example() {
	server := discord()
	defer server.Close()

	transport := httpclient.NewTransport(httpclient.WithMaxRateLimit(time.Minute), standIn(server))
	defer transport.Close()
	client := &http.Client{Transport: transport}

	response, err := client.Post("https://discord.com/api/v10/channels/1/messages", "application/json",
		strings.NewReader(`{"content":"hello"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer response.Body.Close()
	fmt.Println(response.Status)
	// Output: 200 OK
}

// A request that would have to wait longer than the maximum is not sent. The error names the route and the wait.
func ExampleWithMaxRateLimit() {
	server := discord()
	defer server.Close()
	transport := httpclient.NewTransport(httpclient.WithMaxRateLimit(time.Minute), standIn(server))
	defer transport.Close()
	client := &http.Client{Transport: transport}

	for range 2 {
		response, err := client.Get("https://discord.com/api/v10/channels/1/messages")
		var tooLong *ratelimits.TooLongError
		switch {
		case errors.As(err, &tooLong):
			fmt.Println("not sent:", tooLong.Route, "has to wait for about", tooLong.Wait.Round(time.Minute))
		case err != nil:
			fmt.Println(err)
		default:
			response.Body.Close()
			fmt.Println(response.Status)
		}
	}
	// Output:
	// 200 OK
	// not sent: GET /channels/{channel_id}/messages has to wait for about 1h0m0s
}

// Before the program ends, it waits for the requests that it has already made, but for ten seconds at most.
func ExampleTransport_Shutdown() {
	server := discord()
	defer server.Close()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	transport := httpclient.NewTransport(standIn(server))
	client := &http.Client{Transport: transport}

	go stop() // instead of a signal

	<-ctx.Done() // the program works until then
	stop()       // a second signal ends the program at once
	patience, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := transport.Shutdown(patience); err != nil {
		fmt.Println("cut off:", err)
	}

	_, err := client.Get("https://discord.com/api/v10/channels/1/messages")
	fmt.Println("refused:", errors.Is(err, buckets.ErrClosed))
	// Output:
	// refused: true
}

// Two transports that use the same token share a manager, so that together they stay within the token's limits.
func ExampleWithLimiter() {
	server := discord()
	defer server.Close()
	manager := buckets.NewRESTBucketManager(buckets.WithMaxRateLimit(time.Minute))
	if err := manager.Start(); err != nil {
		fmt.Println(err)
		return
	}
	defer manager.Close()

	direct := &http.Client{Transport: httpclient.NewTransport(httpclient.WithLimiter(manager), standIn(server))}
	proxied := &http.Client{Transport: httpclient.NewTransport(
		httpclient.WithLimiter(manager),
		httpclient.WithBase(&http.Transport{Proxy: http.ProxyFromEnvironment}),
	)}

	response, err := direct.Get("https://discord.com/api/v10/channels/1/messages")
	if err != nil {
		fmt.Println(err)
		return
	}
	response.Body.Close()
	fmt.Println(response.Status)

	_, err = proxied.Get("https://discord.com/api/v10/channels/1/messages")
	var tooLong *ratelimits.TooLongError
	fmt.Println("not sent:", errors.As(err, &tooLong))
	// Output:
	// 200 OK
	// not sent: true
}

// A single request can have its own longest wait. Zero means that it must not wait at all.
func ExampleTransport_maxWait() {
	server := discord()
	defer server.Close()
	transport := httpclient.NewTransport(standIn(server))
	defer transport.Close()
	client := &http.Client{Transport: transport}

	ctx := buckets.ContextWithMaxWait(context.Background(), 0)
	for range 2 {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://discord.com/api/v10/channels/1/typing", nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		response, err := client.Do(request)
		if err != nil {
			fmt.Println("somebody is typing already")
			continue
		}
		response.Body.Close()
		fmt.Println(response.Status)
	}
	// Output:
	// 200 OK
	// somebody is typing already
}

// A proxy that forwards to Discord has Discord's limits, so the transport must count requests to the proxy in the same
// buckets.
func ExampleWithHosts() {
	proxy := discordtest.NewServer(nil, discordtest.Window("list_messages", 1, time.Hour).Bucket("abcd1234"))
	defer proxy.Close()
	transport := httpclient.NewTransport(
		httpclient.WithHosts(func(host string) (server string, limited bool) { return "", "http://"+host == proxy.URL }),
	)
	defer transport.Close()
	client := &http.Client{Transport: transport}

	response, err := client.Get(proxy.URL + "/api/v10/channels/1/messages")
	if err != nil {
		fmt.Println(err)
		return
	}
	response.Body.Close()
	for bucket := range transport.Manager().Buckets() {
		if bucket.Limit > 0 {
			fmt.Println(bucket.Hash, bucket.Limit)
		}
	}
	// Output: abcd1234 1
}

// The errors of http.Client contain the whole address. Redact removes the webhook's token from an error before you log
// it.
func ExampleRedact() {
	transport := httpclient.NewTransport()
	client := &http.Client{Transport: transport}
	transport.Close() // to cause an error

	_, err := client.Post("https://discord.com/api/v10/webhooks/1/a-token-that-nobody-may-see?wait=true",
		"application/json", nil)
	err = httpclient.Redact(err)
	fmt.Println(err)
	fmt.Println(errors.Is(err, buckets.ErrClosed))
	// Output:
	// Post "https://discord.com/api/v10/webhooks/1/…?…": rest bucket manager or transport is closed
	// true
}

// A program that only posts to a webhook needs nothing but a client with the transport. The transport obeys a
// Retry-After even if Discord sends no other headers about limits. After Discord has said that the webhook is gone, the
// transport sends nothing to it for ten minutes.
func Example_webhook() {
	server := discordtest.NewServer(nil,
		discordtest.Unlimited("execute_webhook"),
		discordtest.Refuse("execute_webhook", discordtest.SubLimit, 100*time.Millisecond).Nth(1),
		discordtest.Answer("execute_webhook", 404, `{"message":"Unknown Webhook","code":10015}`).Nth(3),
		discordtest.Answer("execute_webhook", 204, nil))
	defer server.Close()

	transport := httpclient.NewTransport(standIn(server)) // for Discord itself: NewTransport()
	defer transport.Close()
	client := &http.Client{Transport: transport}

	for _, text := range []string{"disk is full", "disk is still full", "disk is on fire"} {
		response, err := client.Post("https://discord.com/api/webhooks/1/a-token-that-nobody-may-see", "application/json",
			strings.NewReader(`{"content":"`+text+`"}`))
		var gone *httpclient.CredentialError
		switch {
		case errors.As(err, &gone):
			fmt.Println(gone.Kind, "is gone:", gone.Status)
		case err != nil:
			fmt.Println(httpclient.Redact(err)) // the address is a secret
		default:
			response.Body.Close()
			fmt.Println(response.Status)
		}
	}
	fmt.Println("requests:", len(server.Requests()), "refused:", len(server.Refused()))
	// Output:
	// 204 No Content
	// 404 Not Found
	// webhook is gone: 404
	// requests: 3 refused: 1
}
