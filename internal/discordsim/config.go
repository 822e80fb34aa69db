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
	// RoundNearest may name a time that is half a millisecond too early.
	RoundNearest
	// RoundDown may name a time that is a millisecond too early.
	RoundDown
)

// Config describes a simulated Discord. The zero value works: see the fields. A Config may be used for many servers,
// but hooks that keep state (closures) belong to one.
type Config struct {
	// Rules are tried in order.
	Rules []Rule
	// Default is the rule of requests that match no other rule; nil: five requests per second for each operation.
	Default *Rule
	// Global is counted per authorization, and for requests without one per address. Zero: 50 per second in aligned
	// windows.
	Global Quota
	// Blocks refuse all requests that count against the global limit, for a while.
	Blocks []GlobalBlock
	// Edge lists bans of all addresses by the edge in front of Discord.
	Edge []EdgeBan
	// Invalid is the ban for too many invalid requests.
	Invalid InvalidLimit
	// Foreign lists requests of other clients.
	Foreign []ForeignUse
	// Faults apply after those of the rule. Their conditions count all requests.
	Faults []Fault

	// ClockSkew is how far the server's clock is ahead of the client's. It changes Date and Reset, but no wait.
	ClockSkew time.Duration
	// Rounding applies to the decimals of Reset, Reset-After and retry_after.
	Rounding Rounding
	// Seed makes latency and chance repeatable.
	Seed uint64
	// Latency is used by a Server only.
	Latency Latency

	// Tolerance is how long an answer may take to reach the client's code, beyond the simulated latency, before the
	// judge assumes that the client has read it. Listen raises Tolerance. In virtual time 0 is right.
	Tolerance time.Duration
	// FullLog keeps all events instead of only the latest ones.
	FullLog bool
	// Enter is called without a lock for every HTTP request when it enters, before it travels. Its result becomes
	// Request.Value. body has at most the first mebibyte.
	Enter func(r *http.Request, body []byte) any
	// Observe is called for every event. It must not call back into the World or the Server.
	Observe func(Event)
	// ObserveLimit is called before Observe for every request at the global limit, at its bucket and at the limits
	// behind the bucket. It must not call back either.
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
			continue // its counters belong to one channel, and other channels may have other quotas
		}
		if ok && first.Quota != rule.Quota {
			return fmt.Errorf("%w: %s and %s share hash %q and have different quotas", ErrConfig, first, rule, rule.Hash)
		}
		seen[rule.Hash] = rule
	}
	return nil
}
