package discordsim

import (
	"fmt"
	"slices"
	"time"
)

// A request passes the limits in a fixed order. Discord does not document this order; here it goes from the outside to
// the inside. First come the edge, the ban for invalid requests, the global limit and the bucket of the route. After
// the bucket come the sub-limits and the shared limit, which need the content of the request. A refused request stays
// counted in all limits before the one that refuses it.

// edgeRefuses applies the bans and limits that stand in front of Discord and apply to the request's address.
func (w *World) edgeRefuses(x *exchange) bool {
	address := x.call.Request.Address
	if w.imposed(x, ClassEdge, w.gates[imposedKey(x, ClassEdge)]) {
		return true
	}
	for i, ban := range w.config.Edge {
		if x.call.Elapsed >= ban.From && x.call.Elapsed < ban.Until {
			g := w.gate(gateKey{class: ClassEdge, name: "ban", index: i, major: address}, Quota{})
			x.refusal = refusal{class: ClassEdge, gate: g, retry: ban.Until - x.call.Elapsed, page: ban.Page, silent: ban.Silent}
			return true
		}
	}
	if count := w.invalid[address]; count != nil && count.until.After(x.call.Now) {
		x.refusal = refusal{class: ClassEdge, gate: &count.gate, retry: count.until.Sub(x.call.Now)}
		return true
	}
	limit := x.rule.Edge
	if limit == nil {
		return false
	}
	g := w.gate(gateKey{class: ClassEdge, name: "rule", index: x.rule.index, major: address}, limit.Quota)
	if !g.until.After(x.call.Now) {
		if _, ok := g.take(x); ok {
			return false
		}
		g.until = x.call.Now.Add(limit.Ban)
		g.counter = newCounter(limit.Quota)
	}
	x.refusal = refusal{class: ClassEdge, gate: g, retry: g.until.Sub(x.call.Now), page: limit.Page, silent: limit.Silent}
	return true
}

// globalRefuses counts a request for its authorization or, if it has none, for its address. Interactions without an
// authorization are exempt. Interactions with one are counted: several libraries have reported this, although Discord's
// documentation says otherwise. If a limit of the route refuses the request later, the request stays counted here.
func (w *World) globalRefuses(x *exchange) bool {
	key, counts := globalKey(x)
	if !counts {
		return false
	}
	g := w.gate(key, w.config.Global)
	for _, block := range w.config.Blocks {
		if x.call.Elapsed >= block.From && x.call.Elapsed < block.Until {
			x.refusal = refusal{class: ClassGlobal, gate: g, retry: block.Until - x.call.Elapsed, decreed: true}
			return true
		}
	}
	if w.imposed(x, ClassGlobal, g) {
		return true
	}
	if g.counter == nil {
		return false
	}
	if g.pace == nil {
		g.pace = &slidingLog{quota: Sliding(w.config.Global.Limit, w.config.Global.Period)}
	}
	retry, ok := g.take(x)
	w.used(x, ClassGlobal, g, ok)
	if !ok {
		x.refusal = refusal{class: ClassGlobal, gate: g, retry: retry}
	}
	return !ok
}

// globalKey returns the key of the global limit that counts a request. If no global limit counts it, counts is false.
func globalKey(x *exchange) (key gateKey, counts bool) {
	key = gateKey{class: ClassGlobal, authorization: x.call.Request.Authorization}
	if key.authorization == "" {
		key.name = "address " + x.call.Request.Address
	}
	return key, key.authorization != "" || !x.call.op.interaction
}

// routeRefuses counts a request in its bucket. Then it counts the request in its sub-limits and in the shared limit,
// but only if all of them accept it.
func (w *World) routeRefuses(x *exchange) bool {
	if w.errorsRefuse(x) {
		return true
	}
	b := w.bucketOf(x)
	x.bucket = b
	if x.faults.uncounted() {
		return false
	}
	if w.imposed(x, ClassUser, &b.gate) {
		return true
	}
	retry, ok := b.take(x)
	if ok && x.who == Own {
		x.stray = w.stray(x)
		b.addStray(x.stray)
	}
	w.used(x, ClassUser, &b.gate, ok)
	if !ok {
		x.refusal = refusal{class: ClassUser, gate: &b.gate, retry: retry}
		return true
	}
	for _, class := range []Class{ClassSubLimit, ClassShared} {
		if w.imposed(x, class, w.gates[imposedKey(x, class)]) {
			return true
		}
	}
	hidden := w.hiddenLimits(x)
	for _, h := range hidden {
		if h.gate.counter.State(x.call.Now).Remaining == 0 {
			h.retry, _ = h.gate.take(x)
			w.used(x, h.class, h.gate, false)
			x.refusal = h
			return true
		}
	}
	for _, h := range hidden {
		h.gate.take(x)
		w.used(x, h.class, h.gate, true)
	}
	return false
}

