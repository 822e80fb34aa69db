package limitertest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/ratelimits"
)

// broken is a limiter with one mistake. fails lists the cases that must find the mistake, by prefixes of their names.
type broken struct {
	name    string
	make    func(t *testing.T) httpclient.Limiter
	options []Option
	fails   []string
}

// managed returns a function that makes managers with options that break a promise.
func managed(options ...buckets.Option) func(t *testing.T) httpclient.Limiter {
	return func(t *testing.T) httpclient.Limiter { return manager(t, options...) }
}

func unlimited(*testing.T) httpclient.Limiter { return buckets.Unlimited{} }

// around returns a function that wraps a manager.
func around[L httpclient.Limiter](wrap func(inner httpclient.Limiter) L) func(t *testing.T) httpclient.Limiter {
	return func(t *testing.T) httpclient.Limiter { return wrap(manager(t)) }
}

// deaf hides a part of every context from a manager.
func deaf(to without) func(t *testing.T) httpclient.Limiter {
	return alter(altered{context: func(ctx context.Context) context.Context {
		to := to
		to.Context = ctx
		return to
	}})
}

var brokenLimiters = []broken{
	{
		name: "no limits", make: unlimited,
		fails: []string{
			"window/", "trouble/", "change/", "foreign/", "memory/", "refusal/", "discovery/cold burst", "order/", "lease/",
			"max wait/shorter", "max wait/zero", "deadline/before", "global limit/seconds",
			"pair/same hash/same route, no", "pair/same hash/same route, same", "pair/without a hash/same route, no",
			"pair/without a hash/same route, same",
		},
	},
	{
		name: "believes the latest headers", make: newNaive,
		fails: []string{
			"window/fixed/round trip", "window/sliding/round trip", "window/leaky/round trip", "discovery/cold burst",
			"discovery/a second route", "pair/same hash/other method, same major", "arguments/context", "arguments/no r",
		},
	},
	{
		name: "forgets where a request stood", make: alter(altered{request: func(*buckets.Request) {}}),
		fails: []string{"order/refused requests come first"},
	},
	{
		name: "last come, first served",
		make: around(func(l httpclient.Limiter) *lastComeFirstServed { return &lastComeFirstServed{inner: l} }),
		fails: []string{
			"order/", "cancel/used up window/last", "cancel/everything in flight/", "deadline/counting",
			"change/of the hash while", "global limit/interactions",
		},
	},
	{
		name: "leaks what a cancelled waiter is granted",
		make: around(func(l httpclient.Limiter) leaking { return leaking{l} }),
		fails: []string{
			"cancel/unknown", "cancel/used up", "cancel/everything", "cancel/refused", "cancel/global",
			"cancel/while the window", "cancel/while a place",
			"arguments/context that has ended",
		},
	},
	{
		name: "does not notice the end of a context", make: deaf(without{end: true}),
		fails: []string{
			"cancel/unknown", "cancel/used up", "cancel/everything", "cancel/refused", "cancel/global", "deadline/of a wait",
			"arguments/context that has ended",
		},
	},
	{
		name: "forgets the deadline", make: deaf(without{deadline: true}),
		fails: []string{"deadline/before the predicted wait", "deadline/counting the queue"},
	},
	{
		name: "does not know what a context allows", make: deaf(without{values: true}),
		fails: []string{"max wait/zero", "max wait/shorter", "max wait/a hold", "order/one at a time"},
	},
	{
		name: "refuses too much", make: managed(buckets.WithMaxRateLimit(time.Nanosecond)),
		fails: []string{
			"deadline/after the wait", "first answer/refused", "window/fixed/one by one", "cancel/while in flight",
			"memory/while nobody",
		},
	},
	{
		name: "has another bound than it says", make: managed(buckets.WithMaxRateLimit(time.Hour)),
		options: []Option{WithMaxWait(5 * time.Minute)},
		fails:   []string{"max wait/of the limiter"},
	},
	{
		name: "ignores global holds", make: answering(ratelimits.ClassGlobal, ignore),
		fails: []string{
			"refusal/what waits/credential", "refusal/how long/credential", "refusal/of an unknown route",
			"hold/never shortened/credential",
			"cancel/refused credential", "close/ends all waits",
		},
	},
	{
		name: "ignores the edge", make: answering(ratelimits.ClassEdge, ignore),
		fails: []string{
			"refusal/what waits/address", "refusal/how long/address", "refusal/at the edge", "hold/never shortened/address",
			"cancel/refused address",
		},
	},
	{
		name: "ignores refused buckets", make: answering(ratelimits.ClassUser, ignore),
		fails: []string{
			"refusal/what waits/bucket", "refusal/how long/bucket", "refusal/one goes first", "refusal/for thirty years",
			"foreign/costs", "hold/never shortened/bucket",
		},
	},
	{
		name: "ignores refused resources", make: answering(ratelimits.ClassShared, ignore),
		fails: []string{"refusal/what waits/resource", "refusal/how long/resource", "hold/never shortened/resource", "memory/of a hold"},
	},
	{
		name: "ignores refused fields", make: answering(ratelimits.ClassSubLimit, ignore),
		fails: []string{"refusal/what waits/fields", "refusal/how long/fields", "hold/never shortened/fields"},
	},
	{
		name:  "takes the edge for a global limit",
		make:  answering(ratelimits.ClassEdge, func(r *ratelimits.Response) { r.Class = ratelimits.ClassGlobal }),
		fails: []string{"refusal/what waits/address", "refusal/at the edge"},
	},
	{
		name:  "holds interactions for a global limit",
		make:  answering(ratelimits.ClassGlobal, func(r *ratelimits.Response) { r.Class = ratelimits.ClassEdge }),
		fails: []string{"hold/what may go/credential"},
	},
	{
		name: "takes refused fields for a bucket", make: answering(ratelimits.ClassSubLimit, asUser),
		fails: []string{"hold/what may go/fields"},
	},
	{
		name: "takes a resource for a bucket", make: answering(ratelimits.ClassShared, asUser),
		fails: []string{"refusal/leaves the count alone"},
	},
	{
		name: "takes no time for none", make: answering(ratelimits.ClassEdge, func(r *ratelimits.Response) {
			if !r.HasRetryAfter {
				ignore(r)
			}
		}),
		fails: []string{"refusal/at the edge without a time"},
	},
	{
		name: "shortens holds", make: shortening,
		fails: []string{"hold/never shortened/"},
	},
	{
		name:  "shares buckets between credentials",
		make:  alter(altered{request: func(r *buckets.Request) { r.Authorization = bot }}),
		fails: []string{"hold/credentials are apart", "hold/what may go/credential", "global limit/each credential"},
	},
	{
		name: "takes all servers for one", make: alter(altered{request: func(r *buckets.Request) { r.Server = "" }}),
		fails: []string{"server/"},
	},
	{
		name: "does not know major parameters",
		make: alter(altered{request: func(r *buckets.Request) { r.Route = fixedMajor(r.Route) }}),
		fails: []string{
			"discovery/each major parameter", "pair/same hash/same route, other major",
			"pair/without a hash/same route, other major",
			"pair/same hash/other route, other major", "pair/same hash/other method, other major",
		},
	},
	{
		name: "has one bucket for everything", make: alter(altered{
			request: func(r *buckets.Request) { r.Route = message(1) },
			answer:  func(r *ratelimits.Response) { r.Bucket = "" },
		}),
		fails: []string{
			"pair/without a hash/other", "pair/other hash/", "pair/without a hash/same route, other", "hold/what may go/bucket",
			"hold/what may go/resource", "discovery/each major",
		},
	},
	{
		name: "does not know hashes", make: alter(altered{answer: func(r *ratelimits.Response) { r.Bucket = "" }}),
		fails: []string{
			"discovery/a second route", "pair/same hash/other route, same", "pair/same hash/other route, no",
			"pair/same hash/other method, same", "pair/same hash/other method, no",
		},
	},
	{
		name: "takes all hashes for one", make: alter(altered{answer: func(r *ratelimits.Response) {
			if r.Bucket != "" {
				r.Bucket = "one"
			}
		}}),
		fails: []string{
			"change/of the hash of one", "pair/other hash/other route, same", "pair/other hash/other method, same",
			"hold/what may go/bucket",
		},
	},
	{
		name: "takes Return for Release", make: alter(altered{sent: func(bool, ratelimits.Response) bool { return true }}),
		fails: []string{"lease/Return", "lease/ended more than once", "cancel/while a place"},
	},
	{
		name:  "takes Release for Return",
		make:  alter(altered{sent: func(sent bool, r ratelimits.Response) bool { return sent && r.Status > 0 }}),
		fails: []string{"lease/Release keeps", "trouble/lost after", "cancel/while in flight"},
	},
	{
		name:  "takes server errors for uncounted",
		make:  alter(altered{sent: func(sent bool, r ratelimits.Response) bool { return sent && r.Status < 500 }}),
		fails: []string{"trouble/a server error", "trouble/server errors, counted"},
	},
	{
		name: "blocks at the end", make: alter(altered{answer: slowly}),
		fails: []string{"lease/ending does not block"},
	},
	{
		name: "counts alone", make: answering(ratelimits.ClassOK, func(r *ratelimits.Response) {
			if r.Limited {
				r.Remaining = r.Limit - 1
			}
		}),
		fails: []string{"foreign/a lower count", "window/a lower count", "discovery/headers after all"},
	},
	{
		name: "has no global limit", make: managed(buckets.WithGlobalLimit(0)),
		fails: []string{"global limit/seconds", "global limit/each credential", "cancel/global limit"},
	},
	{
		name: "discovers nothing", make: managed(buckets.WithUnknownMode(buckets.UnknownUnlimited)),
		fails: []string{"discovery/cold burst", "discovery/a second route", "cancel/unknown route"},
	},
	{
		name: "sends one at a time in each bucket", make: managed(buckets.WithOrdered()),
		fails: []string{
			"discovery/no headers", "window/fixed/round trip 300ms", "window/sliding/round trip 1.5s",
			"window/leaky/round trip 1.5s",
		},
	},
	{
		name:  "sends one at a time",
		make:  around(func(l httpclient.Limiter) serial { return serial{l, make(chan struct{}, 1)} }),
		fails: []string{"hold/interactions", "discovery/no headers", "window/fixed/round trip 300ms"},
	},
	{
		name:  "stops at an odd first answer",
		make:  around(func(l httpclient.Limiter) *stubborn { return &stubborn{inner: l} }),
		fails: []string{"first answer/"},
	},
	{
		name: "forgets", make: func(t *testing.T) httpclient.Limiter { return &forgetful{t: t} },
		fails: []string{"memory/"},
	},
	{
		name: "does not close", make: around(func(l httpclient.Limiter) open { return open{l} }),
		fails: []string{"close/"},
	},
	{
		name: "does not look at what it is given", make: around(func(l httpclient.Limiter) careless { return careless{l} }),
		fails: []string{"arguments/no context", "arguments/no request", "arguments/no route", "deadline/before"},
	},
	{
		name: "tells tokens", make: alter(altered{err: func(err error, r *buckets.Request) error {
			if r == nil {
				return err
			}
			return fmt.Errorf("%s: %w", r.Authorization, err)
		}}),
		fails: []string{"arguments/no token"},
	},
	{
		name: "does not look at fields", make: alter(altered{request: func(r *buckets.Request) { r.Fields = nil }}),
		fails: []string{"hold/what may go/fields"},
	},
}
