package redis_test

import (
	"context"
	"log"
	"net/http"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/buckets/shared/redis"
	"github.com/ratelight/ratelight/httpclient"
)

// Each process of a bot does this. Together the processes keep to the bot's limits.
func Example() {
	store, err := redis.Open(context.Background(), "redis://127.0.0.1:6379", redis.WithApplication("my-bot"))
	if err != nil {
		log.Fatal(err) // the error says what is wrong with the server, and what to do
	}
	defer store.Close()

	transport := httpclient.NewTransport(httpclient.WithBuckets(buckets.WithShared(store)))
	defer transport.Close()
	client := &http.Client{Transport: transport}
	_ = client
}

// This example uses a cluster over TLS. While the cluster is unavailable, the bot risks a few 429s instead of waiting.
func ExampleOpen() {
	store, err := redis.Open(context.Background(), "rediss://bot:secret@node1:6379?addr=node2:6379&addr=node3:6379",
		redis.WithApplication("my-bot"), redis.WithOutage(shared.OutageShare))
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
}
