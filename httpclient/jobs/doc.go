// Package jobs decides what becomes of a background job whose requests to Discord were limited or failed: cancel it, try it again, or let
// it come back later. It knows no job queue; packages httpclient/riverlimit and httpclient/asynqlimit put it into River and asynq.
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
// The transport, once for each request, as it always does. The context bounds its wait: a request that would wait longer is refused before
// anything is sent, with a *ratelimits.TooLongError that says how long it would have waited, the queue counted. So nothing is acquired
// twice, the job need not say beforehand which requests it will send, and every library that takes an *http.Client can be used.
//
// # When a job comes back
//
// A job occupies a worker while it waits, so it should wait for seconds at most; a longer wait is left to the job queue. A snoozed job comes
// back at the predicted time, but behind all jobs that wait for the same limit and were snoozed before it, at the pace of that limit: 10,000
// jobs on a bucket of 5 a second are given the next 2,000 seconds. For that it is enough to remember, for each limit, when the last one comes
// back; the job queue is not asked.
//
// They come back half of the max wait early, because job queues look for due jobs only every second or so. Then the next ones wait in the
// process already, and no window is left empty. A random spread is added, so that jobs of several processes do not come at the same moments.
//
// New jobs do not queue behind snoozed ones. One that comes when the wait is short goes first; a snoozed one that then finds no room is
// snoozed again, behind all others that are: with 10,000 of them on a slow bucket that can be hours. Jobs that must not wait for that long
// should be inserted at the pace of the limit, or wait in the process ([WithMaxWait]).
//
// Each process knows only what it has snoozed itself. Where n processes share a bucket, a job is snoozed about n times; that costs writes to
// the job queue, and no time. What a process that ended had snoozed comes back at its times all the same.
//
// # What a job should be
//
// One request. A job of several repeats those that were sent before the one that had to wait. Where that matters, note in the job what was
// done, or give messages a nonce ([WithNonce]).
package jobs
