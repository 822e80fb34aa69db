package discordsim

import (
	"net/http"
	"slices"
	"strconv"
	"time"
)

// operationKey identifies an operation that one authorization uses.
type operationKey struct{ operation, authorization string }

// discovery records what the answers to one operation have shown about the buckets that count its requests. If hashes
// change, or differ by channel, one answer does not tell which bucket will count the next request.
type discovery struct {
	answers []answer          // the latest ones, in the order of processing
	first   int               // the number of answers[0]
	named   map[string]naming // by the name of counters
	heard   time.Time         // when the client read the first answer that named a bucket; zero: it has read none
}

// maxAnswers is how many answers to one operation are always remembered. For a while there may be up to twice as many.
const maxAnswers = 128

// answer is a processed request, with what the answer to it names.
type answer struct {
	major      string
	sent, made time.Time
	read       time.Time // zero: not yet
	lost       bool      // the client will never read it
	bucket     *gate     // the bucket that the answer names; nil: none
	counters   string    // the counters of that bucket
	limit      int       // the limit, in requests, that the answer names; 0: the answer names none
	unlimited  bool      // a success without limit headers
	refused    bool      // a 429 of that bucket
	unnamed    *gate     // the bucket that refused the request, if the 429 does not name it
	chance     bool      // chance decided which bucket counted the request
}

// naming belongs to one name of counters. read is the time at which the client first read that these counters count the
// operation. since is the time at which the rule began to use these counters.
type naming struct{ since, read time.Time }

func (w *World) discover(x *exchange) *discovery {
	key := operationKey{x.call.Operation, x.owner()}
	d := w.operations[key]
	if d == nil {
		d = &discovery{named: make(map[string]naming)}
		w.operations[key] = d
	}
	return d
}

// reply refers to one answer.
type reply struct {
	discovery *discovery // nil: no answer
	number    int
	stray     *stray    // nil: the request is no stray
	counters  string    // the counters that the answer names; "" if they do not tell which counters count the next request
	settled   time.Time // when the rule began to use these counters
}

// note records a processed request before the answer to it travels back.
func (d *discovery) note(response *Response, x *exchange) {
	a := answer{major: x.call.Major, sent: x.call.Request.SentAt, made: x.call.Now, chance: x.unpredictable}
	response.reply = reply{discovery: d, number: d.first + len(d.answers), stray: x.stray, settled: x.settled}
	switch {
	case response.Header.Get(headerBucket) != "" && x.bucket != nil:
		a.bucket, a.counters, a.refused = &x.bucket.gate, x.counters, x.refusal.class == ClassUser
		a.limit, _ = strconv.Atoi(response.Header.Get(headerLimit)) // garbage counts as not named
		if !x.unpredictable {
			response.reply.counters = x.counters
		}
	case x.refusal.class == ClassUser:
		a.unnamed = x.refusal.gate
	case response.Status < http.StatusBadRequest && response.Header.Get(headerRemaining) == "":
		a.unlimited = true
	}
	if len(d.answers) >= 2*maxAnswers {
		d.first += maxAnswers
		d.answers = d.answers[:copy(d.answers, d.answers[maxAnswers:])]
	}
	d.answers = append(d.answers, a)
	if response.lost {
		response.reply.lose()
	}
}

// read records that the client has read the answer at the given time.
func (r reply) read(at time.Time) {
	d := r.discovery
	if d == nil {
		return
	}
	if i := r.number - d.first; i >= 0 {
		d.answers[i].read = at
		if d.answers[i].bucket != nil {
			d.heard = earliest(d.heard, at)
		}
	}
	if r.stray != nil {
		r.stray.read = at
	}
	if r.counters == "" {
		return
	}
	n := d.named[r.counters]
	if n.read.IsZero() || n.since.Before(r.settled) || n.since.Equal(r.settled) && at.Before(n.read) {
		d.named[r.counters] = naming{since: r.settled, read: at}
	}
}

