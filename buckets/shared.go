package buckets

import (
	"iter"
	"reflect"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/ratelight/ratelight/ratelimits"
)

// Shared is the source of a manager's permits when several processes share limits. *shared.Store of buckets/shared
// implements it; get one from buckets/shared/redis for WithShared.
//
// In this and the following types, times are those of the clock since the origin that was given to Join. No method
// blocks or calls back before it has returned, all are safe for concurrent use, and they are called with locks of the
// manager held. The functions named changed are called from goroutines of the store, with no lock held.
type Shared interface {
	// Join starts a session of one manager, which lasts from its Start to its Close. Nothing of a session runs after
	// its Close has returned.
	Join(clock clockwork.Clock, origin time.Time) SharedSession
}

// SharedSession is the use of a Shared by one manager.
type SharedSession interface {
	// Credential returns a keyed hash of a secret, such as the value of an Authorization header, that is the same in
	// all processes: 16 hexadecimal digits, or "" for "".
	Credential(authorization string) string
	// Bucket returns the bucket with that key, which works on the window. changed is called when its state has changed. As long as nothing is
	// known of the bucket, its state is like that of a new window, or, if this one is Declared, of one with the same limit and period.
	Bucket(key SharedKey, window *ratelimits.Window, changed func()) SharedBucket
	// Global returns the global limit of a credential: limit requests a second in all processes together, 0 for holds
	// only. changed is called when its state has changed.
	Global(credential string, limit int, changed func()) SharedGlobal
	// Discovery returns the discovery of a route's bucket hash. changed is called when its state has changed.
	Discovery(credential, route string, changed func()) SharedDiscovery
	// Invalid counts a response that Discord counts against its limit of invalid requests, and returns how many the other
	// processes have counted, as far as is known.
	Invalid() (others int)
	// Others returns how many responses the other processes have counted as invalid, as far as is known.
	Others() int
	// Close ends the session, after all that it had was closed. What is known of that gets to the others if possible at once; it blocks
	// for a second at most.
	Close()
}

// SharedStatus is implemented by a SharedSession that knows when the others cannot be asked, and counts what it does. Both methods may be
// called after Close.
type SharedStatus interface {
	// Outage returns why the other processes cannot be reached at the moment, nil if they can. Requests go on waiting,
	// unless what they wait for has an Err; if they wait too long, this is the cause of their error.
	Outage() error
	// Stats returns what the session has counted. Its counters never shrink.
	Stats() SharedStats
}

// SharedKey identifies a bucket in all processes.
type SharedKey struct {
	Credential string // of SharedSession.Credential
	Hash       string // as the server named it, or a replacement
	Major      string // major parameter, with a hash in place of a token; empty if there is none
	Route      string // "POST /channels/{channel_id}/messages": the only one that uses the bucket; empty if several may
}

// SharedByRoute is implemented by a Shared that counts every route separately, whatever bucket hash its responses name. It shares no declared
// limits: each process has them for itself.
type SharedByRoute interface {
	// ByRoute reports whether each bucket is for one route only, which its SharedKey names.
	ByRoute() bool
}

// SharedBucket is where the permits of a bucket come from that processes share, whatever it takes: a queue of all processes, or a window that
// this process has for itself for a while. It works on a window of the manager's, which shows what is known here of the bucket, and may replace
// it. The window is used in no method but those below, whose calls the manager's lock on the bucket orders; the manager may look at the window, and
// change it, between them.
type SharedBucket interface {
	// Demand says how many requests wait now, and when the first ones arrived, as many as are asked for before it returns. The place of a
	// request in the queue of all processes is that of its arrival, which may be long ago if it returns after a refusal or has
	// priority. It is called after each call of changed, and after whatever else may have changed who waits.
	Demand(now time.Duration, waiting int, arrivals iter.Seq[time.Duration])
	// Next returns a time before which Take fails, and at which to ask again; now if the first of those who wait can leave. ok is false if
	// only an outcome or another process can tell: then changed is called.
	Next(now time.Duration) (at time.Duration, ok bool)
	// Take takes the permit of a request that is sent now, if there is one.
	Take(now time.Duration) (p SharedPermit, ok bool)
	// Adopt charges a request in flight that was sent at the given time without a permit, because its bucket was not known.
	Adopt(now, sent time.Duration) SharedPermit
	// Report ends a permit with the response to its request, the zero one if there was none.
	Report(now time.Duration, p SharedPermit, r ratelimits.Response)
	// Return ends a permit whose request was not sent, or does not count for this bucket.
	Return(now time.Duration, p SharedPermit)
	// Hold lets nothing be sent by any process for d from now on. A shorter hold never shortens a longer one.
	Hold(now, d time.Duration, class ratelimits.Class)
	// Predict returns what is known of the wait of a request with so many of this process ahead of it, as Demand orders them.
	Predict(now time.Duration, ahead int) SharedForecast
	// Err returns the error with which all waiting requests fail, nil while they may go on waiting.
	Err() error
	// Close ends the use of the bucket, when nothing waits. What is in flight stays charged if the session is closed, too, before it has
	// ended.
	Close()
}

