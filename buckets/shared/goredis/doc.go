// Package goredis lets processes share limits through an existing go-redis client. It is an example in a module of its
// own, so that other programs do not depend on go-redis: copy runner.go and settings.go. The module has no published
// version, and its go.mod refers to the rest of the repository by path. To require it from a clone, add two replace
// directives to your go.mod:
//
//	replace (
//		github.com/ratelight/ratelight => ../ratelight
//		github.com/ratelight/ratelight/buckets/shared/goredis => ../ratelight/buckets/shared/goredis
//	)
//
// Unless you need go-redis, use buckets/shared/redis, which also checks the server before the first request.
//
//	client := redis.NewClient(goredis.Settings(&redis.Options{Addr: "127.0.0.1:6379"}))
//	store, err := shared.New(shared.OnScripts(goredis.New(client)), shared.WithApplication("my-bot"))
//
// # Settings
//
// Some defaults of go-redis do not fit calls with a timeout of half a second:
//
//   - MaxRetries is 3: a script whose reply is lost runs again. The scripts detect a second run, so it only costs time.
//     With -1 a script runs once. A cluster's client still repeats a call on the same node when the connection breaks,
//     so a [Runner] marks its scripts as not repeatable.
//   - ContextTimeoutEnabled is false: deadlines of contexts do not end a read.
//   - DialerRetries is 5, 100 ms apart: one call spends all of its time on dialing.
//   - ClusterStateReloadInterval is 60 s: for that long after a failover, a cluster's client calls the dead node.
//
// [Settings], [ClusterSettings] and [FailoverSettings] change these defaults. They keep values that you have set, but
// always set ContextTimeoutEnabled.
package goredis
