package main

import (
	"cmp"
	"slices"
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// scenario is a list of calls and the limits that apply to them.
type scenario struct {
	name, about string
	calls       []call // ordered by at
	limits      limits
	// oneLimit reports whether the routes of send and edit share one limit, which only the bucket hash shows.
	oneLimit bool
}

// call is one call to a library. channel is also used as the id of the webhook, and to compute the ids of interactions.
type call struct {
	kind    kind
	channel uint64
	n       int
	at      time.Duration // since the start of the run
	end     end
}

func (c call) message() uint64 { return firstMessage + uint64(c.n) }

// firstChannel and firstMessage are as large as ids of Discord.
const (
	firstChannel = 900_000_000_000_000_000
	firstMessage = 1_000_000_000_000_000_000
)

// end says what the caller does after patience.
type end int

const (
	waits end = iota
	cancelled
	deadline // the library knows the deadline from the beginning
)

// patience is the time after which a call that is to be given up is cancelled, or after which its deadline passes. It
// counts from the start of the call.
const patience = time.Second

// kind is the operation of a call. It determines the limit.
type kind int

const (
	send kind = iota
	edit
	remove
	react
	upload
	reply
	execute
	kinds
)

// authorized reports whether the call carries the bot's token. All other calls have a token in the path.
func (k kind) authorized() bool { return k != reply && k != execute }

// endpoints has the method, path and body of each kind of call. Names in braces are replaced by values.
var endpoints = [kinds]struct{ method, path, body string }{
	send:   {"POST", "/channels/{channel}/messages", `{"content":"{text}"}`},
	edit:   {"PATCH", "/channels/{channel}/messages/{message}", `{"content":"{text}"}`},
	remove: {"DELETE", "/channels/{channel}/messages/{message}", ""},
	react:  {"PUT", "/channels/{channel}/messages/{message}/reactions/{emoji}/@me", ""},
	upload: {"POST", "/channels/{channel}/messages", uploaded},
	reply: {"POST", "/interactions/{interaction}/{interaction.token}/callback",
		`{"type":4,"data":{"content":"{text}"}}`},
	execute: {"POST", "/webhooks/{channel}/{webhook.token}", `{"content":"{text}"}`},
}

const uploaded = "--x\r\nContent-Disposition: form-data; name=f; filename=" + fileName + "\r\n\r\n{text}\r\n--x--\r\n"

// message has the fields that the libraries require.
const message = `{"id":"1000000000000000001","channel_id":"900000000000000000","content":"hello","type":0,
"timestamp":"2026-01-01T00:00:00.000000+00:00","edited_timestamp":null,"tts":false,"pinned":false,
"mention_everyone":false,"mentions":[],"mention_roles":[],"embeds":[],"attachments":[],
"author":{"id":"80351110224678912","username":"bot","discriminator":"0","avatar":null}}`

const (
	globalRequests = 50
	globalPeriod   = time.Second
)

// travel is the latency of the simulated Discord: round trips of 20 to 100 ms.
var travel = discordsim.Latency{RoundTrip: 60 * time.Millisecond, Jitter: 40 * time.Millisecond}

type limits [kinds]discordsim.Quota

// usual has limits as large as Discord's, some with shorter periods.
var usual = limits{
	send:    discordsim.Fixed(5, time.Second),
	edit:    discordsim.Fixed(5, time.Second),
	remove:  discordsim.Sliding(5, time.Second),
	react:   discordsim.Fixed(1, 250*time.Millisecond),
	upload:  discordsim.Fixed(5, time.Second),
	reply:   discordsim.Unlimited(),
	execute: discordsim.Fixed(5, 2*time.Second),
}

// messages returns the usual limits with another quota for messages.
func messages(quota discordsim.Quota) limits {
	all := usual
	all[send], all[upload] = quota, quota
	return all
}

// scenarios returns all scenarios. Quick ones have fewer calls and take about a third of the time.
func scenarios(quick bool) []scenario {
	times := func(n int) int {
		if quick {
			return n * 2 / 5
		}
		return n
	}
	inOne := func(n int, kinds ...kind) []call { return repeated(1, times(n), kinds...) }
	return []scenario{
		{"one-channel", "messages to one channel, 5 in 5 s as at Discord",
			inOne(25, send), messages(discordsim.Fixed(5, 5*time.Second)), false},
		{"many-channels", "messages to 40 channels, 5 a second in each and 50 in all",
			repeated(40, times(10), send), usual, false},
		{"mixed", "all seven kinds of calls, on 3 channels", slices.Concat(
			repeated(3, times(10), send, edit), repeated(3, times(5), upload, remove, react, reply, execute),
		), usual, false},
		// The number of calls is no multiple of 5: otherwise the loss of one place would cost a whole window.
		{"one-limit", "messages and edits in one channel, whose routes share an undocumented limit of 5 a second",
			inOne(19, send, edit), usual, true},
		{"sliding", "messages to one channel; each takes 1 of 5 places for 1 s",
			inOne(40, send), messages(discordsim.Sliding(5, time.Second)), false},
		{"leaky", "messages to one channel; 1 of 5 places is free every 0.2 s",
			inOne(40, send), messages(discordsim.Leaky(5, time.Second)), false},
		{
			"given-up", "messages to one channel with a limit of 5 in 3 s; callers cancel some others after 1 s",
			givenUp(times(20)), messages(discordsim.Fixed(5, 3*time.Second)), false,
		},
	}
}

// repeated returns the given number of calls of each kind in each channel.
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

// givenUp returns messages: the first ones use up a window, the next ones are given up before the second window, and
// the others follow.
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

// hash returns the bucket hash of a kind of call; empty: the route has its own.
func (s scenario) hash(k kind) string {
	if s.oneLimit && (k == send || k == edit) {
		return "messages"
	}
	return ""
}

// config returns the simulated Discord. The aligned seconds of its global limit begin now.
func (s scenario) config(seed uint64, tolerance time.Duration) discordsim.Config {
	config := discordsim.Config{
		Global:    discordsim.Aligned(globalRequests, globalPeriod, time.Duration(time.Now().UnixNano())%globalPeriod),
		Latency:   travel,
		Tolerance: tolerance,
		Seed:      seed,
	}
	for k, route := range endpoints {
		hash := s.hash(kind(k))
		rule := discordsim.Rule{Method: route.method, Path: route.path, Hash: hash, Quota: s.limits[k], Body: message}
		if route.method == "PUT" || route.method == "DELETE" || kind(k) == reply {
			rule.Status = 204
		}
		config.Rules = append(config.Rules, rule)
	}
	return config
}

// ideal returns the time that a client needs if it risks no 429 and always has the smallest round trip. Calls that are
// given up do not count.
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
		b := bucket{cmp.Or(s.hash(c.kind), endpoints[c.kind].method+endpoints[c.kind].path), c.channel}
		i, ok := index[b]
		if !ok {
			i = len(work)
			index[b] = i
			work = append(work, discordsim.Work{Quota: s.limits[c.kind], Route: b.name, Exempt: !c.kind.authorized()})
		}
		work[i].Offered = append(work[i].Offered, c.at)
	}
	plan, err := discordsim.Certain(discordsim.Conditions{
		RoundTrip: travel.Smallest(), Global: discordsim.Aligned(globalRequests, globalPeriod, 0),
	}, work...)
	return plan.Makespan, err
}
