package discordsim

import (
	"net/http"
	"time"
)

// invalidCount counts the invalid requests of one address.
type invalidCount struct {
	gate
	count int
	since time.Time // beginning of the window
}

// account records the outcome of a request.
func (w *World) account(response *Response, x *exchange) {
	event := Event{
		SentAt: x.call.Request.SentAt, At: x.call.Now, Operation: x.call.Operation, Major: x.call.Major,
		Sequence: x.call.Request.Sequence, Status: response.Status,
		Class: response.Class, Verdict: response.Verdict, Because: response.Because, Value: x.call.Request.Value,
	}
	var tally Tally // the counts that this request adds
	switch {
	case x.faults.connection() == ConnectionLostBefore:
		w.report.Lost++
	case response.Class != ClassNone:
		tally.refuse(response.Class, response.Verdict)
		if x.late > 0 && response.Verdict == Excused {
			tally.Late.add(response.Class)
			if x.firstLate {
				tally.LateOpenings = 1
			}
		}
	case response.lost, response.Status >= http.StatusBadRequest && response.Status != x.status:
		tally.Failed = 1
	default:
		tally.Accepted = 1
		event.Accepted = w.report.Accepted + 1
	}
	if b := x.bucket; b != nil {
		event.Hash = x.hash
		if sequence := event.Sequence; tally.Accepted == 1 && sequence > 0 {
			if sequence < b.highest {
				tally.Inversions = 1
			}
			b.highest = max(b.highest, sequence)
		}
		b.tally.add(tally)
	}
	w.report.add(tally)
	if response.handle == nil {
		w.countInvalid(response, x.call.Request.Address, x.call.Now)
	}

	w.events.add(event)
	if event.Class != ClassNone {
		w.refusals.add(event)
	}
	if w.config.Observe != nil {
		w.config.Observe(event)
	}
}

// countInvalid counts a response that Discord counts as invalid, which may lead to a ban: 401, 403, or 429 without the
// scope "shared".
func (w *World) countInvalid(response *Response, address string, now time.Time) {
	switch response.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
	case http.StatusTooManyRequests:
		if response.Class == ClassShared {
			return
		}
	default:
		return
	}
	w.report.Invalid++
	limit := w.config.Invalid
	if limit.Limit < 0 {
		return
	}
	c := w.invalid[address]
	if c == nil {
		c = &invalidCount{}
		w.invalid[address] = c
	}
	if c.count == 0 || now.Sub(c.since) >= limit.Period {
		c.count, c.since = 0, now
	}
	c.count++
	if c.count >= limit.Limit && !c.until.After(now) {
		c.until = now.Add(limit.Ban)
		c.count = 0
		w.report.Bans++
	}
}

func (b *ByClass) sum(other ByClass) {
	b.User += other.User
	b.SubLimit += other.SubLimit
	b.Shared += other.Shared
	b.Global += other.Global
	b.Edge += other.Edge
}

func (t *Tally) add(other Tally) {
	t.Accepted += other.Accepted
	t.Failed += other.Failed
	t.Inversions += other.Inversions
	t.Refused.sum(other.Refused)
	t.Avoidable.sum(other.Avoidable)
	t.Excused.sum(other.Excused)
	t.Late.sum(other.Late)
	t.LateOpenings += other.LateOpenings
}
