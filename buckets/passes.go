package buckets

import "time"

// gatePermits are what was taken of the gates on behalf of a bucket's next request.
type gatePermits struct {
	edge, global       gatePermit
	hasEdge, hasGlobal bool
	reserved           *counterShard // where a place in the budget of invalid requests is kept, nil if there is plenty
}

// permits returns the passes of somebody who has a permit of this gate.
func (g *gate) permits(p gatePermit) gatePermits {
	if g.authentication == nil {
		return gatePermits{edge: p, hasEdge: true}
	}
	return gatePermits{global: p, hasGlobal: true}
}

// takeGates takes what is still missing of the gates, the global limit last, and returns the gate that refuses, nil if none does.
func (b *RESTBucket) takeGates(now time.Duration, a *ask, p *gatePermits) *gate {
	auth := b.group.authentication
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

// returnPermits gives back what was taken of the gates and not used.
func (b *RESTBucket) returnPermits(now time.Duration, p gatePermits) {
	if p.hasEdge {
		b.group.authentication.edge.giveBack(now, p.edge)
	}
	if p.hasGlobal {
		b.group.authentication.global.giveBack(now, p.global)
	}
	p.reserved.unreserve()
}
