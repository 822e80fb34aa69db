package httpclient

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// worldNames lists the worlds. A world says how the server behaves. One world is drawn for each play. A name that is
// listed twice is drawn twice as often as other names. The worlds "stale first answer, block that grows", "hash by URL"
// and "errors of an address" are not listed, because some plays in them still fail. To run plays in one of them, use
// -world.
var worldNames = []string{
	"plain", "plain", "one hash", "one name", "changing hash", "flipping hash", "new hash each time", "unlimited",
	"shared", "sub-limit",
	"global block", "edge", "edge without a word", "foreign",
	// These behaviours were found on compatible or old servers, or only sometimes on Discord.
	"no scope", "milliseconds in bodies", "waits that contradict", "block that grows", "stale block that grows",
	"hash by channel",
	"stale first answer", "reset alone", "next place",
	"hidden limit without headers", "error bucket", "roll-out", "stalled bodies", "401 by channel", "foreign host",
	"cancel storm at the global limit", "cancel storm at the edge", "cancel storm at a sub-limit",
	"cancel storm in a window",
	// These behaviours were measured on Discord.
	"late", "late at random", "late in some channels", "late for a time", "late global limit", "lag", "stale first answer",
}

// extremes are options with extreme values. A play has at most one of them.
var extremes = map[string][]buckets.Option{
	"expire never":          {buckets.WithEviction(0, math.MaxInt64)},
	"no global limit":       {buckets.WithGlobalLimit(0)},
	"global limit of 1":     {buckets.WithGlobalLimit(1)},
	"a high global limit":   {buckets.WithGlobalLimit(1 << 20)},
	"nothing waits":         {buckets.WithMaxRateLimit(0)},
	"everything waits":      {buckets.WithMaxRateLimit(math.MaxInt64)},
	"collect all the time":  {buckets.WithEviction(10*time.Millisecond, buckets.DefaultExpireAfter)},
	"collect never":         {buckets.WithEviction(math.MaxInt64, buckets.DefaultExpireAfter)},
	"a budget of 1":         {buckets.WithInvalidBudget(1, time.Second, math.MaxInt)},
	"a budget of 1 for all": {buckets.WithInvalidBudget(1, math.MaxInt64, 0)},
	"an endless budget":     {buckets.WithInvalidBudget(math.MaxInt, math.MaxInt64, math.MinInt)},
}

// extremeNames are the names from which a play's extreme option is drawn; "" stands for no extreme option.
var extremeNames = []string{
	"", "", "", "", "", "", "", "", "", "", "", "",
	"expire never", "no global limit", "global limit of 1", "a high global limit", "nothing waits", "everything waits",
	"collect all the time",
	"collect never", "a budget of 1", "a budget of 1 for all", "an endless budget",
}

// closedChannels are the channels that answer 401 in the world "401 by channel". All of these 401s are on one route.
var closedChannels = []int{2, 4, 5, 6, 8, 9}

const (
	discordHost = "discord.com"
	foreignHost = "cdn.example"
)

// bits returns n bits of the seed. They are used for choices that package rapid does not draw separately.
func (p play) bits(from, n int) int { return int(p.seed >> from & (1<<n - 1)) }

