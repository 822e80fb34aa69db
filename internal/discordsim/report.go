package discordsim

import (
	"cmp"
	"slices"
	"time"
)

// ByClass counts refusals of each class.
type ByClass struct {
	User, SubLimit, Shared, Global, Edge int
}

// Total returns the sum over all classes.
func (b ByClass) Total() int { return b.User + b.SubLimit + b.Shared + b.Global + b.Edge }

func (b *ByClass) add(class Class) {
	switch class {
	case ClassUser:
		b.User++
	case ClassSubLimit:
		b.SubLimit++
	case ClassShared:
		b.Shared++
	case ClassGlobal:
		b.Global++
	case ClassEdge:
		b.Edge++
	}
}

// Tally counts what happened to requests.
type Tally struct {
	// Accepted counts requests that all limits accepted and that were answered as the rule says.
	Accepted int
	// Failed counts requests that all limits accepted, but that a fault answered with status 400 or higher, or whose
	// answer was lost.
	Failed int
	// Refused counts requests that a limit refused. Avoidable and Excused each count a part of these refusals; all others
	// were unavoidable.
	Refused, Avoidable, Excused ByClass
	// Late counts the part of Excused whose cause was a limit that opened later than announced. LateOpenings counts such
	// openings: requests that were in flight together are refused at the same opening.
	Late         ByClass
	LateOpenings int
	// Inversions counts accepted requests that were overtaken: a request of the same bucket with a higher sequence number
	// had been accepted earlier. Requests without a number are ignored.
	Inversions int
}

func (t *Tally) refuse(class Class, verdict Verdict) {
	t.Refused.add(class)
	switch verdict {
	case Avoidable:
		t.Avoidable.add(class)
	case Excused:
		t.Excused.add(class)
	}
}

// Report sums up what the server saw. Requests = Accepted + Failed + Refused.Total() + Lost.
type Report struct {
	Tally
	Requests int
	// Lost counts requests that were never processed, because the connection broke first.
	Lost int
	// Invalid counts the responses to the client that Discord counts as invalid: 401, 403, and 429 without the scope
	// "shared".
	Invalid int
	// Bans counts the bans of addresses for invalid requests.
	Bans int
	// Foreign counts accepted requests of other clients.
	Foreign int
	// MaxInFlight is the largest number of requests that were in flight at once: sent, but not yet answered at the client.
	// Only the report of a Server has it.
	MaxInFlight int
	// First is when the first request was sent, and Last is when the last request was processed. Both are zero without
	// requests.
	First, Last time.Time
	// Buckets are sorted by hash, major parameter and authorization.
	Buckets []BucketReport
}

// BucketReport is the part of a report that belongs to one bucket. It does not count requests that the global limit or
// the edge refused, because they did not reach a bucket.
type BucketReport struct {
	Tally
	Hash          string // the name of its counters
	Major         string
	Authorization string // a digest
	Quota         Quota
	// Evicted is how many evicted buckets this report sums up. It is 0, except in one report without a name.
	Evicted int
}

// Event is the log entry of one request. It contains no token.
type Event struct {
	SentAt    time.Time
	At        time.Time // when the request was processed
	Operation string
	Hash      string // "" if the request did not reach a bucket
	Major     string
	Sequence  int64
	// Accepted numbers the accepted requests in the order of processing, from 1 on. It is 0 if the request was not
	// accepted.
	Accepted int
	Status   int // 0: the connection broke before processing
	Class    Class
	Verdict  Verdict
	Because  string
	Value    any // Request.Value
}

// eventLog keeps the latest events, or all events.
type eventLog struct {
	events []Event
	size   int // largest number of kept events; 0: no limit
	next   int // where the next event goes, once size events are kept
}

func (l *eventLog) add(event Event) {
	if l.size == 0 || len(l.events) < l.size {
		l.events = append(l.events, event)
		return
	}
	l.events[l.next] = event
	l.next = (l.next + 1) % l.size
}

// all returns the events in the order of processing.
func (l *eventLog) all() []Event {
	return slices.Concat(l.events[l.next:], l.events[:l.next])
}

// Events returns the latest events (all with Config.FullLog) in the order of processing.
func (w *World) Events() []Event { return w.events.all() }

// Refusals returns the latest refusals. They are kept in a log of their own, so that accepted requests do not push them
// out.
func (w *World) Refusals() []Event { return w.refusals.all() }

// Report sums up what has happened so far.
func (w *World) Report() Report {
	report := w.report
	report.Buckets = make([]BucketReport, 0, len(w.buckets)+1)
	for key, b := range w.buckets {
		line := BucketReport{Tally: b.tally, Hash: key.counters, Major: key.major, Authorization: digest(key.authorization)}
		if b.counter != nil {
			line.Quota = b.counter.Quota()
		}
		report.Buckets = append(report.Buckets, line)
	}
	if w.evicted.Evicted > 0 {
		report.Buckets = append(report.Buckets, w.evicted)
	}
	slices.SortFunc(report.Buckets, func(a, b BucketReport) int {
		return cmp.Or(cmp.Compare(a.Hash, b.Hash), cmp.Compare(a.Major, b.Major),
			cmp.Compare(a.Authorization, b.Authorization))
	})
	return report
}
