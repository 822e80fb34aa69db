package discordsim

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Request is a request as the simulated server sees it.
type Request struct {
	Method string
	Path   string // as in the request line; /api, /vN and the query are ignored
	// Authorization is compared but not interpreted. If it is empty, the request counts against the global limit of the IP
	// address.
	Authorization string
	// Address is the client's IP address. A Server leaves it empty, so all its clients share one address.
	Address string
	// Fields are the names of the top-level members of a JSON body. Sub-limits look at these names.
	Fields []string
	// Sequence numbers the requests from 1 on, in the order that the client intends; 0: not numbered.
	Sequence int64
	// SentAt is when the client sent the request; zero: the moment of processing.
	SentAt time.Time
	// Header and Body are only for hooks (functions of a Config).
	Header http.Header
	Body   []byte
	// Value is the result of Config.Enter. Hooks and the request's event get it.
	Value any
}

// Call is one request as hooks see it.
type Call struct {
	Request   Request
	Now       time.Time     // the moment of processing
	Clock     time.Time     // what the server's clock shows at that moment: Now plus Config.ClockSkew
	Elapsed   time.Duration // from the beginning of the world until Now
	Operation string        // such as "POST /channels/{id}/messages"
	Major     string        // channel, guild or webhook; "" if the operation has none
	N         int           // number of requests of this rule so far, this one included

	op operation
}

// Rule describes how the server treats the operations that match Method and Path. The first rule that matches a request
// is the request's rule.
type Rule struct {
	// Method is one method; "" or "*" matches all.
	Method string
	// Path is matched segment by segment, without /api and /vN. "{anything}" matches any segment that varies (ids, tokens,
	// emoji, codes). "*" matches any one segment, and "**" at the end matches any number of segments. A number matches
	// only that id.
	Path string
	// Hash names the counters: rules with the same hash share counters. "" gives every operation a hash of its own.
	Hash string
	// Announce is sent in X-RateLimit-Bucket instead of Hash. With Announce, two routes can announce the same bucket
	// although different buckets count them, as happened on Discord until 2026. Refusals by such a bucket are excused.
	Announce string
	// Quota is the limit of each combination of hash, major parameter and authorization. For routes with a webhook's
	// token, the token replaces the authorization. Without a Quota, answers carry no limit headers.
	Quota Quota
	// Changes replace Quota and Hash at given times, either on all servers together or server by server.
	Changes []Change
	// Server returns which of Discord's servers handles a request: a number from 0 to below 1. Changes reach servers with
	// lower numbers first. Nil: a random number for each request.
	Server func(Call) float64
	// Vary may replace parts of the rule for one request. See [Alternate], [EachTime], [HashByMajor], [HashByPath],
	// [LateFor], [ErrorBucket] and [ByMessageAge].
	Vary func(Call) Variant
	// SubLimits are further limits that no header shows.
	SubLimits []SubLimit
	// Shared is a limit of the resource. No header shows it, and all clients share it.
	Shared *SharedLimit
	// Errors limits how many errors an address may cause. Only the 429s of this limit name it.
	Errors *ErrorLimit
	// Edge is a limit in front of Discord. It refuses requests of this rule with a page instead of an API answer.
	Edge *EdgeLimit
	// Status and Body answer an accepted request. Zero: 200 and "{}".
	Status int
	Body   string
	// Faults are tried in order. The first one that applies is used. If the fault that applies has Also set, later ones
	// are tried as well.
	Faults []Fault
}

// SubLimit counts some requests of a rule a second time, for each hash, major parameter and authorization. The refusal
// of a SubLimit has the scope "user", but usually the headers of the refusal show that requests remain. The refused
// request keeps its place in the bucket (according to Discord's staff). If that place was the last one, the headers
// look like those of a refusal by the bucket.
type SubLimit struct {
	Fields []string        // a request with at least one of these body fields counts; empty: every request counts
	When   func(Call) bool // further condition for a request to count; nil: none
	Quota  Quota
	Code   int // `code` of the 429's body; 0: none
	// Silent: the refusals name no time, neither in Retry-After nor in the body.
	Silent bool
}

