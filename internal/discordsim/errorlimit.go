package discordsim

import "net/http"

// errorGate is where the errors of a request's address count, nil if no limit of errors concerns it.
func (w *World) errorGate(x *exchange) *gate {
	limit := x.rule.Errors
	if limit == nil {
		return nil
	}
	return w.gate(gateKey{class: ClassUser, name: limit.Name, major: x.call.Request.Address}, limit.Quota)
}

// errorsRefuse refuses a request of an address with too many errors. The refusal counts as one more if the quota
// extends.
func (w *World) errorsRefuse(x *exchange) bool {
	g := w.errorGate(x)
	if g == nil || g.counter.State(x.call.Now).Remaining > 0 {
		return false
	}
	retry, _ := g.take(x)
	x.refusal = refusal{class: ClassUser, gate: g, retry: retry, named: x.rule.Errors.Name}
	return true
}

// countError counts an answer that was let through by all limits, if it is an error.
func (w *World) countError(x *exchange, response *Response) {
	if g := w.errorGate(x); g != nil && response.Status >= http.StatusBadRequest {
		g.take(x)
	}
}

// judgeErrors decides about a refusal because of errors. What it has refused once it is known to refuse as long as the
// latest refusal in its name says; nothing tells beforehand which routes it is about, nor how many errors it allows.
func (w *World) judgeErrors(x *exchange, q question) (Verdict, string) {
	g := x.refusal.gate
	if g.forbade(q) && x.discovery.refused(g, q.heard) {
		return Avoidable, becauseTold
	}
	return Unavoidable, becauseOthers
}
