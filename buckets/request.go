package buckets

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/ratelight/ratelight/routes"
)

// Request describes a request, as far as limits are concerned. Most callers use Acquire, which fills in a Request; your
// own Request adds two things: the field names of the body, and that a request keeps its place.
//
// After a 429, a loss or a server error, acquire again with the same Request once its lease has ended: it keeps its
// place in the queue, ahead of all requests that came after it. After any other response, and after an error of
// AcquireRequest, the Request can be used like a new one. It must not be used by two goroutines at once.
//
// fmt and slog print it without its secrets, and encoding/json refuses it. There are exceptions, because fmt then
// bypasses Format: a Request in an unexported field of a struct without a Format method, a pointer to a Request there
// with any verb but %v, and the verbs %p and %w, which go vet rejects.
type Request struct {
	// Route is the compiled route.
	Route routes.CompiledRoute
	// Authorization is the value of the Authorization header, empty if none is sent. It separates the buckets of
	// different credentials. Only a keyed hash of it is kept.
	Authorization string
	// Server names the server to which the request is sent, empty for Discord. Requests to different servers share no
	// bucket, global limit, hold or budget of invalid requests.
	Server string
	// Group names what the request belongs to, a guild, say: groups take turns in queues, and a limit of WithLimit can have a window for
	// each (PerGroup). Empty means none, or that of ContextWithGroup.
	Group string
	// Fields returns the names of the top-level JSON fields of the body, in any order. Discord has sub-limits for some
	// of them (such as a channel's name); with the names, only requests with the same fields wait for such a limit. It
	// is called when the request has to wait, is refused by such a limit, or has to be told apart for a declared one (ChannelNameAndTopic),
	// and never under a lock. It may be nil. A panic in it counts as no fields.
	Fields func() []string

	// Of a request that comes back: what was found out of its fields, and when it was acquired first, made unique within its bucket.
	// While it is acquired, the first is kept here, too. 0: not known.
	subLimitKey uint64
	arrived     time.Duration

	waited time.Duration // in queues, until it was granted or refused the latest time; 0: not at all
}

// Waited returns how long the latest AcquireRequest or AcquireFunc with this Request waited in queues, 0 if it was answered at once. So
// its caller can tell waiting from the time that the manager itself takes.
func (r *Request) Waited() time.Duration { return r.waited }

// String returns method and path without a token, as routes.CompiledRoute.String does, and the server if it is not
// Discord. It does not contain the Authorization.
func (r Request) String() string {
	if r.Server == "" {
		return r.Route.String()
	}
	return r.Route.String() + " at " + r.Server
}

// Format prints String for every verb, quoted for %#v and %q. Without Format, fmt would print the fields for some
// verbs.
func (r Request) Format(state fmt.State, verb rune) {
	fmt.Fprintf(state, fmt.FormatString(state, verb), r.String())
}

// LogValue makes slog print a Request as String does, whatever the handler.
func (r Request) LogValue() slog.Value { return slog.StringValue(r.String()) }

// fieldNames calls a function of the caller's. It is called where a panic would leave things half done, so one counts as no fields.
func fieldNames(fields func() []string) (names []string) {
	defer func() {
		if recover() != nil {
			names = nil
		}
	}()
	return fields()
}

// subLimitKeyOf is what Discord's sub-limits on the contents of a body can be told apart by: the compiled route and the names of
// the fields that the body sets. It is never 0.
func (m *RESTBucketManager) subLimitKeyOf(route routes.CompiledRoute, fields func() []string) uint64 {
	text := route.Method() + route.Path()
	if fields != nil {
		for _, name := range slices.Sorted(slices.Values(fieldNames(fields))) {
			text += "\x00" + name
		}
	}
	return m.key.Load().Sum(text) | 1
}

// tuning is what a context says about the requests made with it.
type tuning struct {
	maxWait    time.Duration
	hasMaxWait bool
	ordered    bool
	priority   bool
	group      string
}

type tuningKey struct{}

func tuningOf(ctx context.Context) tuning {
	t, _ := ctx.Value(tuningKey{}).(tuning)
	return t
}

// ContextWithMaxWait overrides the max rate limit for the requests made with the context. Zero or less means that the
// request does not wait at all: it is granted at once or refused with a *ratelimits.TooLongError.
func ContextWithMaxWait(ctx context.Context, d time.Duration) context.Context {
	t := tuningOf(ctx)
	t.maxWait, t.hasMaxWait = max(d, 0), true
	return context.WithValue(ctx, tuningKey{}, t)
}

// ContextWithOrdered sends the requests made with the context one at a time in each bucket: each waits until the
// outcome of the previous one is known, so that Discord receives them in the order in which they were made.
func ContextWithOrdered(ctx context.Context) context.Context {
	t := tuningOf(ctx)
	t.ordered = true
	return context.WithValue(ctx, tuningKey{}, t)
}

// HeadStart is how far a request with priority moves ahead in its bucket's queue: before requests that came up to that
// long before it, and behind those that have waited longer. So a request waits at most for the priority requests that
// arrive within that time. Discord requires the first response to an interaction within 3 s.
const HeadStart = 3 * time.Second

// ContextWithPriority moves the requests made with the context ahead of others in their bucket's queue, by at most
// HeadStart. Use it for urgent requests, such as the response to an interaction.
func ContextWithPriority(ctx context.Context) context.Context {
	t := tuningOf(ctx)
	t.priority = true
	return context.WithValue(ctx, tuningKey{}, t)
}

// ContextWithGroup names the group of the requests made with the context whose Request names none, see Request.Group.
func ContextWithGroup(ctx context.Context, group string) context.Context {
	t := tuningOf(ctx)
	t.group = group
	return context.WithValue(ctx, tuningKey{}, t)
}

// MaxWait returns the max wait of ContextWithMaxWait, and whether there is one.
func MaxWait(ctx context.Context) (d time.Duration, ok bool) {
	t := tuningOf(ctx)
	return t.maxWait, t.hasMaxWait
}

// Ordered reports whether ContextWithOrdered was used.
func Ordered(ctx context.Context) bool { return tuningOf(ctx).ordered }

// Priority reports whether ContextWithPriority was used.
func Priority(ctx context.Context) bool { return tuningOf(ctx).priority }

// Group returns the group of ContextWithGroup, empty if there is none.
func Group(ctx context.Context) string { return tuningOf(ctx).group }

// groupIn returns the request's group when it is made with that context.
func (r *Request) groupIn(ctx context.Context) string {
	if r.Group != "" {
		return r.Group
	}
	return Group(ctx)
}
