package shared

import (
	"iter"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/ratelight/ratelight/ratelimits"
)

// Source is where a manager gets permits if several processes share limits; see buckets.WithShared. *Store implements
// Source. Open of buckets/shared/redis returns a Store.
//
// In Source and the types below, a time is a duration since origin, measured with clock. Both are arguments of Join.
// The manager holds locks when it calls the methods. The methods are safe for concurrent use. They do not block, except
// Close of a Session, and they call no function of the manager before they return, except the argument arrivals of
// Demand. The functions named changed are called by goroutines of the store, with no lock held.
type Source interface {
	// Join starts a session for one manager. It lasts until Close of the session is called. No goroutine of the session
	// runs after Close has returned.
	Join(clock clockwork.Clock, origin time.Time) Session
}

// Session represents one manager's use of a Source.
type Session interface {
	// Credential returns a keyed hash of a secret, such as the value of an Authorization header. The hash is the same in
	// all processes. The hash has 16 hexadecimal digits; the hash of "" is "".
	Credential(authorization string) string
	// Bucket returns the bucket with that key. The bucket uses the window, see the type Bucket. changed is called when the
	// bucket's state has changed. As long as nothing is known of the bucket, its state is that of a new window. If window
	// is Declared, that new window has the same limit and period.
	Bucket(key Key, window *ratelimits.Window, changed func()) Bucket
	// Global returns the global limit of a credential: limit requests a second for all processes together. If limit is 0,
	// there is no global limit, and only holds are shared. changed is called when the state of the global limit has
	// changed.
	Global(credential string, limit int, changed func()) Global
	// Discovery returns the discovery of a route's bucket hash. changed is called when the state of the discovery has
	// changed.
	Discovery(credential, route string, changed func()) Discovery
	// Invalid counts a response that Discord counts against its limit of invalid requests. Like the method Others, it
	// returns the count of the other processes.
	Invalid() (others int)
	// Others returns how many invalid responses the other processes have counted in the latest period, as far as is known.
	Others() int
	// Close ends the session. It must be called after Close of all buckets, global limits and discoveries of the session.
	// It tries to report to the other processes what the session has not reported yet, and blocks for a second at most.
	Close()
}

// Monitor is implemented by a Session that detects outages and keeps statistics. Both methods may also be called after
// Close.
type Monitor interface {
	// Outage returns why the other processes cannot be reached at the moment, nil if they can be reached. Requests keep
	// waiting, unless the method Err of the limit that they wait for returns an error. A request that waits too long fails
	// with an error that wraps the outage.
	Outage() error
	// Stats returns the statistics of the session. The counters in it never shrink.
	Stats() Stats
}

// Key identifies a bucket in all processes.
type Key struct {
	Credential string // a result of Session.Credential
	Hash       string // the bucket hash that Discord has named, or a replacement
	Major      string // the major parameter, with a hash instead of a token; empty if there is none
	Route      string // "POST /channels/{channel_id}/messages" if only that route uses the bucket; empty if several may
}

// ByRoute is implemented by a Source that counts every route separately, whatever bucket hash the responses name. Such
// a Source shares no declared limits, so each process has declared limits of its own.
type ByRoute interface {
	// ByRoute reports whether each bucket is for only one route, which is the Route of the bucket's Key.
	ByRoute() bool
}

