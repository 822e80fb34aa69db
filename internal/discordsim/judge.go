package discordsim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Class is the kind of a refusal.
type Class int

const (
	// ClassNone stands for an answer that is not a refusal by a limit.
	ClassNone Class = iota
	// ClassUser is a refusal by the bucket of the route: scope "user", nothing remaining.
	ClassUser
	// ClassSubLimit is a refusal by a limit of body fields: scope "user", and usually something remaining.
	ClassSubLimit
	// ClassShared is a refusal by a limit of the resource: scope "shared".
	ClassShared
	// ClassGlobal is a refusal by the limit of the whole authorization: scope "global".
	ClassGlobal
	// ClassEdge is a refusal by the edge in front of Discord. It applies to the address, for example as a ban for invalid
	// requests.
	ClassEdge
)

func (c Class) String() string {
	names := [...]string{"none", "user", "sub-limit", "shared", "global", "edge"}
	if c < 0 || int(c) >= len(names) {
		return fmt.Sprintf("Class(%d)", int(c))
	}
	return names[c]
}

// Verdict says whether the client could have avoided a refusal. The package documentation has the definition.
type Verdict int

const (
	// VerdictNone: the request was not refused.
	VerdictNone Verdict = iota
	// Avoidable: a client that drew every certain conclusion from its knowledge would not have sent the request.
	Avoidable
	// Unavoidable: neither the client's knowledge nor its own requests gave it a reason to wait.
	Unavoidable
	// Excused: the client could not know better. For example, it believed an answer that was wrong, or the limit had
	// changed since that answer.
	Excused
)

func (v Verdict) String() string {
	names := [...]string{"none", "avoidable", "unavoidable", "excused"}
	if v < 0 || int(v) >= len(names) {
		return fmt.Sprintf("Verdict(%d)", int(v))
	}
	return names[v]
}

// The reasons of verdicts, as Event.Because has them.
const (
	becauseTold          = "the client had been told to wait"
	becauseOwn           = "its own requests fill the limit"
	becauseOwnPace       = "its own requests exceed the global limit in some phase"
	becauseOthers        = "nothing that the client knew spoke against the request"
	becauseChanged       = "the limit had changed and no answer had said so"
	becauseFalsified     = "what the server said was false, or contradicted itself"
	becauseQuiet         = "headers were withheld, or never read"
	becauseStray         = "no answer had shown that others of its requests are counted here"
	becauseUnpredictable = "the bucket could not be foreseen"
	becauseKind          = "no answer had shown that the reset is that of the next place"
	becauseLag           = "Remaining had been one too high, and no answer had shown that"
	becausePeriod        = "no answer had named the whole period"
	becauseLate          = "the limit opened later than announced, and no refusal had shown so much"
	becauseTried         = "the limit was tried earlier than it had been seen to open, after long enough"
	becauseLateTold      = "refusals had shown how late the limit opens"
)

// gate is one limit that counts or refuses requests. It includes what answers have shown the client about the limit.
type gate struct {
	knowledge
	counter Counter // nil if nothing is counted here
	// pace logs the client's own requests under the global limit. It does not depend on the phase of the limit's windows.
	pace    *slidingLog
	until   time.Time
	lastUse time.Time
	crowded time.Time // when an own request was last counted while places were overdue
}

// take counts one request. If the limit refuses it, ok is false, and retry is how long the request would have to wait.
func (g *gate) take(x *exchange) (retry time.Duration, ok bool) {
	now := x.call.Now
	g.lastUse = now
	early := g.looksEarly(now)
	late := g.counter != nil && x.who == Own && g.counter.overdue(now) > 0
	if g.counter != nil && !g.counter.Take(now, x.who) {
		if g.evidence != nil && x.who == Own {
			g.evidence.tried(x.call.Request.SentAt)
		}
		return g.counter.State(now).RetryAfter, false
	}
	if late {
		g.crowded = now
	}
	if x.who == Own {
		g.note(x.call.Request.SentAt, now, g.announces(now))
		g.accept(now, quotaOf(g.counter).Period)
		if early {
			x.early = append(x.early, g)
		}
		if g.pace != nil {
			g.pace.add(now, Own)
		}
	}
	return 0, true
}

// opened returns the time at which the client expects the place of the next request to be free, zero if that place was
// never taken. No answer announces the end of a global window, so the client counts one period from each of its own
// requests.
func (g *gate) opened(now time.Time) time.Time {
	switch {
	case g.pace != nil:
		return g.pace.opened(now)
	case g.counter != nil:
		return g.counter.opened(now)
	}
	return time.Time{}
}

// announces returns the reset time that the answer to the latest counted request names.
func (g *gate) announces(now time.Time) time.Time {
	if g.counter == nil {
		return now
	}
	state := g.counter.State(now)
	return now.Add(state.ResetAfter - state.ResetLate)
}