// config returns the simulated Discord of the play.
func (p play) config() discordsim.Config {
	rule := discordsim.Rule{Path: "**", Quota: p.quota, Hash: "messages"}
	c := discordsim.Config{
		Seed: p.seed, ClockSkew: p.skew,
		Latency: discordsim.Latency{RoundTrip: p.latency, Jitter: min(p.jitter, p.latency/2)},
		Global:  discordsim.Aligned(p.global, time.Second, time.Duration(p.seed%1000)*time.Millisecond),
	}
	switch p.extreme {
	case "no global limit", "a high global limit":
		c.Global = discordsim.Unlimited() // if the client applies no global limit, the server must have none
	}
	switch p.world {
	case "changing hash":
		rule.Changes = []discordsim.Change{{At: time.Second, Hash: "other"}, {At: 3 * time.Second, Hash: "third"}}
	case "flipping hash":
		rule.Vary = discordsim.Alternate("messages", "other")
	case "new hash each time":
		rule.Vary = discordsim.EachTime("hash")
	case "unlimited":
		rule.Quota = discordsim.Unlimited()
	case "shared":
		rule.Shared = &discordsim.SharedLimit{Quota: discordsim.Fixed(7, 4*time.Second)}
	case "sub-limit":
		rule.SubLimits = []discordsim.SubLimit{{Fields: []string{"name"}, Quota: discordsim.Fixed(2, 4*time.Second)}}
	case "global block":
		c.Blocks = []discordsim.GlobalBlock{{From: 500 * time.Millisecond, Until: 3 * time.Second}}
	case "edge":
		c.Edge = []discordsim.EdgeBan{{From: 500 * time.Millisecond, Until: 4 * time.Second}}
	case "edge without a word":
		c.Edge = []discordsim.EdgeBan{{From: 500 * time.Millisecond, Until: 4 * time.Second, Silent: true}}
	case "foreign":
		p.useOfOthers(&c)
	default:
		p.observed(&c, &rule)
	}
	if p.troubles > 0 {
		share := float64(p.troubles) / 400
		// The first requests must get their responses, because the client learns the limits from them.
		after := func(c discordsim.Call) bool { return c.N > 3*p.channels }
		c.Faults = append(c.Faults,
			discordsim.Fault{Probability: share, When: after, Status: 502, Uncounted: true},
			discordsim.Fault{Probability: share, When: after, Connection: discordsim.ConnectionLostBefore},
			discordsim.Fault{Probability: share, When: after, Connection: discordsim.ConnectionLostAfter},
			discordsim.Fault{Probability: share, When: after, Delay: 2500 * time.Millisecond},
		)
	}
	c.Rules = append(c.Rules, rule)
	if p.world == "one name" {
		other := discordsim.Rule{Method: "GET", Path: "**", Hash: "other", Announce: "messages", Quota: p.quota}
		other.Quota.Limit *= 3
		c.Rules[0].Announce = "messages"
		c.Rules = append([]discordsim.Rule{other}, c.Rules...)
	}
	if p.world == "one hash" {
		get := rule
		get.Method = "GET"
		c.Rules = append([]discordsim.Rule{get}, c.Rules...)
	}
	return c
}

