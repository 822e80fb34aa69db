package discordsim

import "time"

// LimitUse is one request at one limit, with the state of the limit's counter immediately after the request. The
// request may come from another client. All uses of a limit together show when its windows opened and closed, and how
// full the limit was in between.
type LimitUse struct {
	At  time.Time
	Who Consumer
	// Class says which limit this is: it is the class of the limit's refusals. ClassUser stands for the bucket of the
	// route.
	Class Class
	// Hash and Major name the bucket. For a limit that is not a bucket, Hash is empty. For the global limit, Major is also
	// empty.
	Hash, Major string
	// Taken says that this limit accepted and counted the request.
	Taken bool
	Quota Quota // zero if nothing is limited
	State State // zero if nothing is limited
}

// used calls Config.ObserveLimit, if it is set, for one request at one limit.
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
