package discordsim

import "time"

// LimitUse is one request, of the client or of another client, at one limit, with the state of the limit's counter
// right afterwards. Together, the uses of a limit say when its windows opened and closed and how full it was in
// between.
type LimitUse struct {
	At  time.Time
	Who Consumer
	// Class names the limit: ClassUser for the bucket of the route, otherwise the class of its refusals.
	Class Class
	// Hash and Major name the bucket. A limit that is not a bucket has no hash, and one for everything has no major.
	Hash, Major string
	// Taken: the request was accepted and counted here.
	Taken bool
	Quota Quota // zero if nothing is limited
	State State // zero if nothing is limited
}

// used calls Config.ObserveLimit, if it is set, with a request at a limit.
func (w *World) used(x *exchange, class Class, g *gate, taken bool) {
	if w.config.ObserveLimit == nil {
		return
	}
	use := LimitUse{At: x.call.Now, Who: x.who, Class: class, Taken: taken, Quota: quotaOf(g.counter)}
	switch class {
	case ClassUser:
		use.Hash, use.Major = x.counters, x.call.Major
	case ClassSubLimit, ClassShared:
		use.Major = x.call.Major
	}
	if g.counter != nil {
		use.State = g.counter.State(x.call.Now)
	}
	w.config.ObserveLimit(use)
}
