package buckets

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"github.com/ratelight/ratelight/internal/sparselog"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// Hooks are callbacks for what a manager does. All are optional. They are called on the goroutine of the request or of
// the garbage collector, with no lock held, so they may call the manager (except Collected and Shared, which must not call
// Close or Shutdown). A slow hook delays that request. No hook receives a credential or a token.
//
// The context is the one that the request was acquired with; Held and BudgetUsed, which may come after its end, get its values only, and that of
// Waited may have ended. It is
// context.Background() for what no request has caused: Throttle and UpdateRateLimits.
type Hooks struct {
	// Waiting is called for each request that has to wait.
	Waiting func(context.Context, Waiting)
	// Waited is called for each of them when its wait is over: it was granted, refused after all, or its context has ended. The
	// caller of Acquire knows of it only afterwards.
	Waited func(context.Context, Waited)
	// Held is called for each new hold, after a 429 with the context of the refused request, or by Throttle.
	Held func(context.Context, Held)
	// BudgetUsed is called when half, three quarters or nine tenths of the invalid request budget are used up, with the
	// context of the request whose response passed that threshold.
	BudgetUsed func(context.Context, BudgetUsed)
	// Collected is called after each run of the garbage collector that removed something.
	Collected func(Collected)
	// Shared is called for each event of what the manager shares with other processes, if it does: see SharedEvent. The events come
	// one after the other from a goroutine of the store; a slow hook delays only the following ones, and Close, which waits for the one that
	// is being told. It must not call Start, Close or Shutdown. The store logs outages by itself; see shared.WithLogger.
	Shared func(SharedEvent)
}

// Waiting says that a request has to wait.
type Waiting struct {
	// Route is the method and template, Major its major parameter as in routes.CompiledRoute.RedactedMajor.
	Route, Major string
	// Wait is the predicted wait, 0 if it cannot be predicted yet.
	Wait time.Duration
	// Class is the class of the 429 that caused the hold for which it waits, ClassOK if it waits for its window or the
	// queue.
	Class ratelimits.Class
	// Global reports that the limit is that of the authentication or the edge, not the bucket's.
	Global bool
}

// Waited says how a wait ended.
type Waited struct {
	// Route is the method and template, Major its major parameter as in routes.CompiledRoute.RedactedMajor.
	Route, Major string
	// For is what opened last of all that the request had to wait for, so that it left then. Of one that was not granted
	// it is what it waited for in the end.
	For WaitsFor
	// Wait is how long it waited.
	Wait time.Duration
	// Err is why it was not granted, nil if it was.
	Err error
}

// Held describes a new hold.
type Held struct {
	// Class says which requests are held: see ratelimits.Class.
	Class ratelimits.Class
	// Route is the method and template of the request that was refused, Major its major parameter as in
	// routes.CompiledRoute.RedactedMajor. Both are empty for Throttle.
	Route, Major string
	// Wait is how long they are held.
	Wait time.Duration
}

// BudgetUsed says how much of the invalid request budget is used up.
type BudgetUsed struct {
	// Route is the method and template of the request whose response was invalid, Major its major parameter as in
	// routes.CompiledRoute.RedactedMajor.
	Route, Major string
	// Used of Limit invalid responses have been counted in the latest Period. Fraction is the threshold that was
	// passed.
	Used, Limit int
	Period      time.Duration
	Fraction    float64
}

// Collected says how many buckets the garbage collector removed, and how many are left.
type Collected struct {
	Evicted, Left int
}

// WithHooks sets the callbacks for what the manager does. AddHooks adds more.
func WithHooks(hooks Hooks) Option {
	return func(s *settings) { s.hooks = hooks }
}

// AddHooks adds callbacks to those that there are, for whoever observes a manager that somebody else has made, such as
// httpclient/metrics. All are called, in the order in which they were added. They cannot be removed. What happens while AddHooks runs
// may be told to them or not. It does not block, and is safe for concurrent use.
func (m *RESTBucketManager) AddHooks(hooks Hooks) {
	for {
		before := m.hooks.Load()
		together := &Hooks{
			Waiting: inTurn(before.Waiting, hooks.Waiting), Waited: inTurn(before.Waited, hooks.Waited),
			Held: inTurn(before.Held, hooks.Held), BudgetUsed: inTurn(before.BudgetUsed, hooks.BudgetUsed),
			Collected: both(before.Collected, hooks.Collected), Shared: both(before.Shared, hooks.Shared),
		}
		if m.hooks.CompareAndSwap(before, together) {
			return
		}
	}
}

// inTurn returns a callback that calls both, either of which may be nil.
func inTurn[T any](first, second func(context.Context, T)) func(context.Context, T) {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(ctx context.Context, event T) { first(ctx, event); second(ctx, event) }
}

// both is inTurn for callbacks without a context.
func both[T any](first, second func(T)) func(T) {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(event T) { first(event); second(event) }
}

// WithLogger sets where the manager logs: warnings of new holds and of the marks of the invalid request budget, and the rest for debugging.
// Without it warnings go to slog.Default(), and nothing else goes anywhere. Nil turns logging off. A line about a request is logged with
// that request's context, or its values only if that may have ended.
//
// Lines with the same message and class are logged once in 30 seconds, at debug level too: the first one at once; the
// following ones are counted, and the latest of them is logged by the next run of the garbage collector after that
// time, or by Close. Use Hooks to get every event.
//
// The keys of the attributes, here and in httpclient:
//
//	route           method and template, without parameters
//	major           the channel's, guild's or webhook's id, "id:…" if a token belongs to it, "-" if there is none
//	class           of the 429: see ratelimits.Class; "ok" if there was none
//	hold            how long requests are held
//	predicted_wait  of a request that waits; missing if it cannot be predicted yet
//	waiting         the number of waiting requests
//	used, limit, period  of the invalid request budget
//	evicted, left   the numbers of buckets that were removed and that are left
//	attempt         the number of an attempt, from 1
//	status          of a response, 0 if there was none
//	pause           the time until the next attempt
//	reason          why there is no further attempt
//	error           why there was no response
//	repeated        the number of lines that were left out since the previous one, missing if none were
//
// No line contains a credential or a token.
func WithLogger(logger *slog.Logger) Option {
	return func(s *settings) {
		s.log = nil
		if logger != nil {
			s.log = sparselog.New(logger)
		}
	}
}