// SharedPermit stands for one request from when it is sent until its outcome is reported. Only the SharedBucket that it comes from knows what it is.
type SharedPermit any

// SharedForecast is what is known of a wait.
type SharedForecast struct {
	Wait  time.Duration    // including the requests of other processes, as far as is known
	Class ratelimits.Class // of the 429 that caused the hold, ClassOK if there is none
	// Certain reports that the others have been asked for that request, and have answered, or that this has failed.
	Certain bool
	// Own reports that nobody else has to be asked: this process has the bucket for itself at the moment.
	Own bool
}

// SharedGlobal is a global limit that processes share: each has a part of it, according to its need.
type SharedGlobal interface {
	// Part returns how many requests a second this process may send, and until when. Nothing is sent with a part of 0,
	// or after that time. With a part of 0 the time is when there may be a part, in the past if that is not known.
	Part(now time.Duration) (part int, until time.Duration)
	// Need says that so many requests wait for the limit now, and so many leave. It is called for every request, and again while it waits.
	Need(now time.Duration, waiting, leaving int)
	// HoldWait returns how long everything is held back, because a process met the global limit.
	HoldWait(now time.Duration) time.Duration
	// Hold holds the requests of all processes for d from now on. A shorter hold never shortens a longer one.
	Hold(now, d time.Duration)
	// Err is that of SharedBucket.
	Err() error
	// Close gives the part back.
	Close()
}

// SharedDiscovery lets one process at a time find out the bucket hash of a route, and gives it to the others at once.
type SharedDiscovery interface {
	// Ask asks for the permission to send a probe. It is given once per call of Ask, and ends by Found or Close.
	Ask(now time.Duration)
	// May reports whether the permission was given, and uses it up.
	May(now time.Duration) bool
	// Hash returns the hash that another process has found, empty if it is not known.
	Hash() string
	// Found ends the permission with the hash that was found, empty if it is still unknown.
	Found(now time.Duration, hash string)
	// Err is that of SharedBucket.
	Err() error
	// Close ends the use of the discovery.
	Close()
}

// WithShared lets the manager share its limits with the managers of other processes whose stores have the same
// application and server: together they behave as one. Nil is ignored, and so is a nil pointer to a store.
//
// See the documentation of buckets/shared for how it works, what it costs, and what happens during an outage of the
// server. Several managers can use one store, and do not close it.
func WithShared(s Shared) Option {
	return func(settings *settings) {
		if s != nil && !nilPointer(s) {
			settings.shared = s
		}
	}
}

// nilPointer reports whether there is nothing behind an interface: whoever opens no store may have a nil one of its type.
func nilPointer(s Shared) bool {
	v := reflect.ValueOf(s)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// Shares reports whether the manager was made with WithShared. Then responses should have a Stamp, as buckets/shared/spectacles needs it.
func (m *RESTBucketManager) Shares() bool { return m.settings.shared != nil }

// joinSession starts the session of a manager that shares. m.moves is held.
func (m *RESTBucketManager) joinSession() {
	if s := m.settings.shared; s != nil {
		session := s.Join(m.settings.clock, m.origin)
		if n, ok := session.(SharedNotifier); ok {
			n.Notify(m.tellShared)
		}
		m.shared = m.sharedStats()
		m.joined.Store(&session)
	}
}

// leaveSession ends it.
func (m *RESTBucketManager) leaveSession() {
	if session := m.session(); session != nil {
		session.Close()
	}
}

// session returns the session, nil if nothing is shared.
func (m *RESTBucketManager) session() SharedSession {
	if session := m.joined.Load(); session != nil {
		return *session
	}
	return nil
}

// othersInvalid returns how many invalid responses other processes have counted.
func (m *RESTBucketManager) othersInvalid(s *server) int {
	if session := m.session(); session != nil && s.name == "" { // it knows of Discord only
		return session.Others()
	}
	return 0
}

// reportInvalid counts an invalid response. It returns the fraction of the budget that was passed by it, 0 if none.
func (m *RESTBucketManager) reportInvalid(s *server) (fraction float64) {
	if session := m.session(); session != nil && s.name == "" {
		session.Invalid()
	}
	return s.budget.report(m.now())
}
