package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// scenario is a number of calls and the limits that they meet.
type scenario struct {
	name, about string
	calls       []call // in the order of at
	limits      map[kind]limit
}

// limit is how Discord limits a route.
type limit struct {
	method, path string
	hash         string // routes with one hash have one limit; "": the route's own
	quota        discordsim.Quota
}

const (
	globalRequests = 50
	globalPeriod   = time.Second
)

// travel is how far away Discord is: round trips of 20 to 100 ms.
var travel = discordsim.Latency{RoundTrip: 60 * time.Millisecond, Jitter: 40 * time.Millisecond}

// usual are limits of the sizes of Discord's own, some with shorter periods.
func usual() map[kind]limit {
	const messages = "/channels/{id}/messages"
	return map[kind]limit{
		send:    {"POST", messages, "", discordsim.Fixed(5, time.Second)},
		upload:  {"POST", messages, "", discordsim.Fixed(5, time.Second)},
		edit:    {"PATCH", messages + "/{id}", "", discordsim.Fixed(5, time.Second)},
		remove:  {"DELETE", messages + "/{id}", "", discordsim.Sliding(5, time.Second)},
		react:   {"PUT", messages + "/{id}/reactions/{emoji}/@me", "", discordsim.Fixed(1, 250*time.Millisecond)},
		reply:   {"POST", "/interactions/{id}/{token}/callback", "", discordsim.Unlimited()},
		execute: {"POST", "/webhooks/{id}/{token}", "", discordsim.Fixed(5, 2*time.Second)},
	}
}

// messages are the usual limits, with another one for messages.
func messages(quota discordsim.Quota) map[kind]limit {
	limits := usual()
	for _, k := range []kind{send, upload} {
		l := limits[k]
		l.quota = quota
		limits[k] = l
	}
	return limits
}

// scenarios are what is compared; quick ones take about a third of the time.
func scenarios(quick bool) []scenario {
	times := func(n int) int {
		if quick {
			return n * 2 / 5
		}
		return n
	}
	second := func(q func(int, time.Duration) discordsim.Quota) map[kind]limit { return messages(q(5, time.Second)) }
	return []scenario{
		{
			"one-channel", "messages to one channel with a limit of 5 in 5 s, as at Discord", repeated(1, times(25), send),
			messages(discordsim.Fixed(5, 5*time.Second)),
		},
		{"many-channels", "messages to 40 channels with a limit of 5 a second each, and the global limit of 50", repeated(40, times(10), send), usual()},
		{"mixed", "all seven kinds of calls, on 3 channels", slices.Concat(
			repeated(3, times(10), send, edit), repeated(3, times(5), upload, remove, react, reply, execute),
		), usual()},
		{
			"one-limit", "messages and edits in one channel, whose routes share an undocumented limit of 5 a second",
			repeated(1, times(19), send, edit), oneLimit(), // no multiple of 5: one place lost would cost a whole window
		},
		{"sliding", "messages to one channel; each takes one of 5 places for a second", repeated(1, times(40), send), second(discordsim.Sliding)},
		{"leaky", "messages to one channel; one of 5 places becomes free every 0.2 s", repeated(1, times(40), send), second(discordsim.Leaky)},
		{
			"given-up", "messages to one channel with a limit of 5 in 3 s; callers cancel some others after 1 s",
			givenUp(times(20)), messages(discordsim.Fixed(5, 3*time.Second)),
		},
	}
}

func oneLimit() map[kind]limit {
	limits := usual()
	for _, k := range []kind{send, edit} {
		l := limits[k]
		l.hash = "messages"
		limits[k] = l
	}
	return limits
}

// givenUp are messages of which the first use a window up. Then come those that are given up before the next one, then the others.
func givenUp(count int) []call {
	const window, hopeless = 5, 8
	all := repeated(1, count+hopeless, send)
	for i := range all[window:] {
		c := &all[window+i]
		if i >= hopeless {
			c.at = 800 * time.Millisecond
			continue
		}
		c.at = 600 * time.Millisecond
		c.end = deadline
		if i%2 == 1 {
			c.end = cancelled
		}
	}
	return all
}

// findScenarios returns those with the names, which are separated by commas, or all of them.
func findScenarios(names string, quick bool) ([]scenario, error) {
	return find(names, scenarios(quick), func(s scenario) string { return s.name })
}

