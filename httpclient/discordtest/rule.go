package discordtest

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/discordsim/measured"
)

// Rule configures a server. Most rules are a limit, an answer or a fault. Make a rule with a function of this package.
// The methods of a rule refine it: each returns a new rule. [NewServer] reports invalid rules.
type Rule struct {
	name  string // of the function that made the rule
	kind  kind
	on    operation
	quota discordsim.Quota // of limits
	fault discordsim.Fault // of answers and faults
	world func(*discordsim.Config)
	wrong error // first mistake in the rule, nil if the rule is valid

	preset *measured.Options // options of Discord; nil for other rules
	listen string            // address of Listen; "" for other rules

	header         http.Header // headers that an answer sets
	hidden, shared bool
	bucket         string
	nth            []int
	when           func(*http.Request) bool
}

// kind is the kind of a rule. At most one answer, and at most one fault of each kind, apply to a request.
type kind int

const (
	setting kind = iota
	limiting
	answering
	refusing
	breaking
	slowing
)

// Class is the kind of limit that refuses a request. It determines to which requests the 429 applies.
type Class string

const (
	// User is the limit of one bucket: of one operation in one channel, guild or webhook, for one authorization (scope
	// "user").
	User Class = "user"
	// SubLimit is a hidden limit, often of a field of the body, such as a channel's name. Its 429s have the scope "user",
	// although the headers say that requests remain. From these 429s, a client learns only that the limit applies to
	// requests whose bodies have the same fields.
	SubLimit Class = "sub-limit"
	// Shared is the limit of a resource (a channel, for example), which all users of the resource share (scope "shared").
	// Its 429s do not count as invalid requests.
	Shared Class = "shared"
	// Global is the limit of an authorization (scope "global"). It does not apply to responses to interactions without
	// an authorization.
	Global Class = "global"
	// Edge is a refusal by Cloudflare in front of Discord, with an HTML page. It applies to the whole IP address.
	Edge Class = "edge"
)

// classes maps classes to those of the engine, package discordsim.
var classes = map[Class]discordsim.Class{
	User: discordsim.ClassUser, SubLimit: discordsim.ClassSubLimit, Shared: discordsim.ClassShared,
	Global: discordsim.ClassGlobal, Edge: discordsim.ClassEdge,
}

// newRule returns a new rule about an operation.
func newRule(name string, k kind, on string) Rule {
	r := Rule{name: name, kind: k}
	if r.on, r.wrong = parseOperation(on); r.wrong != nil {
		r.wrong = fmt.Errorf("discordtest.%s: %w", name, r.wrong)
	}
	return r
}

// check records a mistake unless ok is true. Only the first mistake counts.
func (r Rule) check(ok bool, format string, arguments ...any) Rule {
	if !ok && r.wrong == nil {
		r.wrong = fmt.Errorf("discordtest.%s: "+format, append([]any{r.name}, arguments...)...)
	}
	return r
}

// Nth restricts an answer or a fault to the requests with the given numbers. The requests of the rule's operation are
// numbered from 1, in the order in which they arrive. If the rule has a When, only the requests that When selects are
// counted.
func (r Rule) Nth(n ...int) Rule {
	r.nth = append(slices.Clone(r.nth), n...)
	return r.scripted("Nth").check(len(n) > 0 && slices.Min(n) > 0, "Nth counts from 1, not %v", n)
}

// When restricts an answer or a fault to the requests for which f returns true. f may read the body and call the
// server's methods. It runs on the goroutine of the request, and must be safe for concurrent use. If f panics, the test
// fails.
func (r Rule) When(f func(*http.Request) bool) Rule {
	r.when = f
	return r.scripted("When").check(f != nil, "When needs a function")
}

// Header sets a header of an answer, for example "X-RateLimit-Remaining" to "NaN". It replaces the server's header of
// that name. If a client trusts such a header and therefore gets a 429, that 429 does not count as avoidable.
func (r Rule) Header(name, value string) Rule {
	r.header = r.header.Clone()
	if r.header == nil {
		r.header = make(http.Header)
	}
	r.header.Set(name, value)
	r = r.check(r.kind == answering || r.kind == refusing, "Header is for Answer, Handle and Refuse")
	return r.check(name != "", "Header needs a name")
}

// Hidden hides a limit: no header shows the limit, and only its 429s, of class SubLimit, reveal it. A hidden limit
// applies in addition to the operation's ordinary limit. If the operation is Unlimited, no response has limit headers.
func (r Rule) Hidden() Rule {
	r.hidden = true
	return r.check(r.isQuota(), "Hidden is for limits")
}

// Shared makes a limit count the requests to a resource (channel, guild, webhook) with all authorizations together. No
// header shows the limit. It applies in addition to the operation's ordinary limit.
func (r Rule) Shared() Rule {
	r.shared = true
	return r.check(r.isQuota(), "Shared is for limits")
}

