package buckets

import (
	"iter"
	"strconv"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

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

func (b *bucket) snapshot() BucketSnapshot {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, window := b.manager().now(), &b.window
	s := BucketSnapshot{
		Server: b.server().name, Hash: b.group.hash, Major: b.major.String(), Authentication: "-",
		Kind: window.Kind(), Unlimited: window.Unlimited(),
		Limit: window.Limit(), Period: window.Period(), Remaining: window.Remaining(now),
		ResetAfter: max(window.Reset()-now, 0), HoldAfter: window.HoldWait(now),
		InFlight: window.InFlight(), Waiting: b.queues.waiting(),
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
