// Package jobs decides what to do with a background job whose requests to Discord were limited or failed: cancel it,
// try it again, or snooze it. It works with any job queue; packages httpclient/riverlimit and httpclient/asynqlimit
// connect it to River and asynq.
//
//	policy, err := jobs.New(jobs.WithMaxWait(5 * time.Second))
//	…
//	err = work(policy.Context(ctx)) // sends with a client whose transport is an *httpclient.Transport
//	switch d := policy.Decide(err); d.Action {
//	case jobs.Done:
//	case jobs.Cancel: // never again
//	case jobs.Retry:  // after the queue's own backoff; uses up an attempt
//	case jobs.Snooze: // after d.After; uses up no attempt
//	}
//
// # Who waits for limits
//
// Only the transport waits for limits, once for each request, as it does without jobs. The policy's context bounds this
// wait. If a request would have to wait longer in the transport's queue than this bound, the request is rejected before
// it is sent. The error is a *ratelimits.TooLongError with the predicted wait. So no permit is acquired twice, a job
// need not announce its requests, and every library that takes an *http.Client can be used.
//
// # When a job comes back
//
// A job occupies a worker while the job waits in the process, so it should wait there for a few seconds at most. If a
// job has to wait longer, it is snoozed, which means that it goes back to the job queue. A snoozed job comes back at
// the predicted time, but after all jobs that were snoozed earlier for the same limit. The jobs come back at the pace
// of the limit: 10,000 jobs on a bucket with 5 requests per second are spread over the next 2,000 seconds. For each
// limit, the policy remembers only when the last snoozed job comes back. The policy never asks the job queue.
//
// Job queues look for due jobs only about once a second. Therefore a snoozed job comes back earlier than predicted, by
// half of the max wait. When a window opens, the next jobs already wait in the process, so no window stays unused. A
// random delay is added, so that the jobs of several processes do not come back at the same moments.
//
// New jobs do not queue behind snoozed jobs. A new job that arrives when the predicted wait is short is sent before the
// snoozed jobs. If a snoozed job then comes back and would have to wait too long, it is snoozed again, behind all other
// snoozed jobs. With 10,000 jobs on a slow bucket, it can take hours until that job is sent. If jobs must not wait that
// long, insert them at the pace of the limit, or let them wait in the process ([WithMaxWait]).
//
// Each process knows only the jobs that it has snoozed itself. If n processes share a bucket, a job is snoozed about n
// times. This causes more writes to the job queue, but the jobs do not end later. The jobs that a process has snoozed
// come back even if the process has ended.
//
// # What a job should be
//
// A job should send one request. If a job sends several requests and one of them has to wait, the next attempt of the
// job repeats the requests before that one. If this does harm, store in the job which requests have succeeded, or give
// messages a nonce ([WithNonce]).
package jobs