// observed sets the behaviours that were found on compatible or old servers, or only sometimes on Discord.
func (p play) observed(c *discordsim.Config, rule *discordsim.Rule) {
	switch p.world {
	case "no scope":
		p.refuses(c, rule)
		c.Faults = []discordsim.Fault{discordsim.WithoutScope()}
	case "milliseconds in bodies":
		p.refuses(c, rule)
		c.Faults = []discordsim.Fault{discordsim.MillisecondBodies(p.bits(16, 1) == 1)}
	case "waits that contradict":
		p.refuses(c, rule)
		c.Faults = []discordsim.Fault{
			[]discordsim.Fault{discordsim.HeadersUntilFull(), discordsim.ShortHeaders(), discordsim.WithoutRetryAfter(),
				discordsim.HeadersUntilFull()}[p.bits(16, 2)],
		}
	case "block that grows", "stale block that grows":
		rule.Quota = discordsim.Extending(p.quota.Limit, p.quota.Period, p.quota.Period)
		c.Faults = []discordsim.Fault{discordsim.WithoutScope()}
		if p.world != "block that grows" {
			c.Faults = append(c.Faults, discordsim.StaleFirst())
		}
		p.useOfOthers(c)
		// Further requests of the other client would renew the block for ever.
		c.Foreign[0].Every, c.Foreign[0].Count = 0, p.quota.Limit
		c.Foreign[0].At = []time.Duration{400 * time.Millisecond, 1700 * time.Millisecond, 5 * time.Second}
	case "hash by channel":
		rule.Vary = discordsim.HashByMajor("messages")
	case "stale first answer":
		rule.Quota = discordsim.Fixed(p.quota.Limit, p.quota.Period)
		c.Faults = []discordsim.Fault{discordsim.StaleFirst()}
	case "reset alone":
		whole := discordsim.WholeReset(p.bits(17, 1) == 1)
		c.Faults = []discordsim.Fault{[]discordsim.Fault{discordsim.ResetAlone(), whole}[p.bits(16, 1)]}
	case "next place":
		rule.Quota = discordsim.SlidingNext(p.quota.Limit, p.quota.Period)
	case "hidden limit without headers":
		rule.Quota = discordsim.Unlimited()
		silent := p.bits(17, 1) == 1
		if p.bits(16, 1) == 1 {
			rule.Shared = &discordsim.SharedLimit{Quota: discordsim.Fixed(7, 4*time.Second), Silent: silent}
		} else {
			rule.SubLimits = []discordsim.SubLimit{{Fields: []string{"name"}, Quota: discordsim.Fixed(2, 4*time.Second),
				Silent: silent}}
		}
	case "error bucket":
		rule.Quota = discordsim.Unlimited()
		rule.Vary = discordsim.ErrorBucket("errors", p.quota, func(c discordsim.Call) int {
			if strings.HasSuffix(c.Request.Path, "/404") {
				return http.StatusNotFound
			}
			return 0
		})
	case "roll-out":
		change := discordsim.Change{At: 500 * time.Millisecond, Over: 3 * time.Second,
			Counters: discordsim.Counters(p.bits(16, 8) % 3)}
		if p.bits(24, 1) == 1 {
			change.Hash = "other"
		}
		if p.bits(25, 1) == 1 {
			change.Quota = p.quota
			change.Quota.Limit = []int{p.quota.Limit * 2, (p.quota.Limit + 1) / 2}[p.bits(26, 1)]
		}
		rule.Changes = []discordsim.Change{change}
	case "stalled bodies":
		p.refuses(c, rule)
		c.Faults = []discordsim.Fault{
			{Also: true, Probability: 0.1, Stall: discordsim.StallAtOnce},
			{Also: true, Probability: 0.1, Stall: discordsim.StallHalfway},
			{Also: true, Probability: 0.2, BodyDelay: 3 * time.Second},
		}
	case "401 by channel":
		for _, channel := range closedChannels {
			closed := *rule
			closed.Path, closed.Status = fmt.Sprintf("/channels/%d/**", channel), http.StatusUnauthorized
			c.Rules = append(c.Rules, closed)
		}
	case "foreign host":
		c.Rules = append(c.Rules, discordsim.Rule{
			Method: "GET", Path: "/channels/{id}/messages/{id}", Status: http.StatusTemporaryRedirect, Hash: "redirects",
			Quota:  p.quota,
			Faults: []discordsim.Fault{{Set: map[string]string{"Location": "http://" + foreignHost + "/channels/1/busy"}}},
		})
	case "cancel storm at the edge":
		c.Edge = []discordsim.EdgeBan{{From: 500 * time.Millisecond, Until: 4 * time.Second}}
	case "cancel storm at a sub-limit":
		rule.SubLimits = []discordsim.SubLimit{{Fields: []string{"name"}, Quota: discordsim.Fixed(2, 4*time.Second)}}
	case "cancel storm at the global limit":
		rule.Quota = discordsim.Unlimited()
	default:
		p.measured(c, rule)
	}
}

// refuses adds a reason for 429s that no client can foresee.
func (p play) refuses(c *discordsim.Config, rule *discordsim.Rule) {
	switch p.bits(8, 2) {
	case 0:
		p.useOfOthers(c)
		// The interval must not be a whole number of seconds. Such an interval is tested in the world "foreign".
		c.Foreign[0].Every += 37 * time.Millisecond
	case 1:
		rule.SubLimits = []discordsim.SubLimit{{Fields: []string{"name"}, Quota: discordsim.Fixed(2, 4*time.Second)}}
	case 2:
		rule.Shared = &discordsim.SharedLimit{Quota: discordsim.Fixed(7, 4*time.Second)}
	default:
		c.Blocks = []discordsim.GlobalBlock{{From: 500 * time.Millisecond, Until: 3 * time.Second}}
	}
}

// useOfOthers lets another client use the bucket of one channel. That client uses no other limit.
func (p play) useOfOthers(c *discordsim.Config) {
	c.Foreign = []discordsim.ForeignUse{{
		Request: discordsim.Request{Method: "POST", Path: "/channels/1/messages", Authorization: "Bot token"},
		Every:   max(300*time.Millisecond, 2*p.quota.Period/time.Duration(p.quota.Limit)),
	}}
	c.Global = discordsim.Unlimited()
}