// subject returns the attributes that name what a line is about.
func subject(route, major string, others ...slog.Attr) []slog.Attr {
	if route == "" {
		return others
	}
	return append([]slog.Attr{slog.String("route", route), slog.String("major", major)}, others...)
}

// listens reports that somebody wants to be told that a request has to wait.
func (m *RESTBucketManager) listens(ctx context.Context) bool {
	return m.hooks.Load().Waiting != nil || m.settings.log.Enabled(ctx, slog.LevelDebug)
}

func (m *RESTBucketManager) tellWaiting(ctx context.Context, r *Request, f forecast) {
	w := Waiting{Route: r.Route.Route().String(), Major: r.Route.RedactedMajor(), Wait: f.wait, Class: f.class, Global: f.global}
	m.logWaiting(ctx, w)
	if hook := m.hooks.Load().Waiting; hook != nil {
		hook(ctx, w)
	}
}

// endWait takes in that the wait of a waiter is over, which nobody else knows any more, and how. Should the hook panic, a lease is given
// back.
func (m *RESTBucketManager) endWait(w *waiter, lease Lease, err error) {
	wait := m.now() - w.asked()
	w.request.waited = wait
	hook := m.hooks.Load().Waited
	if hook == nil {
		return
	}
	returned := false
	defer func() {
		if !returned {
			lease.Return()
		}
	}()
	route := &w.request.Route
	hook(w.ctx, Waited{Route: route.Route().String(), Major: route.RedactedMajor(), For: w.reason, Wait: wait, Err: err})
	returned = true
}

func (m *RESTBucketManager) logWaiting(ctx context.Context, w Waiting, others ...slog.Attr) {
	if !m.settings.log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	class := w.Class.String()
	attributes := subject(w.Route, w.Major, slog.String("class", class))
	if w.Wait > 0 {
		attributes = append(attributes, slog.Duration("predicted_wait", w.Wait))
	} else {
		class += ", not predicted"
	}
	m.settings.log.Write(ctx, m.now(), sparselog.Line{
		Level: slog.LevelDebug, Message: "request waits", Class: class, Attributes: append(attributes, others...),
	})
}

// logPredicted logs how long those wait whose wait could not be predicted before: one line for each bucket, which names the first of them.
func (m *RESTBucketManager) logPredicted(touched []*bucket) {
	if !m.settings.log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	for _, b := range touched {
		if ctx, w, n := b.firstWaiting(); n > 0 && w.Wait > 0 {
			m.logWaiting(ctx, w, slog.Int("waiting", n))
		}
	}
}

// firstWaiting returns what is known of the first of those who wait, and how many do.
func (b *bucket) firstWaiting() (ctx context.Context, w Waiting, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n = b.queues.length(); n == 0 {
		return nil, Waiting{}, 0
	}
	now := b.now()
	first := b.foremost(now)
	if first == nil {
		return nil, Waiting{}, 0
	}
	f, route := b.predict(now, &first.ask, ahead{}), first.request.Route
	return first.ctx, Waiting{Route: route.Route().String(), Major: route.RedactedMajor(), Wait: f.wait, Class: f.class, Global: f.global}, n
}

func (m *RESTBucketManager) tellHeld(ctx context.Context, h Held) {
	ctx = context.WithoutCancel(ctx)
	class := h.Class.String()
	m.settings.log.Write(ctx, m.now(), sparselog.Line{
		Level: slog.LevelWarn, Message: "requests are held", Class: class,
		Attributes: subject(h.Route, h.Major, slog.String("class", class), slog.Duration("hold", h.Wait)),
	})
	if hook := m.hooks.Load().Held; hook != nil {
		hook(ctx, h)
	}
}

func (m *RESTBucketManager) tellBudgetUsed(ctx context.Context, route *routes.CompiledRoute, b *budget, fraction float64) {
	ctx = context.WithoutCancel(ctx)
	u := BudgetUsed{
		Route: route.Route().String(), Major: route.RedactedMajor(),
		Used: b.used(m.now()), Limit: b.limit, Period: b.period, Fraction: fraction,
	}
	m.settings.log.Write(ctx, m.now(), sparselog.Line{
		Level: slog.LevelWarn, Message: "invalid request budget partly used up", Class: strconv.FormatFloat(fraction, 'g', -1, 64),
		Attributes: subject(u.Route, u.Major, slog.Int("used", u.Used), slog.Int("limit", u.Limit), slog.Duration("period", u.Period)),
	})
	if hook := m.hooks.Load().BudgetUsed; hook != nil {
		hook(ctx, u)
	}
}

func (m *RESTBucketManager) tellCollected(c Collected) {
	if c.Evicted == 0 {
		return
	}
	m.settings.log.Write(context.Background(), m.now(), sparselog.Line{
		Level: slog.LevelDebug, Message: "buckets collected", Attributes: []slog.Attr{slog.Int("evicted", c.Evicted), slog.Int("left", c.Left)},
	})
	if hook := m.hooks.Load().Collected; hook != nil {
		hook(c)
	}
}

func (m *RESTBucketManager) tellShared(e SharedEvent) {
	if hook := m.hooks.Load().Shared; hook != nil {
		hook(e)
	}
}
