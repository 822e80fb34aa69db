package buckets

import "time"

// passes are what was taken of the gates on behalf of a bucket's next request.
type passes struct {
	edge, global       gatePermit
	hasEdge, hasGlobal bool
	budget             *tally // where a place in the budget of invalid requests is kept, nil if there is plenty
}

// pass returns the passes of somebody who has a permit of this gate.
func (g *gate) pass(p gatePermit) passes {
	if g.authentication == nil {
		return passes{edge: p, hasEdge: true}
	}
	return passes{global: p, hasGlobal: true}
}

// pass takes what is still missing of the gates, the global limit last, and returns the gate that refuses, nil if none does.
func (b *RESTBucket) pass(now time.Duration, a *ask, p *passes) *gate {
	auth := b.family.authentication
	if !p.hasEdge {
		if p.edge, p.hasEdge = auth.edge.take(now); !p.hasEdge {
			return auth.edge
		}
	}
	if !a.exempt && !p.hasGlobal {
		if p.global, p.hasGlobal = auth.global.take(now); !p.hasGlobal {
			return auth.global
		}
	}
	return nil
}

// giveBack gives back what was taken of the gates and not used.
func (b *RESTBucket) giveBack(now time.Duration, p passes) {
	if p.hasEdge {
		b.family.authentication.edge.giveBack(now, p.edge)
	}
	if p.hasGlobal {
		b.family.authentication.global.giveBack(now, p.global)
	}
	p.budget.unreserve()
}