// Bucket gives out the permits of a bucket that processes share. Either the requests of all processes wait in one
// queue, or only this process uses the bucket for a while. A Bucket uses one of the manager's windows. This window
// shows what the process knows of the bucket, and the Bucket may replace the content of the window. A Bucket uses the
// window only while the manager calls one of the methods below, one call at a time. Between the calls the manager may
// read and change the window.
type Bucket interface {
	// Demand reports how many requests wait now. arrivals yields their arrival times, the earliest first. It may be used
	// only until Demand returns, and need not be read to the end. The queue of all processes is ordered by these arrival
	// times; the time may be long ago if a request returns after a 429 or has priority. Demand is called after each call
	// of changed, and after every change of the waiting requests.
	Demand(now time.Duration, waiting int, arrivals iter.Seq[time.Duration])
	// Next returns the earliest time at which the first waiting request may be able to leave. It is now if that request
	// can leave at once. Otherwise Take fails until that time, and Next has to be called again at that time. If the time
	// depends on an outcome or on another process, ok is false, and changed is called once the time is known.
	Next(now time.Duration) (at time.Duration, ok bool)
	// Take takes a permit for a request that is sent now. ok is false if there is no permit.
	Take(now time.Duration) (p Permit, ok bool)
	// Adopt charges a request in flight. The request was sent at the given time without a permit, because its bucket was
	// not known yet.
	Adopt(now, sent time.Duration) Permit
	// Report ends a permit with the response to its request, or with the zero Response if there was no response.
	Report(now time.Duration, p Permit, r ratelimits.Response)
	// Return ends a permit if its request was not sent, or does not count against this bucket.
	Return(now time.Duration, p Permit)
	// Hold holds the bucket in all processes for d from now on. A shorter hold never shortens a longer one.
	Hold(now, d time.Duration, class ratelimits.Class)
	// Predict returns a forecast for a request of this process. The argument ahead is the number of requests of this
	// process before that request, in the order of Demand.
	Predict(now time.Duration, ahead int) Forecast
	// Err returns the error with which all waiting requests fail, nil while they may go on waiting.
	Err() error
	// Close ends the use of the bucket. It is called when no request waits. If the session is closed before all requests
	// in flight have ended, these requests stay charged.
	Close()
}

// Permit stands for one request from the moment it is sent until its outcome is reported. Only the Bucket that returned
// a permit knows the permit's content.
type Permit any

// Forecast predicts the wait of one request.
type Forecast struct {
	Wait  time.Duration    // takes requests of other processes into account, as far as they are known
	Class ratelimits.Class // of the 429 that causes the wait, ClassOK if no 429 causes it
	// Certain reports whether the other processes have been asked about the request and have answered, or could not be
	// asked.
	Certain bool
	// Own reports whether only this process uses the bucket at the moment. In that case no other process has to be asked.
	Own bool
}

// Global is a global limit that processes share. Each process has a part of the limit, according to its need.
type Global interface {
	// Part returns how many requests a second this process may send (part), and the end of this permission (until). No
	// request is sent after until. If part is 0, no request is sent at all, and until is the time at which a part may
	// become available. If that time is not known, until is in the past.
	Part(now time.Duration) (part int, until time.Duration)
	// Need reports how many requests wait for the limit now, and how many leave now. It is called for every request, and
	// repeatedly while requests wait.
	Need(now time.Duration, waiting, leaving int)
	// HoldWait returns how much longer all requests are held because a process has received a 429 for the global limit.
	HoldWait(now time.Duration) time.Duration
	// Hold holds the requests of all processes for d from now on. A shorter hold never shortens a longer one.
	Hold(now, d time.Duration)
	// Err returns the error with which all waiting requests fail, nil while they may go on waiting.
	Err() error
	// Close ends the use of the limit, and gives this process's part back to the other processes.
	Close()
}

// Discovery lets one process at a time discover the bucket hash of a route. The other processes get the hash at once.
type Discovery interface {
	// Ask asks for the permission to send a probe. The permission ends with Found or Close. If the permission is not used
	// in time, another process may get it; the Discovery then asks for it again.
	Ask(now time.Duration)
	// May reports whether a probe may be sent now.
	May(now time.Duration) bool
	// Sent uses up the permission, because the probe was sent.
	Sent(now time.Duration)
	// Hash returns the hash that another process has found, empty if the hash is not known.
	Hash() string
	// Found ends the permission. hash is the bucket hash that the probe has found, empty if it has found none.
	Found(now time.Duration, hash string)
	// Err returns the error with which all waiting requests fail, nil while they may go on waiting.
	Err() error
	// Close ends the use of the discovery.
	Close()
}
