// Package redis keeps limits that several processes share in Redis or Valkey: alone, watched by Sentinels, or a cluster.
//
//	store, err := redis.Open(ctx, "redis://127.0.0.1:6379", redis.WithApplication("my-bot"))
//	if err != nil {
//		return err // says what is wrong with the engine, and what to do
//	}
//	defer store.Close()
//
// Every process of the bot does the same, and gives the store to its manager:
//
//	manager := buckets.NewRESTBucketManager(buckets.WithShared(store))
//
// What the engine has to be
// set up like is in the README of this directory. How limits are shared, and what happens when something fails, is described in
// buckets/shared; this package is what reaches the engine, with [github.com/redis/rueidis].
//
// # Calls
//
// A call runs one script, once or not at all: it is never repeated by the client, also not when a connection breaks after the script was
// sent. It ends with its context at the latest, whatever state the engine and the network are in. Connections are made again when they
// are needed; one that does not answer a ping within two seconds is given up.
//
// # Checks
//
// Open tries every command that will be needed on keys of its own, and looks at the memory policy, so that an engine that would refuse
// later is refused now. It also looks at the key rl:{application}:v, which says that the keys beside it are ours, and of which version.
package redis