// SharedLimit is counted for each resource, for all clients together.
type SharedLimit struct {
	Name  string // rules with one name share the counters; "": the rule's own
	Quota Quota
	Key   func(Call) string // names the resource; nil: the major parameter
	Code  int               // `code` of the 429's body; 0: none
	// Silent: the refusals name no time, neither in Retry-After nor in the body.
	Silent bool
}

// ErrorLimit counts the answers with status 400 or higher to an address. Once the limit is reached, it refuses every
// request from the address to a rule with this limit. These refusals have limit headers and a bucket name that no other
// answers have, as on compatible servers where one middleware limits errors on all routes. With an [Extending] quota,
// each refusal prolongs the block.
type ErrorLimit struct {
	Name  string // name of the bucket and of its counters; not empty
	Quota Quota
}

// Variant replaces parts of a rule for one request. A zero field leaves that part of the rule unchanged.
type Variant struct {
	Hash     string
	Quota    Quota
	Lateness Lateness // of the quota that applies
	Status   int
	// Unpredictable says that no client can know which hash the request will get. Refusals of such a request are excused.
	Unpredictable bool
}

// Matches reports whether the rule matches requests with a method and a path.
func (r *Rule) Matches(method, path string) bool { return r.matches(parseOperation(method, path)) }

// matches reports whether the rule matches an operation.
func (r *Rule) matches(op operation) bool {
	if r.Method != "" && r.Method != "*" && r.Method != op.method {
		return false
	}
	pattern := strings.Trim(r.Path, "/")
	for i := 0; ; i++ {
		want, rest, more := strings.Cut(pattern, "/")
		if want == "**" && !more {
			return true
		}
		if i >= len(op.raw) || !matchSegment(want, op.raw[i], op.template[i]) {
			return false
		}
		if !more {
			return i == len(op.raw)-1
		}
		pattern = rest
	}
}

func matchSegment(want, raw, template string) bool {
	if strings.HasPrefix(want, "{") {
		return strings.HasPrefix(template, "{")
	}
	return want == "*" || want == raw
}

func (r *Rule) validate() error {
	quotas := []Quota{r.Quota}
	for _, sub := range r.SubLimits {
		quotas = append(quotas, sub.Quota)
		if !sub.Quota.limited() {
			return fmt.Errorf("%w: sub-limit of %s without a quota", ErrConfig, r)
		}
	}
	if r.Shared != nil {
		quotas = append(quotas, r.Shared.Quota)
		if !r.Shared.Quota.limited() {
			return fmt.Errorf("%w: shared limit of %s without a quota", ErrConfig, r)
		}
	}
	if r.Errors != nil {
		quotas = append(quotas, r.Errors.Quota)
		if !r.Errors.Quota.limited() || r.Errors.Name == "" {
			return fmt.Errorf("%w: error limit of %s without a quota or a name", ErrConfig, r)
		}
	}
	if r.Edge != nil {
		quotas = append(quotas, r.Edge.Quota)
		if !r.Edge.Quota.limited() || r.Edge.Ban <= 0 {
			return fmt.Errorf("%w: edge limit of %s without a quota or a duration", ErrConfig, r)
		}
	}
	for _, change := range r.Changes {
		quotas = append(quotas, change.Quota)
		if change.Over < 0 || change.Counters < CountersOfHash || change.Counters > CountersApart {
			return fmt.Errorf("%w: impossible change of %s", ErrConfig, r)
		}
	}
	for _, quota := range quotas {
		if err := quota.validate(); err != nil {
			return fmt.Errorf("rule %s: %w", r, err)
		}
	}
	if !slices.IsSortedFunc(r.Changes, func(a, b Change) int { return cmp.Compare(a.At, b.At) }) {
		return fmt.Errorf("%w: changes of %s are not in the order of time", ErrConfig, r)
	}
	if r.Status != 0 && (r.Status < 200 || r.Status > 599) {
		return fmt.Errorf("%w: status %d of %s", ErrConfig, r.Status, r)
	}
	for i := range r.Faults {
		if err := r.Faults[i].validate(); err != nil {
			return fmt.Errorf("rule %s: %w", r, err)
		}
	}
	return nil
}

func (r *Rule) String() string { return strings.TrimSpace(r.Method + " " + r.Path) }

// namesOneID reports whether the rule's path names a certain id, so that the rule matches only that id.
func (r *Rule) namesOneID() bool {
	return slices.ContainsFunc(strings.Split(r.Path, "/"), isNumber)
}