// foreignHost is a server other than Discord. Depending on the path, it refuses requests for a day, answers 401, or
// returns a file.
func (p play) foreignHost() discordsim.Config {
	return discordsim.Config{
		Seed: p.seed, Latency: discordsim.RoundTrip(p.latency), Global: discordsim.Unlimited(),
		Rules: []discordsim.Rule{
			{
				Path: "/channels/{id}/busy", Status: http.StatusTooManyRequests,
				Faults: []discordsim.Fault{{Set: map[string]string{"Retry-After": "86400"}}},
			},
			{Path: "/channels/{id}/messages", Status: http.StatusUnauthorized},
			{Path: "**"},
		},
	}
}

// channelCount returns how many channels get messages: at least three in worlds in which channels differ.
func (p play) channelCount() int {
	switch p.world {
	case "hash by channel", "401 by channel", "late in some channels":
		return max(p.channels, 3)
	case "cancel storm at the global limit":
		return 10
	}
	return p.channels
}

// named reports whether every third request changes a channel's name. A sub-limit counts these requests.
func (p play) named() bool {
	switch p.world {
	case "sub-limit", "cancel storm at a sub-limit":
		return true
	case "no scope", "milliseconds in bodies", "waits that contradict", "stalled bodies":
		return p.bits(8, 2) == 1
	case "hidden limit without headers":
		return p.bits(16, 1) == 0
	}
	return false
}

