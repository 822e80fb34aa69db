package buckets

import (
	"context"
	"fmt"
	"hash/maphash"
	"strconv"
	"time"

	"github.com/ratelight/ratelight/routes"
)

const (
	// maxDeclaredLimit is the largest limit of WithLimit. More is no limit.
	maxDeclaredLimit = 1_000_000_000
	// maxDeclaredPeriod is the longest period of WithLimit. No state is kept for longer.
	maxDeclaredPeriod = 24 * time.Hour
)

// WithLimit declares a limit that responses do not tell: at most limit of the requests that match are sent in any period. A request is sent
// when all limits that apply to it have room: those declared, that of its bucket, and the global limit.
//
// All requests that match share one window for each credential and server, unless the options say otherwise:
//
//	buckets.WithLimit(buckets.ForRoute(routes.AddGuildMemberRole), 10, 10*time.Second, buckets.PerMajor())
//
// Requests wait for it in the order of their arrival, whatever their buckets, unless they have groups (Request.Group), which take turns.
//
// The limit is 1 to a billion, the period up to 24 hours. Start returns an error that wraps ErrOptions if they are not, if the Match matches
// nothing, or if two limits have the same name.
func WithLimit(match Match, limit int, period time.Duration, options ...LimitOption) Option {
	rule := newRule(match, limit, period, options)
	return func(s *settings) { s.declare(rule) }
}

// LimitOption says what has a window of its own, and to which of the matching requests a limit applies. Options combine: with PerMajor and
// PerGroup there is a window for each major parameter and group.
type LimitOption func(*limitRule)

// PerMajor gives each major parameter (a channel, guild or webhook, with its token if the path has one) a window of its own.
func PerMajor() LimitOption { return func(r *limitRule) { r.perMajor = true } }

// PerGroup gives each group (Request.Group, ContextWithGroup) a window of its own. The limit does not apply to requests without a group.
func PerGroup() LimitOption { return func(r *limitRule) { r.perGroup = true } }

// PerKey gives each key that the function returns a window of its own. The limit does not apply to requests for which it returns "".
//
// The function gets a copy of the Request, with its group. It is called once or a few times for each request that matches, on the goroutine that
// acquires it and under no lock, and must be safe for concurrent use. If it panics, that request fails with an error that names the limit. Only
// a keyed hash of the key is kept.
func PerKey(key func(*Request) string) LimitOption {
	return func(r *limitRule) { r.perKey, r.keyed = key, true }
}

// OfCredential applies the limit to requests with that value of the Authorization header only, "" for those without one. Only a keyed hash of
// it is kept.
func OfCredential(authorization string) LimitOption {
	seed := maphash.MakeSeed()
	digest := maphash.String(seed, authorization)
	return func(r *limitRule) {
		r.isOther = func(other string) bool { return maphash.String(seed, other) != digest }
	}
}

// AcrossCredentials lets all credentials at one server share windows, for limits of a channel or an IP address.
func AcrossCredentials() LimitOption { return func(r *limitRule) { r.across = true } }

// Named sets the limit's name, by which errors, logs and snapshots call it. It must not be a secret. The default says what was declared:
// "POST /channels/{channel_id}/messages 5 per 5s". Processes that share limits share those that have the same name, limit and period.
func Named(name string) LimitOption { return func(r *limitRule) { r.name = name } }

// limitRule is one declared limit. It does not change once it is made, and managers may have it in common.
type limitRule struct {
	name   string
	match  Match
	limit  int
	period time.Duration

	perMajor bool
	perGroup bool
	perKey   func(*Request) string
	keyed    bool                            // PerKey was used
	across   bool                            // credentials share windows
	isOther  func(authorization string) bool // a credential to which it does not apply; nil: it applies to all

	// Of known limits.
	onlyDiscord bool                                 // it does not apply to other servers
	applies     func(r *Request, now time.Time) bool // nil: to all that match
}

func newRule(match Match, limit int, period time.Duration, options []LimitOption) *limitRule {
	r := &limitRule{match: match, limit: limit, period: period}
	for _, option := range options {
		if option != nil {
			option(r)
		}
	}
	if r.name == "" {
		r.name = r.defaultName()
	}
	return r
}

func (r *limitRule) defaultName() string {
	name := fmt.Sprintf("%v %d per %v", r.match, r.limit, r.period)
	for _, part := range []struct {
		is   bool
		text string
	}{
		{r.perMajor, " per major parameter"}, {r.perGroup, " per group"}, {r.keyed, " per key"},
		{r.across, " across credentials"}, {r.isOther != nil, " of one credential"},
	} {
		if part.is {
			name += part.text
		}
	}
	return name
}

// String returns the name.
func (r *limitRule) String() string { return r.name }

