package buckets

import (
	"context"
	"log/slog"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

// Hooks are told what a manager does. All are optional. They are called on the goroutine of the request or of the garbage
// collector, with no lock held, so they may call the manager (except Collected, which must not call Close); but what they delay
// is that request. None gets to see a credential or a token.
type Hooks struct {
	// Waiting is called for each request that has to wait.
	Waiting func(Waiting)
	// Held is called when something is held back that was not, because of a 429 or by Throttle.
	Held func(Held)
	// BudgetUsed is called when half, three quarters or nine tenths of the invalid request budget are used up.
	BudgetUsed func(BudgetUsed)
	// Collected is called after each run of the garbage collector that removed something.
	Collected func(Collected)
}

// Waiting says that a request has to wait.
type Waiting struct {
	// Route is the method and template.
	Route string
	// Wait is the predicted wait, 0 if nothing is known that it could be predicted from.
	Wait time.Duration
	// Class is that of the 429 whose hold it waits for, ClassOK if it waits for its window or those ahead.
	Class ratelimits.Class
	// Global reports that the limit is not the bucket's, but that of the authentication or the edge.
	Global bool
}

// Held says that something is held back.
type Held struct {
	// Class says what: see ratelimits.Class.
	Class ratelimits.Class
	// Route is the method and template of the request that was refused, empty for Throttle.
	Route string
	// Wait is for how long.
	Wait time.Duration
}

// BudgetUsed says how much of the invalid request budget is used up.
type BudgetUsed struct {
	// Used of Limit invalid responses have been seen in the latest Period. Fraction is the one of the marks that was passed.
	Used, Limit int
	Period      time.Duration
	Fraction    float64
}

// Collected says what the garbage collector removed, and what is left.
type Collected struct {
	Evicted, Left int
}

// WithHooks sets what is told of what the manager does.
func WithHooks(hooks Hooks) Option {
	return func(s *settings) { s.hooks = hooks }
}

// WithLogger sets where the manager logs: one warning for each new hold and for each mark of the invalid request budget, and
// the rest for debugging. Without it warnings go to slog.Default(), and nothing else goes anywhere. Nil turns
// logging off.
func WithLogger(logger *slog.Logger) Option {
	return func(s *settings) { s.logger, s.quiet = logger, logger == nil }
}

// debug logs a message for debugging, which only a logger that was given gets.
func (s *settings) debug(message string, attributes ...slog.Attr) {
	if s.logger != nil {
		s.logger.LogAttrs(context.Background(), slog.LevelDebug, message, attributes...)
	}
}

func (s *settings) warn(message string, attributes ...slog.Attr) {
	logger := s.logger
	if logger == nil {
		logger = slog.Default()
	}
	if !s.quiet {
		logger.LogAttrs(context.Background(), slog.LevelWarn, message, attributes...)
	}
}

// listens reports that somebody wants to be told who has to wait.
func (s *settings) listens() bool { return s.hooks.Waiting != nil || s.logger != nil }

func (s *settings) waiting(r *Request, f forecast) {
	w := Waiting{Route: r.Route.Route().String(), Wait: f.wait, Class: f.class, Global: f.global}
	s.debug("request waits", slog.String("route", w.Route), slog.Duration("predicted", w.Wait), slog.String("class", w.Class.String()))
	if s.hooks.Waiting != nil {
		s.hooks.Waiting(w)
	}
}

func (s *settings) held(h Held) {
	if h.Wait <= 0 {
		return
	}
	s.warn("requests are held back", slog.String("class", h.Class.String()), slog.String("route", h.Route), slog.Duration("wait", h.Wait))
	if s.hooks.Held != nil {
		s.hooks.Held(h)
	}
}

func (s *settings) budgetUsed(b *budget, fraction float64, now time.Duration) {
	u := BudgetUsed{Used: b.used(now), Limit: b.limit, Period: b.period, Fraction: fraction}
	s.warn("much of the budget of invalid requests is used up", slog.Int("used", u.Used), slog.Int("limit", u.Limit), slog.Duration("period", u.Period))
	if s.hooks.BudgetUsed != nil {
		s.hooks.BudgetUsed(u)
	}
}

func (s *settings) collected(c Collected) {
	if c.Evicted == 0 {
		return
	}
	s.debug("buckets collected", slog.Int("evicted", c.Evicted), slog.Int("left", c.Left))
	if s.hooks.Collected != nil {
		s.hooks.Collected(c)
	}
}
