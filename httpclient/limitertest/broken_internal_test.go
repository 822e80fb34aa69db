package limitertest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
)

// mutants lists limiters with one mistake each.
var mutants = []mutant{
	{
		name: "no limits",
		acquire: func(_ *limiter, ctx context.Context, r *buckets.Request) (buckets.Lease, error) {
			return buckets.Unlimited{}.AcquireRequest(ctx, r)
		},
		fails: "window/; trouble/; change/; foreign/; memory/; refusal/; discovery/cold burst; order/; lease/; " +
			"max wait/shorter; max wait/zero; deadline/before; global limit/seconds; discovery/a second route; " +
			"pair/same hash/same route, no; pair/same hash/same route, same; pair/without a hash/same route, no; " +
			"pair/without a hash/same route, same",
	},
	{
		name:    "forgets where a request stood",
		request: func(*buckets.Request) {}, // makes the limiter copy each request, which the manager knows by its address
		fails:   "order/refused requests come first",
	},
	{
		name: "lets every second request overtake others", favours: true,
		fails: "order/first come; order/one at; cancel/everything in flight/last; change/of the hash while",
	},
	{
		name: "leaks what a cancelled waiter is granted", acquire: leak,
		fails: "cancel/unknown; cancel/used up; cancel/everything; cancel/refused; cancel/global; " +
			"cancel/while the window; cancel/while a place; arguments/context that has ended",
	},
	{
		name: "does not notice the end of a context", context: context.WithoutCancel,
		fails: "cancel/unknown; cancel/used up; cancel/everything; cancel/refused; cancel/global; deadline/of a wait; " +
			"arguments/context that has ended",
	},
	{
		name:    "forgets the deadline",
		context: func(ctx context.Context) context.Context { return noDeadline{ctx} },
		fails:   "deadline/before the predicted wait; deadline/counting the queue",
	},
	{
		name:    "ignores the values of a context",
		context: func(ctx context.Context) context.Context { return noValues{ctx} },
		fails:   "max wait/zero; max wait/shorter; max wait/a hold; order/one at a time",
	},
	{
		name: "rejects too much", with: []buckets.Option{buckets.WithMaxRateLimit(time.Nanosecond)},
		fails: "deadline/after the wait; first answer/refused; window/fixed/one by one; cancel/while in flight; " +
			"memory/while nobody",
	},
	{
		name: "has another bound than it says", with: []buckets.Option{buckets.WithMaxRateLimit(time.Hour)},
		suite: []Option{WithMaxWait(5 * time.Minute)},
		fails: "max wait/of the limiter",
	},
	{
		name: "ignores global holds", answer: answering(ratelimits.ClassGlobal, ignore),
		fails: "refusal/what waits/credential; refusal/how long/credential; refusal/of an unknown route; " +
			"hold/never shortened/credential; cancel/refused credential; close/ends all waits",
	},
	{
		name: "ignores the edge", answer: answering(ratelimits.ClassEdge, ignore),
		fails: "refusal/what waits/address; refusal/how long/address; refusal/at the edge; " +
			"hold/never shortened/address; cancel/refused address",
	},
	{
		name: "ignores refused buckets", answer: answering(ratelimits.ClassUser, ignore),
		fails: "refusal/what waits/bucket; refusal/how long/bucket; refusal/one goes first; refusal/for thirty years; " +
			"foreign/costs; hold/never shortened/bucket",
	},
	{
		name: "ignores refused resources", answer: answering(ratelimits.ClassShared, ignore),
		fails: "refusal/what waits/resource; refusal/how long/resource; hold/never shortened/resource; memory/of a hold",
	},
	{
		name: "ignores refused fields", answer: answering(ratelimits.ClassSubLimit, ignore),
		fails: "refusal/what waits/fields; refusal/how long/fields; hold/never shortened/fields",
	},
	{name: "obeys only three 429s", obeys: 3, fails: "refusal/how long/"},
	{
		name:   "takes the edge for a global limit",
		answer: answering(ratelimits.ClassEdge, asClass(ratelimits.ClassGlobal)),
		fails:  "refusal/what waits/address; refusal/at the edge",
	},
	{
		name:   "holds interactions for a global limit",
		answer: answering(ratelimits.ClassGlobal, asClass(ratelimits.ClassEdge)),
		fails:  "hold/what may go/credential",
	},
	{
		name:   "takes refused fields for a bucket",
		answer: answering(ratelimits.ClassSubLimit, asClass(ratelimits.ClassUser)),
		fails:  "hold/what may go/fields",
	},
	{
		name:   "takes a resource for a bucket",
		answer: answering(ratelimits.ClassShared, asClass(ratelimits.ClassUser)),
		fails:  "refusal/leaves the count alone",
	},
	{
		name: "takes a missing time for zero",
		answer: answering(ratelimits.ClassEdge, func(r *ratelimits.Response) {
			if !r.HasRetryAfter {
				ignore(r)
			}
		}),
		fails: "refusal/at the edge without a time",
	},
	{
		name: "shortens holds",
		end: func(l *limiter, r ratelimits.Response, end func()) {
			if r.Class != ratelimits.ClassOK {
				l.manager.LiftHolds()
			}
			end()
		},
		fails: "hold/never shortened/",
	},
	{
		name: "shares buckets between credentials", request: func(r *buckets.Request) { r.Authorization = bot },
		fails: "hold/credentials are apart; hold/what may go/credential; global limit/each credential",
	},
	{
		name: "takes all servers for one", request: func(r *buckets.Request) { r.Server = "" },
		fails: "server/",
	},
	{
		name: "does not know major parameters", request: toOneChannel,
		fails: "discovery/each major parameter; pair/same hash/same route, other major; " +
			"pair/without a hash/same route, other major; pair/same hash/other route, other major; " +
			"pair/same hash/other method, other major",
	},
	{
		name: "has one bucket for everything", request: toOneRoute, answer: hideBucket,
		fails: "pair/without a hash/other; pair/other hash/; pair/without a hash/same route, other; " +
			"hold/what may go/bucket; hold/what may go/resource; discovery/each major",
	},
	{
		name: "does not know hashes", answer: hideBucket,
		fails: "discovery/a second route; pair/same hash/other route, same; pair/same hash/other route, no; " +
			"pair/same hash/other method, same; pair/same hash/other method, no",
	},
	{
		name: "takes all hashes for one",
		answer: func(r *ratelimits.Response) {
			if r.Bucket != "" {
				r.Bucket = "one"
			}
		},
		fails: "change/of the hash of one; pair/other hash/other route, same; pair/other hash/other method, same; " +
			"hold/what may go/bucket",
	},
	{
		name: "takes Return for Release", sent: func(bool, ratelimits.Response) bool { return true },
		fails: "lease/Return; lease/ended more than once; cancel/while a place",
	},
	{
		name: "takes Release for Return", sent: func(sent bool, r ratelimits.Response) bool { return sent && r.Status > 0 },
		fails: "lease/Release keeps; trouble/lost after; cancel/while in flight",
	},
	{
		name:  "takes server errors for uncounted",
		sent:  func(sent bool, r ratelimits.Response) bool { return sent && r.Status < 500 },
		fails: "trouble/a server error; trouble/server errors, counted",
	},
	{
		name:  "blocks in Update",
		sent:  blocksIf(func(_ bool, r ratelimits.Response) bool { return r.Status > 0 }),
		fails: "lease/ending does not block",
	},
	{
		name:  "blocks in Return",
		sent:  blocksIf(func(sent bool, _ ratelimits.Response) bool { return !sent }),
		fails: "lease/ending does not block",
	},
	{
		name:  "blocks in Release",
		sent:  blocksIf(func(sent bool, r ratelimits.Response) bool { return sent && r.Status == 0 }),
		fails: "lease/ending does not block",
	},
	{
		name: "does not count other clients' requests",
		answer: answering(ratelimits.ClassOK, func(r *ratelimits.Response) {
			if r.Limited {
				r.Remaining = r.Limit - 1
			}
		}),
		fails: "foreign/a lower count; window/a lower count; discovery/headers after all",
	},
	{
		name: "has no global limit", with: []buckets.Option{buckets.WithGlobalLimit(0)},
		fails: "global limit/seconds; global limit/each credential; cancel/global limit",
	},
	{
		name: "discovers nothing", with: []buckets.Option{buckets.WithUnknownMode(buckets.UnknownUnlimited)},
		fails: "discovery/cold burst; discovery/a second route; cancel/unknown route",
	},
	{
		name: "sends one at a time in each bucket", with: []buckets.Option{buckets.WithOrdered()},
		fails: "discovery/no headers; window/fixed/round trip 300ms; window/sliding/round trip 1.5s; " +
			"window/leaky/round trip 1.5s",
	},
	{
		name: "sends one at a time", with: []buckets.Option{buckets.WithOrdered()}, request: toOneRoute,
		fails: "hold/interactions; discovery/no headers; window/fixed/round trip 300ms; global limit/inter",
	},
	{
		name: "keeps the lease after an odd answer", // one that is no success, or has implausible limits
		end: func(_ *limiter, r ratelimits.Response, end func()) {
			if r.Class == ratelimits.ClassOK && r.Bucket != "" && r.Remaining < r.Limit && r.ResetAfter > 0 {
				end()
			}
		},
		fails: "first answer/",
	},
	{name: "forgets", forgets: true, fails: "memory/"},
	{name: "does not close", open: true, fails: "close/"},
	{
		name: "does not check its arguments", acquire: trust,
		fails: "arguments/no context; arguments/no request; arguments/no route; deadline/before",
	},
	{
		name: "puts tokens into errors",
		err: func(err error, r *buckets.Request) error {
			if r == nil {
				return err
			}
			return fmt.Errorf("%s: %w", r.Authorization, err)
		},
		fails: "arguments/no token",
	},
	{
		name:  "rejects with an error of its own",
		err:   func(error, *buckets.Request) error { return errors.New("refused") },
		fails: "deadline/before; max wait/shorter; max wait/zero; arguments/context that has ended",
	},
	{
		name: "does not look at fields", request: func(r *buckets.Request) { r.Fields = nil },
		fails: "hold/what may go/fields",
	},
}
