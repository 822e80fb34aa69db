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
// # Who acquires
//
// Only the transport acquires permission to send, once for each request, as it always does. The context bounds the
// wait: a request that would wait longer, including its time in the queue, is rejected before anything is sent. The
// *ratelimits.TooLongError contains the predicted wait. So no permit is acquired twice, the job need not announce its
// requests, and every library that takes an *http.Client can be used.
//
// # When a job comes back
//
// A job occupies a worker while it waits, so it should wait for seconds at most; the job queue handles longer waits. A
// snoozed job comes back at the predicted time, but after all jobs that were snoozed before it for the same limit. The
// jobs come back at the pace of the limit: 10,000 jobs on a bucket of 5 a second are spread over the next 2,000
// seconds. For each limit, the policy only remembers when the last snoozed job comes back; it never asks the job queue.
//
// A snoozed job comes back early by half of the max wait, because job queues look for due jobs only every second or so.
// The next jobs then already wait in the process when a window opens, and no window stays unused. A random delay is
// added, so that the jobs of several processes do not come back at the same moments.
//
// New jobs do not queue behind snoozed ones. A new job that arrives when the wait is short is sent first. A snoozed job
// that then finds no room is snoozed again, behind all other snoozed jobs: with 10,000 jobs on a slow bucket that can
// take hours. Jobs that must not wait that long should be inserted at the pace of the limit, or wait in the process
// ([WithMaxWait]).
//
// Each process knows only the jobs that it has snoozed itself. If n processes share a bucket, a job is snoozed about n
// times; that costs writes to the job queue, but no time. The jobs that a process has snoozed come back even if the
// process has ended.
//
// # What a job should be
//
// A job should send one request. If a job sends several requests and one of them has to wait, the next attempt repeats
// the requests before that one. Where that matters, store in the job which requests succeeded, or give messages a nonce
// ([WithNonce]).
package jobs
