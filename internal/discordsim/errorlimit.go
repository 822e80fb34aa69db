package discordsim

import "net/http"

// errorGate returns the gate that counts the errors of a request's address. It returns nil if the rule has no limit of
// errors.
func (w *World) errorGate(x *exchange) *gate {
	limit := x.rule.Errors
	if limit == nil {
		return nil
	}
	return w.gate(gateKey{class: ClassUser, name: limit.Name, major: x.call.Request.Address}, limit.Quota)
}

// errorsRefuse refuses a request if its address has too many errors. With an Extending quota, the refusal prolongs the
// block.
func (w *World) errorsRefuse(x *exchange) bool {
	g := w.errorGate(x)
	if g == nil || g.counter.State(x.call.Now).Remaining > 0 {
		return false
	}
	retry, _ := g.take(x)
	x.refusal = refusal{class: ClassUser, gate: g, retry: retry, named: x.rule.Errors.Name}
	return true
}

// countError counts the answer to a request that all limits have accepted, if the answer is an error.
func (w *World) countError(x *exchange, response *Response) {
	if g := w.errorGate(x); g != nil && response.Status >= http.StatusBadRequest {
		g.take(x)
	}
}

// judgeErrors judges a refusal by a limit of errors. After one such refusal of an operation, the client knows that the
// operation is refused until the wait named by the limit's latest refusal is over. Before that refusal, no answer shows
// which routes have the limit, or how many errors the limit allows.
func (w *World) judgeErrors(x *exchange, q question) (Verdict, string) {
	g := x.refusal.gate
	if g.forbade(q) && x.discovery.refused(g, q.heard) {
		return Avoidable, becauseTold
	}
	return Unavoidable, becauseOthers
}
