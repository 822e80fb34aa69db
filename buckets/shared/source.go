package shared

import (
	"iter"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/ratelight/ratelight/ratelimits"
)

// Source is the source of a manager's permits when several processes share limits, see buckets.WithShared. *Store
// implements it; get one from buckets/shared/redis.
//
// In this and the following types, times are durations since the origin given to Join, on its clock. The methods are
// called with locks of the manager held. They do not block, do not call back before they return, and are safe for
// concurrent use. Goroutines of the store call the functions named changed, with no lock held.
type Source interface {
	// Join starts a session of one manager, which lasts from its Start to its Close. Nothing of a session runs after
	// its Close has returned.
	Join(clock clockwork.Clock, origin time.Time) Session
}

// Session represents one manager's use of a Source.
type Session interface {
	// Credential returns a keyed hash of a secret, such as the value of an Authorization header. It is the same in all
	// processes: 16 hexadecimal digits, or "" for "".
	Credential(authorization string) string
	// Bucket returns the bucket with that key, which works on the window. changed is called when the bucket's state has
	// changed. While nothing is known of the bucket, it has the state of a new window. If window is Declared, the new
	// window has the same limit and period.
	Bucket(key Key, window *ratelimits.Window, changed func()) Bucket
	// Global returns the global limit of a credential: limit requests a second in all processes together. If limit is
	// 0, there is no global limit, and only holds are shared. changed is called when the state has changed.
	Global(credential string, limit int, changed func()) Global
	// Discovery returns the discovery of a route's bucket hash. changed is called when its state has changed.
	Discovery(credential, route string, changed func()) Discovery
	// Invalid counts a response that Discord counts against its limit of invalid requests. It returns how many such
	// responses the other processes have counted, as far as is known.
	Invalid() (others int)
	// Others returns how many responses the other processes have counted as invalid, as far as is known.
	Others() int
	// Close ends the session. Call it after Close of all buckets, global limits and discoveries of the session. It
	// tries to pass what these had to report to the other processes, and blocks for a second at most.
	Close()
}

// Monitor is implemented by a Session that detects outages and counts its events. Both methods may be called after
// Close.
type Monitor interface {
	// Outage returns why the other processes cannot be reached at the moment, nil if they can. Requests go on waiting,
	// unless the limit that they wait for has an Err. A request that waits too long fails with an error whose cause is
	// the outage.
	Outage() error
	// Stats returns what the session has counted. Its counters never shrink.
	Stats() Stats
}

// Key identifies a bucket in all processes.
type Key struct {
	Credential string // result of Session.Credential
	Hash       string // bucket hash that Discord has named, or a replacement
	Major      string // major parameter, with a hash instead of a token; empty if there is none
	Route      string // "POST /channels/{channel_id}/messages" if only that route uses the bucket; empty if several may
}

// ByRoute is implemented by a Source that counts every route separately, whatever bucket hash its responses name.
// Such a Source shares no declared limits: each process has its own.
type ByRoute interface {
	// ByRoute reports whether each bucket is for one route only, which its Key names.
	ByRoute() bool
}

// Bucket gives out the permits of a bucket that processes share: from a queue of all processes, or from a window that
// only this process uses for a while. It works on a window of the manager, which shows what this process knows of the
// bucket, and may replace the window's content. It uses the window only during calls of the methods below, which the
// manager makes one at a time. Between the calls the manager may read and change the window.
type Bucket interface {
	// Demand reports how many requests wait now. arrivals yields their arrival times, the earliest first; it may be used
	// only until Demand returns, and need not be read to the end. A request's place in the queue of all processes is that
	// of its arrival, which may be long ago if the request returns after a 429 or has priority. Demand is called after
	// each call of changed, and after every other change of the waiting requests.
	Demand(now time.Duration, waiting int, arrivals iter.Seq[time.Duration])
	// Next returns the time at which to call Next again; Take fails before that. The time is now if the first waiting
	// request can leave. ok is false if the time depends on an outcome or on another process; changed is called once it
	// is known.
	Next(now time.Duration) (at time.Duration, ok bool)
	// Take takes a permit for a request that is sent now. ok is false if there is none.
	Take(now time.Duration) (p Permit, ok bool)
	// Adopt charges a request in flight that was sent at the given time without a permit, because its bucket was not
	// known yet.
	Adopt(now, sent time.Duration) Permit
	// Report ends a permit with the response to its request, or the zero response if there was none.
	Report(now time.Duration, p Permit, r ratelimits.Response)
	// Return ends a permit whose request was not sent, or does not count against this bucket.
	Return(now time.Duration, p Permit)
	// Hold holds the bucket in all processes for d from now on. A shorter hold never shortens a longer one.
	Hold(now, d time.Duration, class ratelimits.Class)
	// Predict returns what is known of the wait of a request that has ahead requests of this process before it, in the
	// order of Demand.
	Predict(now time.Duration, ahead int) Forecast
	// Err returns the error with which all waiting requests fail, nil while they may go on waiting.
	Err() error
	// Close ends the use of the bucket when no request waits. Requests in flight stay charged if the session, too, is
	// closed before they end.
	Close()
}

// Permit stands for one request from when it is sent until its outcome is reported. Only the Bucket that returned the
// permit knows its content.
type Permit any

// Forecast predicts the wait of one request.
type Forecast struct {
	Wait  time.Duration    // including the requests of other processes, as far as is known
	Class ratelimits.Class // of the 429 that caused the hold, ClassOK if there is none
	// Certain reports whether the other processes have been asked about that request and have answered, or the attempt
	// to ask them has failed.
	Certain bool
	// Own reports whether only this process uses the bucket at the moment, so that no other process has to be asked.
	Own bool
}

// Global is a global limit that processes share: each has a part of it, according to its need.
type Global interface {
	// Part returns how many requests a second this process may send, and until when. No request is sent after until. If
	// part is 0, no request is sent at all, and until is when a part may become available. An until in the past means
	// that this is not known.
	Part(now time.Duration) (part int, until time.Duration)
	// Need reports how many requests wait for the limit now, and how many leave now. It is called for every request,
	// and again while requests wait.
	Need(now time.Duration, waiting, leaving int)
	// HoldWait returns how long all requests are still held because a process has received a 429 for the global limit.
	HoldWait(now time.Duration) time.Duration
	// Hold holds the requests of all processes for d from now on. A shorter hold never shortens a longer one.
	Hold(now, d time.Duration)
	// Err returns the error with which all waiting requests fail, nil while they may go on waiting.
	Err() error
	// Close gives the part back to the other processes.
	Close()
}

// Discovery lets one process at a time discover the bucket hash of a route, and passes the hash to the other processes
// at once.
type Discovery interface {
	// Ask asks for the permission to send a probe. The permission ends with Found or Close. If it is not used in time,
	// another process may get it, and this process asks again by itself.
	Ask(now time.Duration)
	// May reports whether a probe may be sent now.
	May(now time.Duration) bool
	// Sent uses up the permission, because the probe was sent.
	Sent(now time.Duration)
	// Hash returns the hash that another process has found, empty if it is not known.
	Hash() string
	// Found ends the permission with the hash that was found, empty if the hash is still unknown.
	Found(now time.Duration, hash string)
	// Err returns the error with which all waiting requests fail, nil while they may go on waiting.
	Err() error
	// Close ends the use of the discovery.
	Close()
}
