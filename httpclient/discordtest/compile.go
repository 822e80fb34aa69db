package discordtest

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// usual is the limit of operations about which nothing else is known.
var usual = discordsim.Fixed(5, time.Second)

// usualLimits are those of the usual size. Which apply is a matter of time, guild and experiment, and Discord publishes none.
func usualLimits() []discordsim.Rule {
	reactions := discordsim.Rule{Hash: "reactions", Quota: discordsim.Fixed(1, 250*time.Millisecond), Path: "/channels/{id}/messages/{id}/reactions/**"}
	put, remove := reactions, reactions
	put.Method, remove.Method = http.MethodPut, http.MethodDelete
	return []discordsim.Rule{
		{Method: http.MethodPost, Path: "/channels/{id}/messages", Quota: discordsim.Fixed(5, 5*time.Second)},
		{
			Method: http.MethodPatch, Path: "/channels/{id}", Quota: usual,
			SubLimits: []discordsim.SubLimit{{Fields: []string{"name", "topic"}, Quota: discordsim.Fixed(2, 10*time.Minute)}},
		},
		{Method: http.MethodPost, Path: "/interactions/{id}/{token}/callback"},
		put, remove,
	}
}

// compile turns rules into what the engine understands.
func (s *Server) compile(rules []Rule) (discordsim.Config, error) {
	config := discordsim.Config{Enter: s.enter(rules), Observe: s.observe}
	limits := make(map[operation]int) // index of its rule in config.Rules
	for i, r := range rules {
		switch {
		case r.wrong != nil:
			return config, r.wrong
		case r.name == "":
			return config, errNoRule
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
	for i := range config.Rules {
		if config.Rules[i].Quota.Kind == discordsim.KindNone {
			config.Rules[i].Quota = usual
		}
	}
	if all, ok := limits[everything]; ok {
		config.Rules = append(config.Rules[:all:all], append(config.Rules[all+1:], config.Rules[all])...) // all that have none of their own
	} else {
		config.Rules = append(config.Rules, usualLimits()...)
	}
	return config, nil
}

// limit adds the rule to that of its operation, which may have an ordinary limit and, on top of it, a hidden and a shared one.
func (r *Rule) limit(config *discordsim.Config, limits map[operation]int) error {
	i, ok := limits[r.on]
	if !ok {
		i = len(config.Rules)
		limits[r.on] = i
		config.Rules = append(config.Rules, discordsim.Rule{Method: r.on.method, Path: r.on.path})
	}
	rule := &config.Rules[i]
	twice := false
	switch {
	case r.hidden && r.shared, r.hidden && r.bucket != "":
		return fmt.Errorf("discordtest.%s: a hidden limit of %s cannot have a bucket name or be shared", r.name, r.on)
	case r.shared:
		twice = rule.Shared != nil
		rule.Shared = &discordsim.SharedLimit{Name: r.bucket, Quota: r.quota}
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

// script returns the fault that makes an answer or a fault of the rule with a number. The engine asks it in the order of processing,
// under its lock.
func (r Rule) script(number int) discordsim.Fault {
	fault, n := r.fault, 0
	fault.Also = true // so that all rules count
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

// about reports whether the rule is about a request.
func (r *Rule) about(request *http.Request) bool {
	rule := discordsim.Rule{Method: r.on.method, Path: r.on.path}
	return r.kind > limiting && rule.Matches(request.Method, request.URL.EscapedPath())
}
