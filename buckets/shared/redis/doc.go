// Package redis keeps limits that several processes share in Redis or Valkey: a single server, servers with Sentinels, or
// a cluster.
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
// The README of this directory says how to set up the server. Package buckets/shared describes how limits are shared, and
// what happens when something fails. This package connects to the server, with [github.com/redis/rueidis].
//
// # Calls
//
// A call runs one script at most once: the client never repeats it, not even when a connection breaks after the script
// was sent. It ends when its context ends at the latest, whatever the state of server and network. Connections are made
// again when they are needed; one that does not answer a ping within two seconds is closed.
//
// # Checks
//
// Open tries every command that will be needed, on keys of its own, and checks the memory policy, so that it refuses a
// server on which later calls would fail. It also checks the key rl2:{application}:v, which says that the keys of
// the application are ours.
package redis
