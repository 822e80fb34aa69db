package discordsim

import (
	"fmt"
	"time"
)

// Page is the form of an answer that comes from the edge (Cloudflare) and not from Discord's API.
type Page int

const (
	// PageHTML is an HTML page with "error 1015".
	PageHTML Page = iota
	// PageJSON is a static JSON object with code 0 and no retry_after.
	PageJSON
)

// GlobalBlock refuses every request that counts against the global limit, from From until Until, whatever the limit's
// counter says. It answers with a global 429 that names the time until Until.
type GlobalBlock struct {
	From, Until time.Duration // since the world began
}

func (b GlobalBlock) validate() error {
	if b.From < 0 || b.Until <= b.From {
		return fmt.Errorf("%w: global block from %v until %v", ErrConfig, b.From, b.Until)
	}
	return nil
}

// EdgeBan blocks the client, whatever its address, from From until Until, for all authorizations and for interactions.
type EdgeBan struct {
	From, Until time.Duration // since the world began
	Page        Page
	// Silent answers have no Retry-After.
	Silent bool
}

func (b EdgeBan) validate() error {
	if b.From < 0 || b.Until <= b.From {
		return fmt.Errorf("%w: edge ban from %v until %v", ErrConfig, b.From, b.Until)
	}
	return nil
}

// EdgeLimit is a limit that the edge enforces for one rule and one address, in addition to Discord's limits. An address
// that exceeds it is blocked from this rule's operations for Ban. Such a limit was observed for invites (some 250 in 10
// minutes, a ban of up to 24 hours).
type EdgeLimit struct {
	Quota  Quota
	Ban    time.Duration
	Page   Page
	Silent bool
}

// InvalidLimit bans an address that gets too many invalid responses: 401, 403, and 429 without the scope "shared". The
// zero value is Discord's documented limit, 10 000 in 10 minutes, with a ban of one hour as reported by client authors.
type InvalidLimit struct {
	Limit  int           // responses; 0: 10 000; below 0: never
	Period time.Duration // 0: 10 minutes, counted in fixed windows from the first invalid request
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