// lose records that the client will never read the answer.
func (r reply) lose() {
	if r.discovery == nil {
		return
	}
	if i := r.number - r.discovery.first; i >= 0 {
		r.discovery.answers[i].lost = true
	}
}

// knows reports whether the counters that count a request were named by answers which the client had read by the time
// heard.
func (d *discovery) knows(x *exchange, heard time.Time) bool {
	n := d.named[x.counters]
	return !x.unpredictable && !n.read.IsZero() && !n.read.After(heard) && !n.since.Before(x.settled) &&
		!d.elsewhere(x, heard)
}

// elsewhere reports whether the latest answer from a request's channel named another bucket, at a time when chance
// decided between buckets. The roll-out may be over, and answers from other channels may show that. Still, the client
// has to assume that this channel uses the other bucket.
func (d *discovery) elsewhere(x *exchange, heard time.Time) bool {
	var newest answer
	for _, a := range d.answers {
		known := a.bucket != nil && !a.read.IsZero() && !a.read.After(heard)
		if known && a.major == x.call.Major && !a.made.Before(newest.made) {
			newest = a
		}
	}
	return newest.chance && newest.counters != x.counters
}

// refused reports whether the client had read a 429 to the same operation that came from the bucket by and did not name
// that bucket. Although the client does not know the bucket, it knows that such a 429 applies to requests of this
// operation.
func (d *discovery) refused(by *gate, heard time.Time) bool {
	return slices.ContainsFunc(d.answers, func(a answer) bool {
		return a.unnamed == by && !a.read.IsZero() && !a.read.After(heard)
	})
}

// foreseen reports whether the client, when it sent a request, could know in which bucket the request would be counted.
// It knows the answers that were delivered by the time heard.
//
// It also reports true for a request that no bucket allows. Before the first answer, no bucket allows a second request.
// If some answers have named limits, no bucket allows more requests in flight in one channel than the largest of these
// limits. If all answers were errors without limits, no bucket allows a second request in flight in one channel.
func (d *discovery) foreseen(x *exchange, heard time.Time) bool {
	if d.knows(x, heard) {
		return true
	}
	believed, open, openHere, errors := 0, 0, 0, 0
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
		case a.limit == 0:
			errors++
		default:
			believed = max(believed, a.limit)
		}
	}
	if believed > 0 {
		return openHere >= believed
	}
	if errors > 0 {
		return openHere > 0
	}
	return open > 0
}

// warned replaces foreseen for a request whose bucket is decided by chance. It reports whether each bucket that answers
// to the operation have named, in this channel or in others, would have refused the request, as far as the client knew.
// It also reports true if, of the answers that the client had read, the one to the request sent last is a 429 of this
// bucket.
func (w *World) warned(x *exchange, heard time.Time) bool {
	newest, any := answer{}, false
	open := x.renamed // no answer shows that two hashes belong to one bucket
	for _, a := range x.discovery.answers {
		if a.lost || a.read.IsZero() || a.read.After(heard) || a.bucket == nil && !a.unlimited {
			continue
		}
		open = open || a.unlimited || !w.forbidden(x, a.counters, heard)
		switch {
		case !any || a.sent.After(newest.sent):
			newest, any = a, true
		case a.sent.Equal(newest.sent) && a.bucket != newest.bucket:
			newest.refused = false // both were sent at the same time, so neither is the last one
		}
	}
	if !any {
		return x.discovery.foreseen(x, heard)
	}
	return newest.refused && newest.bucket == &x.bucket.gate || !open
}

// forbidden reports whether the client knew that a request would be refused if these counters counted it.
func (w *World) forbidden(x *exchange, counters string, heard time.Time) bool {
	b := w.buckets[bucketKey{counters, x.call.Major, x.owner()}]
	return b != nil && b.forbade(question{sent: x.call.Request.SentAt, heard: heard, discovery: x.discovery})
}