// declare adds a rule to those of the manager, and notes what is wrong with it.
func (s *settings) declare(r *limitRule) {
	wrong := func(format string, values ...any) {
		s.problems = append(s.problems, fmt.Errorf("%w: WithLimit(%s): %w", ErrOptions, r.name, fmt.Errorf(format, values...)))
	}
	if r.match.matches == nil {
		wrong("an empty Match: expected one of ForRoute, ForPattern or ForAll")
		return
	}
	if r.match.err != nil {
		wrong("%w", r.match.err)
	}
	if r.limit <= 0 || r.limit > maxDeclaredLimit {
		wrong("a limit of %d: expected 1 to %d", r.limit, maxDeclaredLimit)
	}
	if r.period <= 0 || r.period > maxDeclaredPeriod {
		wrong("a period of %v: expected more than 0 and at most %v", r.period, maxDeclaredPeriod)
	}
	if r.keyed && r.perKey == nil {
		wrong("PerKey(nil): expected a function")
	}
	for _, other := range s.limits {
		if other.name == r.name {
			wrong("two limits have this name: expected another one, of Named")
			break
		}
	}
	s.limits = append(s.limits, r)
}

// rulesOf returns the declared limits that match a route, nil if none do.
func (m *RESTBucketManager) rulesOf(route routes.Route) (rules []*limitRule) {
	for _, r := range m.settings.limits {
		if r.match.matches(route) {
			rules = append(rules, r)
		}
	}
	return rules
}

// limitKey names one window of a declared limit. It is the same as long as the manager runs, whatever is evicted meanwhile.
type limitKey struct {
	rule       *limitRule
	credential uint64 // the authentication's digest; if credentials share the window, the server's, 0 for Discord
	major      major
	rest       uint64 // a keyed hash of group and key, 0 if the rule has neither
}

// shown returns the key as it may be shown.
func (k limitKey) shown() string {
	return "declared " + k.rule.name + " " + strconv.FormatUint(k.credential&0xffffff, 16) + " " + k.major.String() + " " + strconv.FormatUint(k.rest, 16)
}

// limitKeys returns the windows of the declared limits that apply to a request, nil if none do. It calls functions of the caller's.
func (e *routeEntry) limitKeys(ctx context.Context, r *Request) (keys []limitKey, err error) {
	for _, rule := range e.rules {
		key, applies, err := rule.key(ctx, e, r)
		if err != nil {
			return nil, err
		}
		if applies {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// key returns the rule's window for a request of the entry, and whether the rule applies.
func (r *limitRule) key(ctx context.Context, e *routeEntry, request *Request) (key limitKey, applies bool, err error) {
	m := e.manager
	if r.isOther != nil && r.isOther(request.Authorization) ||
		r.onlyDiscord && request.Server != "" ||
		r.applies != nil && !r.applies(request, m.settings.clock.Now()) {
		return limitKey{}, false, nil
	}
	key = limitKey{rule: r, credential: e.authentication.digest}
	if server := e.authentication.server.name; r.across {
		key.credential = 0
		if server != "" {
			key.credential = m.digest(server) | 1
		}
	}
	if r.perMajor {
		key.major = m.majorOf(&request.Route)
	}
	if !r.perGroup && !r.keyed {
		return key, true, nil
	}
	group := request.groupIn(ctx)
	text := ""
	if r.perGroup {
		if group == "" {
			return limitKey{}, false, nil
		}
		text = group
	}
	if r.keyed {
		name, err := r.callPerKey(request, group)
		if name == "" || err != nil {
			return limitKey{}, false, err
		}
		text = strconv.Itoa(len(text)) + text + name
	}
	key.rest = m.digest(text) | 1
	return key, true, nil
}

// callPerKey calls the caller's function, with a copy that it may keep or change.
func (r *limitRule) callPerKey(request *Request, group string) (key string, err error) {
	defer func() {
		if problem := recover(); problem != nil {
			key, err = "", fmt.Errorf("the function of PerKey of the declared limit %q panicked: %v", r.name, problem)
		}
	}()
	asked := *request
	asked.Group = group
	return r.perKey(&asked), nil
}

// sharedKey is the window's name in all processes, for the credential of the request's authentication.
func (k limitKey) sharedKey(credential string) SharedKey {
	key := SharedKey{
		Credential: credential,
		Hash:       fmt.Sprintf("declared:%s %d/%v", k.rule.name, k.rule.limit, k.rule.period),
		Major:      k.major.shared(),
	}
	if k.rule.across { // every process has the same server's digest
		key.Credential = strconv.FormatUint(k.credential, 16)
	}
	if k.rest != 0 {
		key.Major += "#" + strconv.FormatUint(k.rest, 16)
	}
	return key
}
