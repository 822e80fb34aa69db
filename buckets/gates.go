package buckets

import "time"

// passes are what was taken of the gates on behalf of a bucket's next request.
type passes struct {
	global    globalPermit
	hasGlobal bool
	edge      edgePermit
	hasEdge   bool
	budget    *tally // where a place in the budget of invalid requests is kept, nil if there is plenty
}

// gate is what a bucket can stand in line for.
type gate interface {
	park(now time.Duration, b *RESTBucket)
	// count is told that how many wait in a bucket may have changed that stands in line there. It reports whether it still does: not
	// if nobody waits in it any more. The bucket's lock is held.
	count(b *RESTBucket) bool
}

// pass takes what is still missing of the gates, the global limit last, and returns the gate that refuses, nil if none does.
func (b *RESTBucket) pass(now time.Duration, a *ask, p *passes) gate {
	if !p.hasEdge {
		e := b.family.authentication.edge
		if p.edge, p.hasEdge = e.take(now); !p.hasEdge {
			return e
		}
	}
	if !a.exempt && !p.hasGlobal {
		auth := b.family.authentication
		if p.global, p.hasGlobal = auth.take(now); !p.hasGlobal {
			return auth
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
		b.family.authentication.giveBack(now, p.global)
	}
	p.budget.unreserve()
}