// Bucket sets the name of a limit in X-RateLimit-Bucket. Operations whose limits have the same name share one limit.
func (r Rule) Bucket(name string) Rule {
	r.bucket = name
	return r.check(r.isQuota(), "Bucket is for limits").check(name != "", "Bucket needs a name")
}

// Late makes a limit open later than its headers say, by a random time between least and most. Only the Retry-After of
// a 429 shows the real time. Some buckets of the real Discord open late, see [Discord].
func (r Rule) Late(least, most time.Duration) Rule {
	r.quota = r.quota.Late(least, most-least)
	return r.check(r.isQuota(), "Late is for limits").
		check(least >= 0 && most >= least, "want 0 or more, and the larger one last, not %v and %v", least, most)
}

// isQuota reports whether the rule limits an operation.
func (r Rule) isQuota() bool { return r.kind == limiting && r.quota.Kind != discordsim.KindUnlimited }

// scripted checks that the rule is an answer or a fault. Only answers and faults can be restricted to some requests.
func (r Rule) scripted(method string) Rule {
	return r.check(r.kind > limiting, method+" is for answers and faults")
}

// Window limits an operation to a number of requests (limit) in a fixed window. The window begins with the first
// request.
func Window(on string, limit int, period time.Duration) Rule {
	return newLimit("Window", on, discordsim.Fixed(limit, period))
}

// Sliding limits an operation to a number of requests (limit) within any interval of one period. Authors of libraries
// have observed that most of Discord's buckets are of this kind.
func Sliding(on string, limit int, period time.Duration) Rule {
	return newLimit("Sliding", on, discordsim.Sliding(limit, period))
}

// Leaky limits an operation by a leaky bucket with room for a number of requests (limit). A full bucket becomes empty
// within one period, at a steady rate.
func Leaky(on string, limit int, period time.Duration) Rule {
	return newLimit("Leaky", on, discordsim.Leaky(limit, period))
}

func newLimit(name, on string, quota discordsim.Quota) Rule {
	r := newRule(name, limiting, on)
	r.quota = quota
	return r.check(quota.Limit > 0, "a limit of %d requests: want 1 or more", quota.Limit).
		check(quota.Period >= time.Millisecond, "a limit with a period of %v: want a millisecond or more", quota.Period)
}

// Unlimited removes the limit of an operation. The responses of the operation have no limit headers.
func Unlimited(on string) Rule {
	r := newRule("Unlimited", limiting, on)
	r.quota = discordsim.Unlimited()
	return r
}

// GlobalLimit sets how many requests per second each authorization may send. The default is 50.
func GlobalLimit(perSecond int) Rule {
	r := Rule{name: "GlobalLimit", world: func(c *discordsim.Config) {
		c.Global = discordsim.Aligned(perSecond, time.Second, 0)
	}}
	return r.check(perSecond > 0, "a limit of %d requests: want 1 or more", perSecond)
}

// InvalidLimit bans an IP address for some time (ban) after a number of invalid requests (limit) within a period. A
// request is invalid if its status is 401, 403, or 429 without the class Shared. The default is a ban of an hour after
// 10 000 invalid requests in ten minutes.
func InvalidLimit(limit int, period, ban time.Duration) Rule {
	r := Rule{name: "InvalidLimit", world: func(c *discordsim.Config) {
		c.Invalid = discordsim.InvalidLimit{Limit: limit, Period: period, Ban: ban}
	}}
	return r.check(limit > 0, "a limit of %d requests: want 1 or more", limit).
		check(period > 0 && ban > 0, "want positive durations, not %v and %v", period, ban)
}

// Latency sets the round-trip time between client and server. The default is none. This time is added to the round-trip
// time of the real network. Whether or not this rule is used, each answer takes up to a microsecond longer, so that no
// two answers arrive at the same moment in virtual time.
func Latency(roundTrip time.Duration) Rule {
	r := Rule{name: "Latency", world: func(c *discordsim.Config) { c.Latency = discordsim.RoundTrip(roundTrip) }}
	return r.check(roundTrip >= 0, "want a duration of zero or more, not %v", roundTrip)
}

// Listen sets the address at which the server listens, such as "127.0.0.1:8090". The default is a free port of the
// loopback interface. In a testing/synctest bubble, Listen has no effect, because a server does not listen there.
func Listen(address string) Rule {
	r := Rule{name: "Listen", listen: address}
	_, _, err := net.SplitHostPort(address)
	return r.check(err == nil, "%q is no address: want a host and a port", address)
}

var errNoRule = errors.New("discordtest: empty Rule: make rules with the functions of this package")
