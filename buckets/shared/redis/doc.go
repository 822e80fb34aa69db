// Package redis keeps limits that several processes share in Redis or Valkey: a single server, servers with Sentinels,
// or a cluster.
//
//	store, err := redis.Open(ctx, "redis://127.0.0.1:6379", redis.WithApplication("my-bot"))
//	if err != nil {
//		return err // says what is wrong with the server, and what to do
//	}
//	defer store.Close()
//
// Every process of the bot does the same, and passes the store to its manager:
//
//	manager := buckets.NewRESTBucketManager(buckets.WithShared(store))
//
// The README of this directory explains how to set up the server. Package buckets/shared describes how processes share
// limits, and what happens when something fails. This package connects buckets/shared to the server, with
// [github.com/redis/rueidis].
//
// # Calls
//
// A call runs one script at most once: the client never repeats it, not even when a connection breaks after the script
// was sent. A call ends when its context ends at the latest, whatever the state of server and network. The client
// reconnects when a call needs a connection, and closes a connection that does not answer a ping within two seconds.
//
// # Checks
//
// Open tries every command that later calls need, on keys that only Open uses, and checks the memory policy. It returns
// an error if later calls would fail on the server. It also checks the key rl2:{application}:v, which says that the
// application's keys belong to Ratelight.
package redis