func (p play) request(ctx context.Context, i int, chance *rand.Rand) sent {
	host, channel := discordHost, 1+chance.IntN(p.channelCount())
	method, path, body := "POST", "/messages", `{"content": "hello"}`
	s := sent{wants: http.StatusOK, required: true}
	switch {
	case strings.HasPrefix(p.world, "one ") && i%2 == 1:
		method, body = "GET", ""
	case p.named():
		method, path = "PATCH", ""
		if i%3 == 0 {
			body = `{"name": "new"}`
		}
	case p.world == "hash by channel" && i%2 == 1 && p.bits(16, 1) == 1:
		method, body = "GET", ""
	case p.world == "hash by URL":
		method, path = "PATCH", "/messages/"+strconv.Itoa(i%10)
	case p.world == "error bucket", p.world == "errors of an address":
		method, path, body = "GET", "/messages/1", ""
		if i%3 == 0 {
			path, s.wants = "/messages/404", http.StatusNotFound
		}
	case p.world == "401 by channel" && slices.Contains(closedChannels, channel):
		s.wants, s.required = http.StatusUnauthorized, false // later requests may be stopped without being sent
	case p.world == "foreign host":
		switch i % 8 {
		case 1: // the path is also one of Discord, whose responses have another status
			host, s.wants, s.within = foreignHost, http.StatusUnauthorized, time.Second
		case 3:
			host, path, s.wants, s.within = foreignHost, "/file", http.StatusOK, time.Second
		case 5:
			host, path, s.wants, s.within = foreignHost, "/busy", http.StatusTooManyRequests, time.Second
		case 7: // Discord redirects to the foreign host
			method, path, body, s.wants = "GET", "/messages/1", "", http.StatusTooManyRequests
		}
	}
	target := fmt.Sprintf("http://%s/channels/%d%s", host, channel, path)
	r, err := http.NewRequestWithContext(ctx, method, target, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	r.Header.Set("Authorization", "Bot token")
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(discordsim.SequenceHeader, strconv.Itoa(i+1))
	if p.troubles > 0 {
		s.wants = 0 // the last response may be a server error
	}
	s.Request = r
	return s
}

// storms reports whether all requests are cancelled in bursts.
func (p play) storms() bool { return strings.HasPrefix(p.world, "cancel storm") }

// maxWait is the longest wait that the client accepts. After a storm, no request should have to wait long.
func (p play) maxWait() time.Duration {
	if p.storms() {
		return 15 * time.Second
	}
	return time.Hour
}

// answersAll reports whether every request must get a response, because nothing is cancelled and nothing fails.
func (p play) answersAll() bool {
	switch p.world {
	case "edge without a word": // its refusals are returned as errors
		return false
	}
	switch p.extreme {
	case "nothing waits", "a budget of 1", "a budget of 1 for all":
		return false
	}
	return p.closeAt == 0 && p.cancelled+p.deadlines+p.troubles == 0 || p.storms() && p.closeAt == 0 && p.troubles == 0
}

// blames reports whether the client can avoid every refusal that discordsim judges to be avoidable. If it cannot, such
// refusals do not make the play fail.
func (p play) blames() bool {
	switch p.world {
	case "one name": // no client can know which bucket will count a request
		return false
	case "lag": // a client that misses a response cannot know by how much Remaining lags
		return p.cancelled+p.deadlines+p.troubles == 0
	case "one hash": // a client that misses a response cannot know that two routes share a channel's bucket
		return p.channels == 1 && p.cancelled+p.deadlines+p.troubles == 0
	case "next place": // a client that evicts a bucket at once forgets the bucket's kind
		return p.cancelled+p.deadlines+p.troubles == 0 && p.poll > time.Minute && p.extreme != "collect all the time"
	}
	// A client that evicts buckets at once knows nothing of a bucket when the next response is lost.
	return p.cancelled+p.deadlines+p.troubles == 0 && !p.storms() || p.poll > time.Minute &&
		p.extreme != "collect all the time"
}

// promisesOrder reports whether requests must be sent in the order in which they came. They must in ordered mode, with
// three exceptions: the requests of a bucket can wait in two queues before the client knows that they share the bucket,
// some requests wait for a limit that does not apply to the other requests, or some requests fail or are cancelled in a
// storm.
func (p play) promisesOrder() bool {
	switch p.world {
	case "one hash", "one name", "changing hash", "flipping hash", "new hash each time", "hash by channel", "hash by URL",
		"error bucket", "errors of an address", "roll-out":
		return false
	}
	return p.ordered && p.troubles == 0 && !p.named() && !p.storms()
}

// measured sets the behaviours that were measured on Discord, or found on a compatible server, in autumn 2026.
func (p play) measured(c *discordsim.Config, rule *discordsim.Rule) {
	// Keep the delay below a period. If a bucket opened late by a period or more, the client would conclude that another
	// client uses the bucket, too.
	by := min([]time.Duration{50, 200, 300, 400}[p.bits(16, 2)]*time.Millisecond, p.quota.Period*3/4)
	quota := p.quota
	// The library does not avoid all refusals of a late sliding log yet. No such log has been measured on Discord.
	if quota.Kind == discordsim.KindSliding {
		quota = discordsim.Leaky(quota.Limit, quota.Period)
	}
	switch late := quota.Late(by, 0); p.world {
	case "late":
		rule.Quota = late
	case "late at random":
		rule.Quota = quota.Late(0, by)
	case "late in some channels":
		rule.Quota = quota
		rule.Vary = discordsim.LateFor(discordsim.Lateness{By: by}, "1", "4")
	case "late for a time":
		rule.Quota = quota
		rule.Changes = []discordsim.Change{{At: 2 * time.Second, Quota: late}, {At: 8 * time.Second, Quota: quota}}
	case "late global limit":
		if c.Global.Limit > 0 {
			c.Global = c.Global.Late(by/4, by) // together, the two delays are less than a second
		}
	case "lag":
		rule.Quota = discordsim.Lagging(p.quota.Limit, p.quota.Period)
	case "stale first answer":
		rule.Quota = discordsim.Fixed(p.quota.Limit, p.quota.Period)
		c.Faults = []discordsim.Fault{discordsim.StaleFirst()}
	case "stale first answer, block that grows":
		rule.Quota = discordsim.Extending(p.quota.Limit, p.quota.Period, p.quota.Period)
		c.Faults = []discordsim.Fault{discordsim.StaleFirst(), discordsim.WithoutScope()}
	case "hash by URL":
		rule.Vary = discordsim.HashByPath("url ")
	case "errors of an address":
		rule.Quota = discordsim.Unlimited()
		rule.Errors = &discordsim.ErrorLimit{
			Name: "errors", Quota: discordsim.Extending(p.quota.Limit, p.quota.Period, p.quota.Period/2),
		}
		rule.Vary = func(call discordsim.Call) discordsim.Variant {
			if strings.HasSuffix(call.Request.Path, "/404") {
				return discordsim.Variant{Status: http.StatusNotFound}
			}
			return discordsim.Variant{}
		}
	}
}
