package buckets

import (
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/ratelight/ratelight/ratelimits"
)

// Shared is where a manager's permits come from when several processes share limits. *shared.Store of buckets/shared is one; bot
// authors get theirs from buckets/shared/redis and give it to WithShared.
//
// Here and in all that follows, times are those of the clock since the origin that Join was told. No method blocks or calls
// back before it has returned, all are safe for concurrent use, and they are called with locks of the manager held. The
// functions named changed are called from goroutines of the store, with no lock held.
type Shared interface {
	// Join starts a session: one manager, from its Start to its Close. Nothing of a session runs after its Close has returned.
	Join(clock clockwork.Clock, origin time.Time) SharedSession
}

// SharedSession is what one manager uses of a Shared.
type SharedSession interface {
	// Credential returns what stands for a secret in all processes, like the value of an Authorization header, and does not give it
	// away: 16 hexadecimal digits, or nothing for nothing.
	Credential(authorization string) string
	// Bucket returns the bucket of that name. changed is called when the session has something new to say of it.
	Bucket(key SharedKey, changed func()) SharedBucket
	// Global returns the global limit of a credential, of so many requests a second in all processes together, 0 if there are only
	// holds. changed is called when the session has something new to say of it.
	Global(credential string, limit int, changed func()) SharedGlobal
	// Discovery returns what is needed to find out the bucket hash of a route.
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

// SharedOutage is implemented by a SharedSession that knows when the others cannot be asked. Both methods may be called after Close.
type SharedOutage interface {
	// Outage returns why nobody can be asked at the moment, nil if that is not so. Those who wait go on waiting, unless what they
	// wait for has an Err; if that takes too long, they are told this.
	Outage() error
	// Away returns for how long nobody has been reached by now, whether somebody has to wait for that or not; 0 if that is not so.
	Away() time.Duration
}

// SharedKey names a bucket in all processes.
type SharedKey struct {
	Credential string // of SharedSession.Credential
	Hash       string // as the server named it, or what stands for it
	Major      string // parameter, with a hash in place of a token; empty if there is none
	Route      string // "POST /channels/{channel_id}/messages": the only one that uses the bucket; empty if several may
}

// SharedByRoute is implemented by a Shared that counts every route apart, whatever bucket hash its responses name.
type SharedByRoute interface {
	// ByRoute reports that a bucket is to be used by one route only, which its SharedKey names.
	ByRoute() bool
}

// Ticket is the place of one request in a shared queue, and then its permit. The zero value is none.
type Ticket uint64

// SharedBucket is one bucket that processes share.
//
//	shared  requests queue for permits, one ticket each, that are granted by what all processes share
//	lent    nobody else uses it, so this process decides by itself, by a window of its own, until the loan ends
//
// It starts out shared. A loan is offered by Loan. From when that has returned it until Return or the loan's end the bucket is lent, and
// only Until, Wanted and Return are used. All tickets are void from the moment of the offer until Return.
type SharedBucket interface {
	// Join asks for a permit for one more request, which stands in the queue of all processes according to when it arrived. That may be
	// long ago, if it comes back after a refusal, or has priority.
	Join(now, arrived time.Duration) Ticket
	// Leave gives a ticket back whose request will not be sent, whether it was granted or not, or was not counted here.
	Leave(now time.Duration, t Ticket)
	// Granted returns the first ticket that was granted and not taken.
	Granted(now time.Duration) (Ticket, bool)
	// Take says that the request of a granted ticket is sent now.
	Take(now time.Duration, t Ticket)
	// Report says what came of a request that was sent. Status is 0 if there was no response.
	Report(now time.Duration, t Ticket, r ratelimits.Response)
	// Hold lets nothing leave in any process for d from now on. A shorter hold never shortens a longer one.
	Hold(now, d time.Duration, class ratelimits.Class)
	// Adopt says that a request is in flight that was sent at the given time without a ticket, as its bucket was not known then. It
	// is charged, and has the returned ticket from now on, which is taken.
	Adopt(now, sent time.Duration) Ticket

	// Forecast returns what is known of the wait of one more request with so many tickets of this process ahead of it, counting
	// those of others, and what the bucket is.
	Forecast(now time.Duration, ahead int) SharedForecast
	// Answered reports that the ticket's place is known, so that Forecast counts who is ahead of it, or that asking for it has failed.
	Answered(t Ticket) bool
	// Err returns why nothing is granted, and what everybody who waits is to be told, if the policy for outages wants that.
	Err() error

	// Loan returns a loan that is offered, nil if there is none. Whoever gets it must use it.
	Loan(now time.Duration) *SharedLoan
	// Until returns when the loan ends, the zero time if there is none. It may grow, and it may become zero at any time.
	Until() time.Duration
	// Wanted reports that the loan is to be returned now.
	Wanted() bool
	// Return ends a loan: it says what has become of the bucket, and returns one ticket for each request in flight, which were sent
	// at the given times.
	Return(now time.Duration, s ratelimits.State, inFlight []time.Duration) []Ticket

	// Close ends the use of the bucket, when nothing waits. A loan is returned before. What is in flight stays charged if the session is
	// closed, too, before it has ended.
	Close()
}

// SharedForecast is what is known of a shared bucket.
type SharedForecast struct {
	Wait   time.Duration
	Class  ratelimits.Class // of the 429 whose hold it is, ClassOK if it is none
	Limit  int              // 0: not known
	Period time.Duration
}

// SharedLoan is a bucket that is lent to this process.
type SharedLoan struct {
	// State is the window to go on with. Requests in flight that had a ticket are not counted in it: they are those that the process
	// knows to be in flight, and Ended.
	State ratelimits.State
	// Ended are requests that ended after the state was taken, with what Report was told.
	Ended []SharedOutcome
	// Share is how many processes divide the limit among them, each by itself, as nothing can be shared at the moment; 1 if it is
	// all for this one.
	Processes int
}

// SharedOutcome is the outcome of a request.
type SharedOutcome struct {
	Sent     time.Duration
	Response ratelimits.Response
}

// SharedGlobal is a global limit that processes share: each has a part of it, which follows what it needs.
type SharedGlobal interface {
	// Part returns how many requests a second this process may send, and until when that is certain. Nothing is sent with a part
	// of 0, or after that time. With a part of 0 it is the time at which there may be one, in the past if that is not known.
	Part(now time.Duration) (part int, until time.Duration)
	// Need says that so many requests wait for the limit now, and so many leave. It is called for every request, and again while it waits.
	Need(now time.Duration, waiting, leaving int)
	// HoldWait returns how long everything is held back, because a process met the global limit.
	HoldWait(now time.Duration) time.Duration
	// Hold holds everything back in all processes for d from now on. A shorter hold never shortens a longer one.
	Hold(now, d time.Duration)
	// Err returns why nothing is granted, as SharedBucket does.
	Err() error
	// Close gives the part back.
	Close()
}

// SharedDiscovery lets one process at a time find out the bucket hash of a route, and the others know at once.
type SharedDiscovery interface {
	// Ask asks for the permission to find out. It is given once per call of Ask, and ends by Found or Close.
	Ask(now time.Duration)
	// May reports that the permission was given. It is used up by this.
	May(now time.Duration) bool
	// Hash returns what another process has found, empty if that is not known.
	Hash() string
	// Found ends the permission: the hash is known now. An empty one means that it still is not.
	Found(now time.Duration, hash string)
	// Err returns why nothing is granted, as SharedBucket does.
	Err() error
	// Close ends the use.
	Close()
}
