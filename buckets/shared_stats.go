package buckets

import (
	"encoding/json"
	"time"
)

// SharedStats are the numbers of what a manager shares with other processes; all are zero if it shares nothing. Counters count since the
// manager was made and only grow, also when it is closed and started again: those are the fields of type uint64 and the times, but for
// Outage. Loans, Outage, OutageClass, Quota and QuotaNeed say what is so now. Two managers on one store count for themselves.
type SharedStats struct {
	// Calls are the calls to the server, by the name of the script: "swap" for buckets, "beat" to stay alive, "part" for the global limit,
	// "discover" for bucket hashes, "invalid" for invalid responses. Nil if there were none.
	Calls map[string]SharedCalls

	// Loans is the number of buckets that are lent to this process now. It is LoansTaken less LoansReturned less LoansExpired. Buckets that
	// are used alone because of an outage are not lent.
	Loans int
	// LoansTaken counts the loans. LoansReturned counts those that this process has given back in time; LoansExpired those that it lost
	// because the others may have held it for dead: no call got through, it was suspended, or the server had lost its state.
	LoansTaken, LoansReturned, LoansExpired uint64
	// LoansRecalled counts the loans that another process has asked for.
	LoansRecalled uint64

	// Losses counts how often the server knew less than this process had seen: it was emptied, restarted with an older state, or a replica
	// that was behind has taken over; or another process said so, or that the server's clock was set. Each time counts once, and a bucket or a global
	// limit once more if that alone was lost.
	Losses uint64
	// ClockSteps counts how often the server's clock showed a time that it could not have got to, by more than a quarter of a second: it was
	// set, or another server has taken over.
	ClockSteps uint64
	// Suspensions counts how often this process seems to have stood still together with its monotonic clock: the wall clock ran ahead of
	// that by more than a second.
	Suspensions uint64

	// Outage is for how long the server has been away by now, 0 if it is not. OutageClass says in a word what is wrong, as
	// shared.ErrorClass does, empty if it is not away.
	Outage      time.Duration
	OutageClass string
	// Outages counts how often the server was away, and OutageTime is for how long altogether; both include the outage of now.
	Outages    uint64
	OutageTime time.Duration

	// Quota is how many requests a second this process may send at the moment, as its part of the global limit, and QuotaNeed how many it
	// would send if it had all of that. They are sums over all credentials. If the need is the larger one for long, the global limit is
	// what the process waits for.
	Quota, QuotaNeed int
}

// SharedCalls are the calls of one script.
type SharedCalls struct {
	// Calls counts the calls that have ended, and Errors those of them that failed, for whatever reason. While the server is known to
	// be away only "beat" is called.
	Calls, Errors uint64
	// Time is how long all of them took, those that failed included.
	Time time.Duration
}

// MarshalJSON encodes the numbers with descriptive names, times in seconds.
func (s SharedStats) MarshalJSON() ([]byte, error) {
	calls := make(map[string]any, len(s.Calls))
	for script, c := range s.Calls {
		calls[script] = map[string]any{"calls": c.Calls, "errors": c.Errors, "seconds": c.Time.Seconds()}
	}
	return json.Marshal(map[string]any{
		"calls": calls,
		"loans": s.Loans, "loans_taken": s.LoansTaken, "loans_returned": s.LoansReturned,
		"loans_expired": s.LoansExpired, "loans_recalled": s.LoansRecalled,
		"losses": s.Losses, "clock_steps": s.ClockSteps, "suspensions": s.Suspensions,
		"outage_seconds": s.Outage.Seconds(), "outage_class": s.OutageClass, "outages": s.Outages, "outage_seconds_total": s.OutageTime.Seconds(),
		"quota": s.Quota, "quota_need": s.QuotaNeed,
	})
}

// after returns the numbers with what earlier sessions have counted.
func (s SharedStats) after(before *SharedStats) SharedStats {
	calls := make(map[string]SharedCalls, len(s.Calls))
	for _, all := range []map[string]SharedCalls{before.Calls, s.Calls} {
		for script, c := range all {
			sum := calls[script]
			calls[script] = SharedCalls{Calls: sum.Calls + c.Calls, Errors: sum.Errors + c.Errors, Time: sum.Time + c.Time}
		}
	}
	if len(calls) > 0 {
		s.Calls = calls
	}
	s.LoansTaken += before.LoansTaken
	s.LoansReturned += before.LoansReturned
	s.LoansExpired += before.LoansExpired
	s.LoansRecalled += before.LoansRecalled
	s.Losses += before.Losses
	s.ClockSteps += before.ClockSteps
	s.Suspensions += before.Suspensions
	s.Outages += before.Outages
	s.OutageTime += before.OutageTime
	return s
}

// sharedStats returns what all sessions of the manager have counted. m.moves is held.
func (m *RESTBucketManager) sharedStats() (s SharedStats) {
	if session, ok := m.session().(SharedStatus); ok {
		s = session.Stats()
	}
	return s.after(&m.shared)
}
