// Package goredis lets processes share limits through an existing go-redis client. It is an example from which you can
// copy runner.go and settings.go. It is a module of its own, so that other programs do not depend on go-redis. The
// module has no published version, and its go.mod refers to the rest of the repository by path. To require the module
// from a clone, add two replace directives to your go.mod:
//
//	replace (
//		github.com/ratelight/ratelight => ../ratelight
//		github.com/ratelight/ratelight/buckets/shared/goredis => ../ratelight/buckets/shared/goredis
//	)
//
// If you do not need go-redis, use buckets/shared/redis, which also checks the server before the first request.
//
//	client := redis.NewClient(goredis.Settings(&redis.Options{Addr: "127.0.0.1:6379"}))
//	store, err := shared.New(shared.OnScripts(goredis.New(client)), shared.WithApplication("my-bot"))
//
// # Settings
//
// Some defaults of go-redis are unsuitable for calls with a timeout of half a second:
//
//   - MaxRetries is 3: a script whose reply is lost runs again. The scripts detect a second run, so the second run only
//     costs time. With -1 a script runs once. However, when the connection breaks, the client of a cluster repeats a
//     call on the same node even then, so a [Runner] marks its scripts as not repeatable.
//   - ContextTimeoutEnabled is false: the deadline of a context does not end a read.
//   - DialerRetries is 5, with pauses of 100 ms: one call spends all of its time on dialing.
//   - ClusterStateReloadInterval is 60 s: for up to this time after a failover, the client of a cluster calls the dead
//     node.
//
// [Settings], [ClusterSettings] and [FailoverSettings] change these defaults. They keep the values that you have set,
// with one exception: they always set ContextTimeoutEnabled.
package goredis