// hiddenLimits lists the limits that count a request but appear in no header. Each entry is the refusal that the limit
// would cause.
func (w *World) hiddenLimits(x *exchange) (hidden []refusal) {
	for i, sub := range x.rule.SubLimits {
		if !sub.counts(x.call) {
			continue
		}
		key := gateKey{
			class: ClassSubLimit, name: x.counters, index: x.rule.index<<16 | i,
			major: x.call.Major, authorization: x.owner(),
		}
		gate := w.gate(key, sub.Quota)
		hidden = append(hidden, refusal{class: ClassSubLimit, gate: gate, code: sub.Code, silent: sub.Silent})
	}
	if shared := x.rule.Shared; shared != nil {
		key := gateKey{class: ClassShared, name: shared.Name, major: x.call.Major}
		if shared.Name == "" {
			key.name = fmt.Sprintf("rule %d", x.rule.index)
		}
		if shared.Key != nil {
			key.major = shared.Key(x.call)
		}
		gate := w.gate(key, shared.Quota)
		hidden = append(hidden, refusal{class: ClassShared, gate: gate, code: shared.Code, silent: shared.Silent})
	}
	return hidden
}

// counts reports whether a request counts against the sub-limit.
func (s *SubLimit) counts(call Call) bool {
	if s.When != nil && !s.When(call) {
		return false
	}
	return len(s.Fields) == 0 || slices.ContainsFunc(s.Fields, func(field string) bool {
		return slices.Contains(call.Request.Fields, field)
	})
}

func (w *World) gate(key gateKey, quota Quota) *gate {
	g := w.gates[key]
	if g == nil {
		g = &gate{counter: newLateCounter(quota, newDraws(w.config.Seed, key.major))}
		w.gates[key] = g
	}
	g.lastUse = w.now
	return g
}

// owner returns the authorization to which the request's bucket belongs. It returns "" if the token in the path counts
// instead.
func (x *exchange) owner() string {
	if x.call.op.byToken {
		return ""
	}
	return x.call.Request.Authorization
}

// bucketOf returns the bucket of a request, and makes one if there is none. If the rule's quota has changed, bucketOf
// also changes the bucket's quota.
func (w *World) bucketOf(x *exchange) *bucket {
	key := bucketKey{x.counters, x.call.Major, x.owner()}
	draws := newDraws(w.config.Seed, key.major)
	b := w.buckets[key]
	if b == nil {
		b = &bucket{gate: gate{counter: newLateCounter(x.quota, draws)}}
		if x.rule.changes > 0 && x.rule.described.IsZero() {
			b.change(x.call.Now)
		}
		w.buckets[key] = b
	}
	if current := quotaOf(b.counter); current != x.quota && (current.limited() || x.quota.limited()) {
		b.counter = resized(b.counter, x.call.Now, x.quota, draws)
		if current.punctual() != x.quota.punctual() { // the first late refusal is excused anyway
			b.change(x.call.Now)
		}
	}
	b.lastUse = x.call.Now
	return b
}

func quotaOf(counter Counter) Quota {
	if counter == nil {
		return Quota{}
	}
	return counter.Quota()
}

// sweep evicts buckets and gates that have been idle for a long time, once there are sweepAt of them.
func (w *World) sweep(now time.Time) {
	if len(w.buckets)+len(w.gates) < w.sweepAt {
		return
	}
	for key, b := range w.buckets {
		if b.idle(now) {
			w.evicted.add(b.tally)
			w.evicted.Evicted++
			delete(w.buckets, key)
		}
	}
	for key, g := range w.gates {
		if g.idle(now) {
			delete(w.gates, key)
		}
	}
	w.sweepAt = max(w.sweepFrom, 2*(len(w.buckets)+len(w.gates)))
}
