package discordsim

import (
	"net/http"
	"strconv"
	"time"
)

// operationKey is an operation as one authorization uses it.
type operationKey struct{ operation, authorization string }

// discovery is what the answers to one operation have told about the buckets in which its requests are counted. A client
// learns that from answers only; where hashes change, or differ by channel, what it has learnt says nothing of the next request.
type discovery struct {
	answers []answer          // the latest, in the order of processing
	first   int               // the number of answers[0]
	named   map[string]naming // by the name of the counters
}

// maxAnswers is how many answers to one operation are remembered (up to twice as many for a while).
const maxAnswers = 128

// answer is one request that was processed, and what its answer names.
type answer struct {
	major      string
	sent, made time.Time
	read       time.Time // zero: not yet
	lost       bool      // it never will be
	bucket     *gate     // nil: it names none
	limit      int       // requests; 0: it does not say
	unlimited  bool      // a success without limit headers
	refused    bool      // a 429 of that bucket
}

// naming is when the client first read that an operation is counted in some counters, from an answer made at a moment or later.
type naming struct{ since, read time.Time }

func (w *World) discover(x *exchange) *discovery {
	key := operationKey{x.call.Operation, x.call.Request.Authorization}
	d := w.operations[key]
	if d == nil {
		d = &discovery{named: make(map[string]naming)}
		w.operations[key] = d
	}
	return d
}

// reply refers to one answer.
type reply struct {
	discovery *discovery // nil: to nothing
	number    int
	counters  string    // that it names and that the next request may rely on
	settled   time.Time // since when the rule had counted where it counted then
}

// note takes down that a request was processed and will be answered.
func (d *discovery) note(response *Response, x *exchange) {
	if response.lost {
		return
	}
	a := answer{major: x.call.Major, sent: x.call.Request.SentAt, made: x.call.Now}
	response.reply = reply{discovery: d, number: d.first + len(d.answers), settled: x.settled}
	switch {
	case response.Header.Get(headerBucket) != "" && x.bucket != nil:
		a.bucket, a.refused = &x.bucket.gate, x.refusal.class == ClassUser
		a.limit, _ = strconv.Atoi(response.Header.Get(headerLimit)) // garbage: it does not say
		if !x.unpredictable {
			response.reply.counters = x.counters
		}
	case response.Status < http.StatusBadRequest && response.Header.Get(headerRemaining) == "":
		a.unlimited = true
	}
	if len(d.answers) >= 2*maxAnswers {
		d.first += maxAnswers
		d.answers = d.answers[:copy(d.answers, d.answers[maxAnswers:])]
	}
	d.answers = append(d.answers, a)
}

// read notes when the client reads an answer.
func (r reply) read(at time.Time) {
	d := r.discovery
	if d == nil {
		return
	}
	if i := r.number - d.first; i >= 0 {
		d.answers[i].read = at
	}
	if r.counters == "" {
		return
	}
	if n := d.named[r.counters]; n.read.IsZero() || n.since.Before(r.settled) || n.since.Equal(r.settled) && at.Before(n.read) {
		d.named[r.counters] = naming{since: r.settled, read: at}
	}
}

// lose notes that the client never reads an answer.
func (r reply) lose() {
	if r.discovery == nil {
		return
	}
	if i := r.number - r.discovery.first; i >= 0 {
		r.discovery.answers[i].lost = true
	}
}

// foreseen reports whether the client, when it sent a request, could know in which bucket it would be counted, if it had read
// what was delivered by the moment heard.
//
// Where it could not, it is to blame all the same for what it would not have sent wherever that is counted: a second request
// before the first of all has been answered, or more at once than the limit that other answers have told it.
func (d *discovery) foreseen(x *exchange, heard time.Time) bool {
	if n := d.named[x.counters]; !x.unpredictable && !n.read.IsZero() && !n.read.After(heard) && !n.since.Before(x.settled) {
		return true
	}
	believed, open, openHere := 0, 0, 0
	for _, a := range d.answers {
		switch {
		case a.lost:
		case a.read.IsZero() || a.read.After(heard):
			open++
			if a.major == x.call.Major && !a.sent.After(x.call.Request.SentAt) {
				openHere++
			}
		case a.unlimited:
			return false
		default:
			believed = max(believed, a.limit)
		}
	}
	if believed > 0 {
		return openHere >= believed
	}
	return open > 0
}

// warned reports the same of a request whose bucket is a matter of chance: whether all buckets that answers have named in its
// place had forbidden it, or the newest answer of all is a 429 of the very bucket.
func (d *discovery) warned(x *exchange, heard time.Time) bool {
	var newest *answer
	overtaken, open := false, x.renamed // nothing told that two hashes are one bucket
	for i := range d.answers {
		a := &d.answers[i]
		if a.lost || a.read.IsZero() || a.read.After(heard) || a.major != x.call.Major || a.bucket == nil && !a.unlimited {
			continue
		}
		open = open || a.unlimited || !a.bucket.forbade(x.call.Request.SentAt, heard, "")
		overtaken = newest != nil && a.sent.Before(newest.sent)
		newest = a
	}
	switch {
	case newest == nil:
		return d.foreseen(x, heard)
	case newest.refused && !overtaken && newest.bucket == &x.bucket.gate:
		return true
	}
	return !open
}