// find returns what has the names, in the order of the list.
func find[T any](names string, list []T, name func(T) string) (found []T, err error) {
	if names == "all" {
		return list, nil
	}
	wanted := make(map[string]bool)
	for _, n := range strings.Split(names, ",") {
		wanted[n] = true
	}
	var known []string
	for _, one := range list {
		known = append(known, name(one))
		if wanted[name(one)] {
			found = append(found, one)
			delete(wanted, name(one))
		}
	}
	for _, n := range slices.Sorted(maps.Keys(wanted)) {
		return nil, fmt.Errorf("unknown name %q: expected all, or some of %s, separated by commas", n, strings.Join(known, ","))
	}
	return found, nil
}

// call is one call to a library.
type call struct {
	kind    kind
	channel uint64
	n       int
	at      time.Duration // when it is made
	end     end
}

// end is what the caller does after patience.
type end int

const (
	waits end = iota
	cancelled
	deadline // it is known from the beginning
)

// patience is after how long calls are given up that are.
const patience = time.Second

// kind is what is called. It decides about the limit.
type kind int

const (
	send kind = iota
	edit
	remove
	react
	upload
	reply
	execute
)

// authorized: the call counts for the bot. The others have their token in the path.
func (k kind) authorized() bool { return k != reply && k != execute }

// firstChannel looks like Discord's.
const firstChannel = 900_000_000_000_000_000

// repeated returns so many calls of each kind in each of the channels.
func repeated(channels, times int, kinds ...kind) (calls []call) {
	for n := range times {
		for _, k := range kinds {
			for c := range channels {
				calls = append(calls, call{kind: k, channel: firstChannel + uint64(c), n: n})
			}
		}
	}
	return calls
}

// webhookToken and interactionToken look like Discord's.
const (
	webhookToken     = "webhook-token"
	interactionToken = "aW50ZXJhY3Rpb246MTIz"
)

// do makes the call. The channel's number is the webhook's and the interaction's as well.
func (c call) do(with client) error {
	id := firstMessage + uint64(c.n)
	content := fmt.Sprintf("message %d", c.n)
	var err error
	switch c.kind {
	case send:
		_, err = with.Send(c.channel, content)
	case edit:
		_, err = with.Edit(c.channel, id, content)
	case remove:
		err = with.Delete(c.channel, id)
	case react:
		err = with.React(c.channel, id, "🔥")
	case upload:
		_, err = with.Upload(c.channel, "file.bin", []byte(content))
	case reply:
		err = with.Reply(c.channel+uint64(c.n)*1000, interactionToken, content)
	case execute:
		_, err = with.Webhook(c.channel, webhookToken, content)
	}
	return err
}

// config is the simulated Discord. Its seconds, in which the global limit is counted, begin now.
func (s scenario) config(settings settings) discordsim.Config {
	config := discordsim.Config{
		Global:    discordsim.Aligned(globalRequests, globalPeriod, time.Duration(time.Now().UnixNano())%globalPeriod),
		Latency:   travel,
		Tolerance: settings.tolerance,
		Seed:      settings.seed,
	}
	for k := range execute + 1 {
		if k == upload { // the rule of send
			continue
		}
		l := s.limits[k]
		config.Rules = append(config.Rules, discordsim.Rule{Method: l.method, Path: l.path, Hash: l.hash, Quota: l.quota})
	}
	return config
}

// ideal is how long a client takes that risks no 429, when every round trip is as short as any. Nobody has to make the calls
// that are given up.
func (s scenario) ideal() (time.Duration, error) {
	type bucket struct {
		name    string
		channel uint64
	}
	var work []discordsim.Work
	index := make(map[bucket]int)
	for _, c := range s.calls {
		if c.end != waits {
			continue
		}
		l := s.limits[c.kind]
		b := bucket{cmp.Or(l.hash, l.method+l.path), c.channel}
		i, ok := index[b]
		if !ok {
			i = len(work)
			index[b] = i
			work = append(work, discordsim.Work{Quota: l.quota, Route: b.name, Exempt: !c.kind.authorized()})
		}
		work[i].Offered = append(work[i].Offered, c.at)
	}
	plan, err := discordsim.Certain(discordsim.Conditions{
		RoundTrip: travel.Smallest(), Global: discordsim.Aligned(globalRequests, globalPeriod, 0),
	}, work...)
	return plan.Makespan, err
}