// looksEarly reports whether the client, if a request is accepted now, may believe that the limit opened earlier than
// refusals had shown. The client cannot know whether that is true: perhaps the request took another place, not the
// announced one.
func (g *gate) looksEarly(now time.Time) bool {
	opened := g.opened(now)
	return g.counter != nil && g.counter.overdue(now) > 0 ||
		!opened.IsZero() && now.Before(opened.Add(g.largest(now)))
}

// idle reports whether forgetting the gate would change nothing.
func (g *gate) idle(now time.Time) bool {
	return now.Sub(g.lastUse) > forgetAfter && now.Sub(g.until) > forgetAfter &&
		(g.counter == nil || g.counter.State(now).Remaining == g.counter.Quota().Limit)
}

// judge judges a refusal. The order of the rules matters. A request sent during a known wait has no excuse. But a
// client that believed a false answer is excused, even if its own requests fill the limit.
func (w *World) judge(x *exchange) (Verdict, string) {
	g, sent := x.refusal.gate, x.call.Request.SentAt
	heard := sent.Add(-w.config.Tolerance)
	q := question{sent: sent, heard: heard, shape: x.shape(), discovery: x.discovery, knows: x.discovery.knows(x, sent)}
	if x.refusal.named != "" {
		return w.judgeErrors(x, q)
	}
	read := q
	read.heard = sent // blame only what is wrong in both cases, as in foreseen
	if g.forbade(q) && g.forbade(read) {
		if x.refusal.class == ClassUser && !w.foreseen(x) && !x.discovery.refused(g, q.heard) {
			return Excused, becauseUnpredictable // the answer named a wait, but did not say that this request also has to wait
		}
		return Avoidable, becauseTold
	}
	// For an excuse, all answers count that were delivered by the time sent, and not only those delivered by heard:
	// perhaps the client read an answer without any delay.
	var period time.Duration
	if g.counter != nil {
		period = g.counter.Quota().longest()
	}
	last := g.overtaken(sent)
	if reason := cmp.Or(g.excuse(sent, period), g.excuse(last, period)); reason != "" {
		return Excused, reason
	}
	if x.refusal.decreed {
		return Unavoidable, becauseOthers
	}
	own := g.counter != nil && g.counter.OwnUsed(x.call.Now) >= g.counter.Quota().Limit
	switch x.refusal.class {
	case ClassUser:
		if x.unpredictable {
			return Excused, becauseUnpredictable
		}
		if own {
			return w.judgeOwn(x, q)
		}
	case ClassGlobal:
		if own {
			return w.judgeLate(x, q)
		}
		if g.pace.OwnUsed(x.call.Now) >= g.pace.quota.Limit {
			return Avoidable, becauseOwnPace
		}
	}
	return Unavoidable, becauseOthers
}

// judgeOwn judges a refusal by a bucket that is full of the client's own requests.
func (w *World) judgeOwn(x *exchange, q question) (Verdict, string) {
	g := x.refusal.gate
	quota := g.counter.Quota()
	switch {
	case !w.foreseen(x):
		return Excused, becauseUnpredictable
	case g.counter.OwnUsed(x.call.Now)-g.unknown(q, x.call.Now, quota.longest()) < quota.Limit:
		return Excused, becauseStray
	case quota.NamesNext && (g.believes(q.sent, quota.Limit) || g.believes(g.overtaken(q.sent), quota.Limit)):
		return Excused, becauseKind
	case quota.Lags && g.believesLag(q.sent) && g.counter.OwnUsed(x.call.Now) == quota.Limit:
		return Excused, becauseLag
	case g.hurries(q.sent, x.call.Now, &quota):
		return Excused, becausePeriod
	}
	return w.judgeLate(x, q)
}

// foreseen reports whether the client knew in which bucket a request would be counted, or knew enough to hold the
// request back.
func (w *World) foreseen(x *exchange) bool {
	foreseen := x.discovery.foreseen
	if x.unpredictable {
		foreseen = w.warned
	}
	// The judge does not know whether the client had read the answers that were delivered within the tolerance. So the
	// client is blamed only if it would be blamed in both cases.
	sent := x.call.Request.SentAt
	return foreseen(x, sent) && foreseen(x, sent.Add(-w.config.Tolerance))
}

// shape returns a key that is the same for all requests that have to wait after this refusal, as far as the client
// knows. For a shared limit these are the requests of the same operation with the same major parameter. For a sub-limit
// they must also have the same body fields, because no answer shows which other requests the sub-limit counts. ""
// stands for all requests that the limit counts.
func (x *exchange) shape() string {
	switch x.refusal.class {
	case ClassShared:
		return x.call.Operation + " " + x.call.Major
	case ClassSubLimit:
		fields := slices.Sorted(slices.Values(x.call.Request.Fields))
		return x.call.Operation + " " + x.call.Major + " " + strings.Join(fields, " ")
	}
	return ""
}
