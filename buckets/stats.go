package buckets

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strconv"
	"time"

	"github.com/puzpuzpuz/xsync/v4"

	"github.com/ratelight/ratelight/ratelimits"
)

// Stats are the numbers of a manager since it was made. They are read one after the other, so sums may be off by what
// happened meanwhile.
type Stats struct {
	// Buckets, Routes and Authentications are how many of them are known now.
	Buckets, Routes, Authentications int
	// Waiting and InFlight are how many requests wait and are under way now.
	Waiting, InFlight int
	// Granted counts the requests that were allowed to leave.
	Granted uint64
	// Waited counts those of them that had to wait, WaitTime is how long they waited together.
	Waited   uint64
	WaitTime time.Duration
	// TooLong, QueueFull, OverBudget and Cancelled count the requests that were not granted: refused because of the
	// predicted wait, because too many waited, because of the budget of invalid requests, given up by their context.
	TooLong, QueueFull, OverBudget, Cancelled uint64
	// Responses counts the responses by class; what is not a 429 is under ratelimits.ClassOK.
	Responses [ratelimits.NumClasses]uint64
	// Invalid is the number of Discord's responses of the latest period that count against its limit of invalid requests,
	// InvalidLimit how many there may be, 0 if that is not bounded.
	Invalid, InvalidLimit int
	// Lost counts the requests whose outcome was never known.
	Lost uint64
	// Evicted counts the buckets that were removed by the garbage collector.
	Evicted uint64
}

// MarshalJSON writes the numbers under names that say what they are: classes by name, times in seconds.
func (s Stats) MarshalJSON() ([]byte, error) {
	classes := make(map[string]uint64, len(s.Responses))
	for class, n := range s.Responses {
		classes[ratelimits.Class(class).String()] = n
	}
	return json.Marshal(map[string]any{
		"buckets": s.Buckets, "routes": s.Routes, "authentications": s.Authentications,
		"waiting": s.Waiting, "in_flight": s.InFlight,
		"granted": s.Granted, "waited": s.Waited, "wait_seconds": s.WaitTime.Seconds(),
		"too_long": s.TooLong, "queue_full": s.QueueFull, "over_budget": s.OverBudget, "cancelled": s.Cancelled,
		"responses": classes, "invalid": s.Invalid, "invalid_limit": s.InvalidLimit, "lost": s.Lost, "evicted": s.Evicted,
	})
}

// counters count what happens to some requests.
type counters struct {
	waits, waitTime               *xsync.Counter
	tooLong, queueFull, cancelled *xsync.Counter
	overBudget, evicted           *xsync.Counter
}

func newCounters() counters {
	return counters{
		waits: xsync.NewCounter(), waitTime: xsync.NewCounter(),
		tooLong: xsync.NewCounter(), queueFull: xsync.NewCounter(), cancelled: xsync.NewCounter(),
		evicted: xsync.NewCounter(), overBudget: xsync.NewCounter(),
	}
}

func (c *counters) waited(d time.Duration) {
	c.waits.Inc()
	c.waitTime.Add(int64(d))
}

func (c *counters) refuse(err error) {
	var tooLong *ratelimits.TooLongError
	var queueFull *ratelimits.QueueFullError
	var overBudget *ratelimits.BudgetError
	switch {
	case errors.As(err, &tooLong):
		c.tooLong.Inc()
	case errors.As(err, &queueFull):
		c.queueFull.Inc()
	case errors.As(err, &overBudget):
		c.overBudget.Inc()
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		c.cancelled.Inc()
	}
}

// Stats returns the numbers of now.
func (m *RESTBucketManager) Stats() Stats {
	c := &m.counters
	m.moves.Lock()
	all := m.forgotten
	for _, s := range m.servers {
		all.add(s.budget.counters)
	}
	m.moves.Unlock()
	return Stats{
		Buckets: m.buckets.size(), Routes: m.entries.Size(), Authentications: m.authentications.Size(),
		Waiting:   int(m.waiting.Load()),
		InFlight:  int(max(all.inFlight(), 0)),
		Granted:   all.granted,
		Waited:    uint64(c.waits.Value()),
		WaitTime:  time.Duration(c.waitTime.Value()),
		TooLong:   uint64(c.tooLong.Value()),
		QueueFull: uint64(c.queueFull.Value()),
		Cancelled: uint64(c.cancelled.Value()),
		Responses: all.responses,
		Lost:      all.lost,
		Evicted:   uint64(c.evicted.Value()),

		OverBudget: uint64(c.overBudget.Value()),
		Invalid:    m.discord.budget.used(m.now()), InvalidLimit: m.discord.budget.limit,
	}
}

// BucketSnapshot is what is known of a bucket at one moment. It contains no credential and no token.
type BucketSnapshot struct {
	// Server is the server that the bucket is of (see Request.Server), empty for Discord.
	Server string
	// Hash is the bucket hash, UnknownHash for a route whose hash is not known, empty for one whose responses name none.
	Hash string
	// Route is the method and template if only one route uses the bucket, otherwise empty.
	Route string
	// Major is the major parameter, with a hash in place of a token, "-" if there is none.
	Major string
	// Authentication stands for the credential, "-" for none. It differs from manager to manager.
	Authentication string
	// Kind is how the bucket fills up.
	Kind ratelimits.Kind
	// Unlimited reports that responses carry no limits.
	Unlimited bool
	// Limit is the number of requests per Period, 0 if not known.
	Limit  int
	Period time.Duration
	// Remaining is how many requests could leave now.
	Remaining int
	// ResetAfter is the time until everything has certainly come back, HoldAfter how long nothing may leave.
	ResetAfter, HoldAfter time.Duration
	// InFlight and Waiting are the requests under way and in the queue.
	InFlight, Waiting int
}

// Buckets returns snapshots of all buckets, in no order. Buckets that come or go meanwhile may be missing. One bucket is locked
// at a time, while its snapshot is taken and not while the caller looks at it.
func (m *RESTBucketManager) Buckets() iter.Seq[BucketSnapshot] {
	return func(yield func(BucketSnapshot) bool) {
		for b := range m.buckets.all() {
			if !yield(b.snapshot()) {
				return
			}
		}
	}
}

func (b *RESTBucket) snapshot() BucketSnapshot {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, window := b.manager().now(), &b.window
	s := BucketSnapshot{
		Server: b.server().name, Hash: b.group.hash, Major: b.major.String(), Authentication: "-",
		Kind: window.Kind(), Unlimited: window.Unlimited(),
		Limit: window.Limit(), Period: window.Period(), Remaining: window.Remaining(now),
		ResetAfter: max(window.Reset()-now, 0), HoldAfter: window.HoldWait(now),
		InFlight: window.InFlight(), Waiting: b.waiting(),
	}
	if b.group.kind == unknownGroup {
		s.Hash = UnknownHash
	}
	if !b.group.route.IsZero() {
		s.Route = b.group.route.String()
	}
	if a := b.group.authentication; !a.anonymous {
		s.Authentication = "#" + strconv.FormatUint(a.id&0xffffff, 16)
	}
	return s
}
