package discordsim

import (
	"fmt"
	"time"
)

// Refusal is a 429 that no counter has caused, see [Fault]. Until Wait is over, it applies to the same requests as
// Discord's 429 of that class: to all requests of the bucket (ClassUser), of the operation with the same major
// parameter and body fields (ClassSubLimit), of the operation with the same major parameter (ClassShared), of the
// authorization (ClassGlobal), or of the address (ClassEdge).
type Refusal struct {
	Class Class
	Wait  time.Duration
}

func (r *Refusal) validate() error {
	if r.Class <= ClassNone || r.Class > ClassEdge || r.Wait <= 0 {
		return fmt.Errorf("%w: refusal of class %v for %v", ErrConfig, r.Class, r.Wait)
	}
	return nil
}

// refuse returns the imposed refusal that applies to a request, nil if there is none.
func (s appliedFaults) refuse() *Refusal {
	for _, f := range s {
		if f.Refuse != nil {
			return f.Refuse
		}
	}
	return nil
}

// impose closes the gate of the request's imposed refusal, if it has one.
func (w *World) impose(x *exchange) {
	r := x.faults.refuse()
	if r == nil {
		return
	}
	var g *gate
	switch r.Class {
	case ClassUser:
		g = &w.bucketOf(x).gate
	case ClassGlobal:
		key, counts := globalKey(x)
		if !counts {
			return // no global limit applies
		}
		g = w.gate(key, w.config.Global)
	default:
		g = w.gate(imposedKey(x, r.Class), Quota{})
	}
	g.until = latest(g.until, x.call.Now.Add(r.Wait))
}

// imposedKey returns the key of the gate that an imposed refusal of a class closes, for classes without a counter.
func imposedKey(x *exchange, class Class) gateKey {
	if class == ClassEdge {
		return gateKey{class: class, name: "imposed", major: x.call.Request.Address}
	}
	same := exchange{call: x.call, refusal: refusal{class: class}}
	key := gateKey{class: class, name: "imposed " + same.shape(), major: x.call.Major}
	if class == ClassSubLimit {
		key.authorization = x.call.Request.Authorization
	}
	return key
}

// imposed refuses a request if an imposed refusal has closed the gate g, and reports whether it did. g may be nil.
func (w *World) imposed(x *exchange, class Class, g *gate) bool {
	if g == nil || !g.until.After(x.call.Now) {
		return false
	}
	g.lastUse = x.call.Now
	x.refusal = refusal{class: class, gate: g, retry: g.until.Sub(x.call.Now), decreed: true}
	return true
}
