package discordsim

import (
	"fmt"
	"time"
)

// Page is the form of an answer by the edge (Cloudflare), which stands in front of Discord's API.
type Page int

const (
	// PageHTML is an HTML page that says "Error 1015".
	PageHTML Page = iota
	// PageJSON is a static JSON object with code 0 and no retry_after.
	PageJSON
)

// GlobalBlock refuses every request that counts against the global limit, from From until Until, even if the limit has
// room. The answer is a global 429 that names the time until Until.
type GlobalBlock struct {
	From, Until time.Duration // since the world began
}

func (b GlobalBlock) validate() error {
	if b.From < 0 || b.Until <= b.From {
		return fmt.Errorf("%w: global block from %v until %v", ErrConfig, b.From, b.Until)
	}
	return nil
}

// EdgeBan blocks all addresses from From until Until, for every authorization and also for interactions.
type EdgeBan struct {
	From, Until time.Duration // since the world began
	Page        Page
	// Silent says that the answers have no Retry-After.
	Silent bool
}

func (b EdgeBan) validate() error {
	if b.From < 0 || b.Until <= b.From {
		return fmt.Errorf("%w: edge ban from %v until %v", ErrConfig, b.From, b.Until)
	}
	return nil
}

// EdgeLimit is a limit that the edge enforces for one rule and one address, in addition to Discord's limits. If an
// address exceeds it, this rule's operations are blocked for the address for the duration Ban. Such a limit was
// observed for invites (some 250 requests in 10 minutes, and a ban of up to 24 hours).
type EdgeLimit struct {
	Quota  Quota
	Ban    time.Duration
	Page   Page
	Silent bool
}

// InvalidLimit bans an address that causes too many invalid responses: 401, 403, and 429 without the scope "shared".
// The zero value is Discord's documented limit of 10 000 in 10 minutes. The ban then lasts one hour, as client authors
// have reported.
type InvalidLimit struct {
	Limit  int           // number of responses; 0: 10 000; negative: no ban
	Period time.Duration // 0: 10 minutes, counted in fixed windows, each of which begins with an invalid response
	Ban    time.Duration // 0: one hour
}

func (l InvalidLimit) withDefaults() InvalidLimit {
	if l.Limit == 0 {
		l.Limit = 10_000
	}
	if l.Period == 0 {
		l.Period = 10 * time.Minute
	}
	if l.Ban == 0 {
		l.Ban = time.Hour
	}
	return l
}

func (l InvalidLimit) validate() error {
	if l.Period < 0 || l.Ban < 0 {
		return fmt.Errorf("%w: invalid-request limit with a negative duration", ErrConfig)
	}
	return nil
}
