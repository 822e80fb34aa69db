package buckets

import (
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
	// Bucket returns the bucket with that key. changed is called when its state has changed.
	Bucket(key SharedKey, changed func()) SharedBucket
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

// SharedByRoute is implemented by a Shared that counts every route separately, whatever bucket hash its responses name.
type SharedByRoute interface {
	// ByRoute reports whether each bucket is for one route only, which its SharedKey names.
	ByRoute() bool
}

// Ticket is the place of one request in a shared queue, and once granted its permit. The zero value is no ticket.
type Ticket uint64

// SharedBucket is one bucket that processes share.
//
//	shared  requests queue for permits, one ticket each, in one queue for all processes
//	lent    no other process uses it: until the loan ends this process decides alone, with a window of its own
//
// It is shared at first. Loan offers a loan. From the moment Loan returns it until Return or the loan's end the bucket
// is lent, and only Until, Wanted and Return are used. All tickets are invalid from the offer until Return.
type SharedBucket interface {
	// Join asks for a permit for one more request. Its place in the queue of all processes is that of its arrival,
	// which may be long ago if it returns after a refusal or has priority.
	Join(now, arrived time.Duration) Ticket
	// Leave gives back a ticket, granted or not, whose request will not be sent or does not count for this bucket.
	Leave(now time.Duration, t Ticket)
	// Granted returns the first ticket that was granted and not taken.
	Granted(now time.Duration) (Ticket, bool)
	// Take records that the request of a granted ticket is sent now.
	Take(now time.Duration, t Ticket)
	// Report records the outcome of a request that was sent. Status is 0 if there was no response.
	Report(now time.Duration, t Ticket, r ratelimits.Response)
	// Hold lets nothing be sent by any process for d from now on. A shorter hold never shortens a longer one.
	Hold(now, d time.Duration, class ratelimits.Class)
	// Adopt charges a request in flight that was sent at the given time without a ticket, because its bucket was not
	// known. It returns the request's ticket, which counts as taken.
	Adopt(now, sent time.Duration) Ticket

	// Forecast returns what is known of the bucket, and of the wait of one more request with ahead tickets of this
	// process before it, including the tickets of other processes.
	Forecast(now time.Duration, ahead int) SharedForecast
	// Answered reports that the ticket's place is known, so that Forecast counts the tickets ahead of it, or that the
	// request for it has failed.
	Answered(t Ticket) bool
	// Err returns the error with which all waiting requests fail, nil while they may go on waiting.
	Err() error

	// Loan returns a loan that is offered, nil if there is none. The caller must use it.
	Loan(now time.Duration) *SharedLoan
	// Until returns when the loan ends, the zero time if there is none. It may be extended, or become zero, at any
	// time.
	Until() time.Duration
	// Wanted reports that the loan is to be returned now.
	Wanted() bool
	// Return ends a loan with the bucket's window, which is copied, and the permits of the requests in flight, which are all that are in
	// flight in the window. It returns one ticket for each of them.
	Return(now time.Duration, w *ratelimits.Window, inFlight []ratelimits.Permit) []Ticket

	// Close ends the use of the bucket, when nothing waits. A loan is returned before. What is in flight stays charged if the session is
	// closed, too, before it has ended.
	Close()
}

// SharedForecast is what is known of a shared bucket.
type SharedForecast struct {
	Wait   time.Duration
	Class  ratelimits.Class // of the 429 that caused the hold, ClassOK if there is none
	Limit  int              // 0: not known
	Period time.Duration
}

// SharedLoan is a bucket that is lent to this process.
type SharedLoan struct {
	// Window is the window to continue with. It contains the requests in flight.
	Window ratelimits.Window
	// Permits are those of the requests in flight, by their tickets.
	Permits map[Ticket]ratelimits.Permit
	// Processes is the number of processes among which the limit is divided, because nothing can be shared during an
	// outage; 1 if this process has all of it.
	Processes int
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
