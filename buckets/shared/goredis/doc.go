// Package goredis lets limits be shared through a client of go-redis that a program has already. It is an example, in a module of
// its own so that nobody else needs go-redis: copy runner.go and settings.go. The module is not published with a version of its own, and its
// go.mod names the rest of the repository by a path; to require it nevertheless, from a clone, a program's go.mod needs two replaces:
//
//	replace (
//		github.com/ratelight/ratelight => ../ratelight
//		github.com/ratelight/ratelight/buckets/shared/goredis => ../ratelight/buckets/shared/goredis
//	)
//
// Where nothing speaks for go-redis, buckets/shared/redis is the better choice; it also checks the engine before the first request.
//
//	client := redis.NewClient(goredis.Settings(&redis.Options{Addr: "127.0.0.1:6379"}))
//	store, err := shared.New(goredis.New(client), shared.WithApplication("my-bot"))
//
// # Settings
//
// Some defaults of go-redis are not made for calls that have half a second:
//
//   - MaxRetries is 3: a script whose reply is lost runs again. The scripts notice, but nothing is won. With -1 it runs once. That is not enough in
//     a cluster, whose client sends a call again to the same node when the connection breaks; scripts that are run by a Runner say
//     themselves that they are not to be repeated.
//   - ContextTimeoutEnabled is false: deadlines of contexts do not end a read.
//   - DialerRetries is 5, 100 ms apart: one call spends all of its time with dialing.
//   - ClusterStateReloadInterval is 60 s: after a failover a cluster's client knocks at the dead node for that long.
//
// [Settings], [ClusterSettings] and [FailoverSettings] set them, each where nothing else was set.
package goredis
