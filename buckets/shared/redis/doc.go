// Package redis lets several processes share limits through Redis or Valkey: a single server, servers with Sentinels,
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
// limits, and what happens when something fails. This package connects buckets/shared to the server. It uses
// [github.com/redis/rueidis].
//
// # Calls
//
// A call runs one script at most once: the client never repeats the script, even if a connection breaks after the
// script was sent. A call ends at the latest when its context ends, whatever the state of the server and the network.
// The client connects again when a call needs a connection. It closes a connection if a ping on that connection gets no
// reply within two seconds.
//
// # Checks
//
// Open tries every command that later calls need, on keys that only Open uses. It returns an error if later calls would
// fail on the server. It also checks the memory policy of the server, and the key rl2:{application}:v, which says that
// the application's keys belong to Ratelight.
package redis
