package discordsim

import (
	"fmt"
	"net/http"
	"time"
)

// Rounding says how times are rounded to the milliseconds of headers and bodies.
type Rounding int

const (
	// RoundUp never names a time that is too early.
	RoundUp Rounding = iota
	// RoundNearest may name a time that is up to half a millisecond too early.
	RoundNearest
	// RoundDown may name a time that is up to a millisecond too early.
	RoundDown
)

// Config describes a simulated Discord. The zero value works: the comments of the fields name the defaults. One Config
// may be used for many servers, unless its hooks (the fields that are functions) keep state.
type Config struct {
	// Rules are tried in order: the first one that matches a request applies.
	Rules []Rule
	// Default is the rule of requests that match none of Rules. If it is nil, the limit is five requests per second for
	// each operation.
	Default *Rule
	// Global is the global limit. It is counted for each authorization, and for requests without one for each address.
	// Zero: 50 requests per second in aligned windows.
	Global Quota
	// Blocks lists times during which all requests that count against the global limit are refused.
	Blocks []GlobalBlock
	// Edge lists times during which the edge (the proxy in front of Discord) bans all addresses.
	Edge []EdgeBan
	// Invalid says how many invalid requests lead to a ban.
	Invalid InvalidLimit
	// Foreign lists requests of other clients.
	Foreign []ForeignUse
	// Faults apply after the faults of the rule. Their conditions number all requests, not only those of one rule.
	Faults []Fault

	// ClockSkew is how far the server's clock is ahead of the client's. It changes the headers Date and Reset, but no
	// waiting time.
	ClockSkew time.Duration
	// Rounding says how the times in Reset, Reset-After and retry_after are rounded.
	Rounding Rounding
	// Seed makes the random latencies and faults repeatable.
	Seed uint64
	// Latency is how long requests and answers travel. Only a Server uses it.
	Latency Latency

	// Tolerance is how long, beyond the simulated latency, an answer may take to reach the client's code. After that time
	// the judge assumes that the client has read the answer. Server.Listen raises Tolerance to at least 20 ms. In virtual
	// time 0 is right.
	Tolerance time.Duration
	// FullLog keeps all events instead of only the latest ones.
	FullLog bool
	// Enter is called, without a lock, for every HTTP request when the request enters the server, before it travels. The
	// result of Enter becomes Request.Value. The argument body has at most the first mebibyte of the request's body.
	Enter func(r *http.Request, body []byte) any
	// Observe is called for every event. It must not call back into the World or the Server.
	Observe func(Event)
	// ObserveLimit is called before Observe, up to several times for each request: for the global limit, for the request's
	// bucket, and for each limit that is checked after the bucket. After a limit has refused a request, no further limit
	// is checked. It must not call back.
	ObserveLimit func(LimitUse)
}

// defaultGlobal is Discord's documented global limit.
var defaultGlobal = Aligned(50, time.Second, 0)

func (c Config) withDefaults() Config {
	if c.Default == nil {
		c.Default = &Rule{Path: "**", Quota: Fixed(5, time.Second)}
	}
	if c.Global.Kind == KindNone {
		c.Global = defaultGlobal
	}
	c.Invalid = c.Invalid.withDefaults()
	return c
}

func (c Config) validate() error {
	checks := []error{c.Global.validate(), c.Default.validate(), c.Invalid.validate(), c.Latency.validate()}
	for i := range c.Rules {
		checks = append(checks, c.Rules[i].validate())
	}
	for _, block := range c.Blocks {
		checks = append(checks, block.validate())
	}
	for _, ban := range c.Edge {
		checks = append(checks, ban.validate())
	}
	for _, use := range c.Foreign {
		checks = append(checks, use.validate())
	}
	for i := range c.Faults {
		checks = append(checks, c.Faults[i].validate())
	}
	for _, err := range checks {
		if err != nil {
			return err
		}
	}
	if c.Tolerance < 0 {
		return fmt.Errorf("%w: negative tolerance", ErrConfig)
	}
	if c.Rounding < RoundUp || c.Rounding > RoundDown {
		return fmt.Errorf("%w: unknown rounding %d", ErrConfig, int(c.Rounding))
	}
	return sameHashes(c.Rules)
}

// sameHashes returns an error if two rules share counters and have different quotas.
func sameHashes(rules []Rule) error {
	seen := make(map[string]*Rule)
	for i := range rules {
		rule := &rules[i]
		first, ok := seen[rule.Hash]
		if rule.Hash == "" || rule.namesOneID() {
			continue // the counters of such a rule belong to one channel, and other channels may have other quotas
		}
		if ok && first.Quota != rule.Quota {
			return fmt.Errorf("%w: %s and %s share hash %q and have different quotas", ErrConfig, first, rule, rule.Hash)
		}
		seen[rule.Hash] = rule
	}
	return nil
}
