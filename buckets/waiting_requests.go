package buckets

import (
	"cmp"
	"encoding/json"
	"iter"
	"math"
	"slices"
	"time"
)

// WaitingRequest is what is known of a request that waits, at one moment. It contains no credential and no token.
type WaitingRequest struct {
	// Route is the method and template, Major the major parameter as in routes.CompiledRoute.RedactedMajor.
	Route, Major string
	// Server and Authentication are those of its bucket, see BucketSnapshot.
	Server, Authentication string
	// Group is its group, empty if it has none.
	Group string
	// Ahead is how many of its bucket leave before it, if nobody comes or goes and groups take turns.
	Ahead int
	// WaitsFor is what it waits for; Declared is the name of the declared limit if it is that, otherwise empty.
	WaitsFor WaitsFor
	Declared string
	// WaitAfter is how long it will still wait, counting those ahead, 0 if that depends on the outcome of a request in flight or on another
	// process. WaitUntil is the same as a time of the wall clock, zero if WaitAfter is.
	WaitAfter time.Duration
	WaitUntil time.Time
	// Waited is how long it has waited.
	Waited time.Duration
}

// MarshalJSON encodes the request with descriptive names, times in seconds.
func (w WaitingRequest) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Route          string    `json:"route"`
		Major          string    `json:"major"`
		Server         string    `json:"server"`
		Authentication string    `json:"authentication"`
		Group          string    `json:"group"`
		Ahead          int       `json:"ahead"`
		WaitsFor       WaitsFor  `json:"waits_for"`
		Declared       string    `json:"declared"`
		WaitAfter      float64   `json:"wait_seconds"`
		WaitUntil      time.Time `json:"wait_until,omitzero"`
		Waited         float64   `json:"waited_seconds"`
	}{
		w.Route, w.Major, w.Server, w.Authentication, w.Group, w.Ahead, w.WaitsFor, w.Declared,
		w.WaitAfter.Seconds(), w.WaitUntil, w.Waited.Seconds(),
	})
}

// WaitingRequests returns all requests that wait: those of one bucket in the order in which they leave, as far as that is known, the buckets in
// no order. What each of them is told is what Predict would have told it.
//
// It visits only buckets in which somebody waits, and locks one at a time, while those who wait there are looked at. A request that
// comes, leaves or moves to another bucket meanwhile may be missing, or be there twice.
func (m *RESTBucketManager) WaitingRequests() iter.Seq[WaitingRequest] {
	return func(yield func(WaitingRequest) bool) {
		for a := range m.listed.All() {
			busy, _ := a.busy.some(math.MaxInt)
			for _, b := range busy {
				for _, w := range b.waitingRequests() {
					if !yield(w) {
						return
					}
				}
			}
		}
	}
}

// waitingRequests returns all who wait in the bucket.
func (b *bucket) waitingRequests() []WaitingRequest {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, wall := b.now(), b.manager().settings.clock.Now()
	all := make([]WaitingRequest, 0, b.queues.length())
	for q := range b.queues.all {
		before := 0
		for w := range q.waiters {
			n := b.queues.aheadOf(&w.ask, w.Arrived, before)
			before++
			r := WaitingRequest{
				Route: w.request.Route.Route().String(), Major: w.request.Route.RedactedMajor(), Group: w.group,
				Server: b.server().name, Authentication: b.group.authentication.shown(),
				Ahead: n.all, Waited: now - w.asked(),
			}
			reason, f := b.outlook(now, &w.ask, b.predict(now, &w.ask, n))
			if r.WaitsFor, r.Declared, r.WaitAfter = reason, f.declared(), f.wait; f.wait > 0 {
				r.WaitUntil = wall.Add(f.wait)
			}
			all = append(all, r)
		}
	}
	slices.SortStableFunc(all, func(x, y WaitingRequest) int { return cmp.Compare(x.Ahead, y.Ahead) })
	return all
}
