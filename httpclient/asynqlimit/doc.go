// Package asynqlimit lets tasks of asynq (github.com/hibiken/asynq, on Redis) wait in Redis where they would wait long for a limit of Discord,
// and tells asynq which errors are worth another attempt.
//
//	limiter, err := asynqlimit.New()
//	…
//	server := asynq.NewServer(redis, limiter.Configure(asynq.Config{
//		Concurrency:              100,
//		DelayedTaskCheckInterval: time.Second, // asynq's default is 5 s: then use jobs.WithMaxWait(15 * time.Second)
//	}))
//	mux := asynq.NewServeMux()
//	mux.Use(limiter.Middleware)
//	mux.Handle("message", asynqlimit.JSON(send))
//
// A handler sends with any client whose transport is an *httpclient.Transport, such as a *rest.Client, and passes it the context that it was
// given. That context bounds the wait in the process ([jobs.WithMaxWait], 5 s by default). The transport acquires, once for each request; the
// limiter acquires nothing.
//
// A request that would wait longer is not sent. Its task fails with a *[SnoozeError], which for asynq is no failure (asynq.Config.IsFailure):
// it goes to the retry queue until it can be sent, and keeps its attempts. Package jobs says when that is, and what becomes of other errors.
// What cannot succeed is archived (asynq.SkipRetry). A handler that returns asynq.SkipRetry or asynq.RevokeTask gets what it asks for.
package asynqlimit
