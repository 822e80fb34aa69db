package discordtest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/discordsim/measured"
)

// usual is the limit of operations without a known limit.
var usual = discordsim.Fixed(5, time.Second)

// usualLimits returns limits of the usual size for all operations. Discord does not publish its limits, and changes
// them from time to time.
func usualLimits() []discordsim.Rule {
	reactions := discordsim.Rule{
		Path: "/channels/{id}/messages/{id}/reactions/**",
		Hash: "reactions", Quota: discordsim.Fixed(1, 250*time.Millisecond),
	}
	put, remove := reactions, reactions
	put.Method, remove.Method = http.MethodPut, http.MethodDelete
	return []discordsim.Rule{
		{Method: http.MethodPost, Path: "/channels/{id}/messages", Quota: discordsim.Fixed(5, 5*time.Second)},
		{
			Method: http.MethodPatch, Path: "/channels/{id}", Quota: usual,
			SubLimits: []discordsim.SubLimit{{Fields: []string{"name", "topic"}, Quota: discordsim.Fixed(2, 10*time.Minute)}},
		},
		{Method: http.MethodPost, Path: "/interactions/{id}/{token}/callback", Quota: discordsim.Unlimited()},
		put, remove,
		{Path: "/**", Quota: usual},
	}
}

// compile translates the rules for the engine, package discordsim.
func (s *Server) compile(rules []Rule) (discordsim.Config, error) {
	config := discordsim.Config{Enter: s.enter(rules), Observe: s.observe}
	config.Faults = append(config.Faults, s.enforceNonces()) // the first fault, so that its Edit runs last
	limits := make(map[operation]int)                        // index in config.Rules
	others := usualLimits()                                  // limits for operations that no rule limits
	for i, r := range rules {
		switch {
		case r.wrong != nil:
			return config, r.wrong
		case r.name == "":
			return config, errNoRule
		case r.preset != nil:
			others = measured.Rules(*r.preset)
		case r.listen != "":
			s.address = r.listen
		case r.kind == setting:
			r.world(&config)
		case r.kind == limiting:
			if err := r.limit(&config, limits); err != nil {
				return config, err
			}
		default:
			config.Faults = append(config.Faults, r.script(i))
		}
	}
	config.Latency.Draw = distinct(config.Latency.RoundTrip)
	if all, ok := limits[everything]; ok {
		// Move the limit of "*" to the end, because it is for operations without a rule of their own.
		config.Rules = append(slices.Delete(slices.Clone(config.Rules), all, all+1), config.Rules[all])
	}
	config.Rules = complete(config.Rules, others)
	return config, nil
}

// distinct returns latencies that differ by nanoseconds. Otherwise many answers would arrive at the same moment in
// virtual time, and it would not be known which of them a client had read before the client sent its next request.
func distinct(roundTrip time.Duration) func(*rand.Rand) (in, out time.Duration) {
	n := time.Duration(0)
	return func(*rand.Rand) (in, out time.Duration) {
		n = n%1000 + 1
		return roundTrip / 2, roundTrip/2 + n
	}
}

// complete returns rules, followed by others. The latter limit the operations that rules do not limit.
func complete(rules, others []discordsim.Rule) []discordsim.Rule {
	all := others
	for _, rule := range slices.Backward(rules) {
		all = append(onTop(rule, all), all...)
	}
	return all
}

// onTop returns the rules to use instead of top. If top has an ordinary limit, onTop returns top. Otherwise top has
// only hidden and shared limits, and onTop copies the rules in others that limit the same requests, and adds top's
// limits to the copies.
func onTop(top discordsim.Rule, others []discordsim.Rule) (rules []discordsim.Rule) {
	if top.Quota.Kind != discordsim.KindNone {
		return []discordsim.Rule{top}
	}
	for _, rule := range others {
		whole := covers(&rule, &top)
		if !whole && !covers(&top, &rule) {
			continue
		}
		rule.SubLimits = slices.Concat(rule.SubLimits, top.SubLimits)
		rule.Shared = cmp.Or(top.Shared, rule.Shared)
		if whole {
			rule.Method, rule.Path = top.Method, top.Path
			return append(rules, rule)
		}
		rules = append(rules, rule)
	}
	return rules
}

// covers reports whether rule applies to all requests to which other applies.
func covers(rule, other *discordsim.Rule) bool { return rule.Matches(other.Method, other.Path) }

// limit adds the limit to its operation. An operation may have one ordinary, one hidden and one shared limit.
func (r *Rule) limit(config *discordsim.Config, limits map[operation]int) error {
	i, ok := limits[r.on]
	if !ok {
		i = len(config.Rules)
		limits[r.on] = i
		added := discordsim.Rule{Method: r.on.method, Path: r.on.path}
		for j := range config.Rules {
			before := &config.Rules[j]
			if covers(before, &added) && (operation{before.Method, before.Path}) != everything {
				return fmt.Errorf("discordtest.%s: %s is limited by the rule about %s before it: "+
					"put the wider rule after it", r.name, r.on, before)
			}
		}
		config.Rules = append(config.Rules, added)
	}
	rule := &config.Rules[i]
	twice := false
	switch {
	case r.hidden && r.shared, r.hidden && r.bucket != "":
		return fmt.Errorf("discordtest.%s: a hidden limit of %s cannot have a bucket name or be shared", r.name, r.on)
	case r.shared:
		twice = rule.Shared != nil
		rule.Shared = &discordsim.SharedLimit{Name: cmp.Or(r.bucket, r.on.String()), Quota: r.quota}
	case r.hidden:
		twice = len(rule.SubLimits) > 0
		rule.SubLimits = []discordsim.SubLimit{{Quota: r.quota}}
	default:
		twice = rule.Quota.Kind != discordsim.KindNone
		rule.Quota, rule.Hash = r.quota, r.bucket
	}
	if twice {
		return fmt.Errorf("discordtest.%s: %s has such a limit already", r.name, r.on)
	}
	return nil
}

// script returns the engine's fault for the rule r, which is an answer or a fault. number is the index of r among the
// rules. The engine calls the functions of the fault under its lock, in the order in which requests are processed.
func (r Rule) script(number int) discordsim.Fault {
	fault, n := r.fault, 0
	fault.Also = true // later rules also count the request
	fault.When = func(call discordsim.Call) bool {
		rec := call.Request.Value.(*record)
		if !rec.wanted[number] {
			return false
		}
		n++
		return (len(r.nth) == 0 || slices.Contains(r.nth, n)) && rec.use(r.kind)
	}
	if r.kind != answering && r.kind != refusing {
		return fault
	}
	fault.Edit = func(_ discordsim.Call, response *discordsim.Response) {
		if refused := response.Class != discordsim.ClassNone; refused == (r.kind == refusing) {
			r.edit(response)
		}
	}
	return fault
}

// about reports whether the rule is an answer or a fault for the operation of the request.
func (r *Rule) about(request *http.Request) bool {
	rule := discordsim.Rule{Method: r.on.method, Path: r.on.path}
	return r.kind > limiting && rule.Matches(request.Method, request.URL.EscapedPath())
}
