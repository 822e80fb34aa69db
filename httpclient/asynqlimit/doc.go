// Package asynqlimit makes tasks of asynq (github.com/hibiken/asynq, on Redis) wait in Redis if they have to wait long
// for a limit of Discord. It also tells asynq after which errors a task should be tried again.
//
//	limiter, err := asynqlimit.New()
//	…
//	server := asynq.NewServer(redis, limiter.Configure(asynq.Config{
//		Concurrency:              100,
//		DelayedTaskCheckInterval: time.Second, // with asynq's default, 5 s, use jobs.WithMaxWait(15 * time.Second)
//	}))
//	mux := asynq.NewServeMux()
//	mux.Use(limiter.Middleware)
//	mux.Handle("message", asynqlimit.JSON(send))
//
// A handler sends its requests with any client whose transport is an *httpclient.Transport, such as a *rest.Client. The
// handler passes its own context to the client. That context bounds the wait in the process ([jobs.WithMaxWait], 5 s by
// default). Only the transport acquires permits from the bucket manager, once for each request; the limiter acquires
// none.
//
// A request that would have to wait longer than that bound is not sent. Its task fails with a *[SnoozeError], which
// does not count as a failure (asynq.Config.IsFailure). The task waits in the retry queue until the request can be
// sent. This wait uses up no attempt. Package jobs describes when a request can be sent and how other errors are
// treated. A task that can never succeed is archived (asynq.SkipRetry). If the handler returns asynq.SkipRetry or
// asynq.RevokeTask, asynq gets that error.
package asynqlimit
