package limitertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// play runs the steps of a script, which stand on lines of their own or between semicolons. # begins a comment.
// "message1" is a request to a route, see newCall. Letters name requests: "ab" are two of them.
//
//	a: message1 goes            the limiter must grant this request at once; its lease remains open
//	bc: message1 wait           two more requests must wait
//	30: message1 go             30 requests that have no names
//	c: a                        the Request of a is acquired again, with no check
//	message1 waits              a request that is withdrawn after the check
//	message1 waits or fails     the limiter may also reject it
//	b goes; c waits             what must be true now of earlier requests
//	b goes within 2s            it must be granted in the next two seconds, from now on
//	b goes after 2s             it must be granted two seconds after the latest answer, neither earlier nor later
//	b goes after 3s to 4s from a  it must be granted in this time after the answer to a
//	b goes if fast              if the limiter needs no throughput, b may also wait, and the case ends
//	c fails too-long            AcquireRequest must have failed with this error, see fails
//	c fails within 2s deadline  it must fail in the next two seconds
//	a gets 200 4/5 2s           a must be granted; its response says that four of five are left, see answer
//	a gets at once 200          the same, and ending the lease must not block
//	a returns; b releases       the leases end with Return and Release
//	c cancels                   the context of c ends
//	10ms later; 2s+ later       time passes; with a plus, also the tolerance
//	close                       Close must succeed and end all waits
//
// The method serve lists the steps with the fake Discord.
func (t *trial) play(script string) {
	for line := range strings.Lines(script) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		t.steps = append(t.steps, line)
		steps, _, _ := strings.Cut(line, "#")
		for step := range strings.SplitSeq(steps, ";") {
			if words := strings.Fields(step); len(words) > 0 && !t.serve(words) {
				t.act(words)
			}
		}
	}
}

// act runs a step without the fake Discord.
func (t *trial) act(words []string) {
	subject, isNew := strings.CutSuffix(words[0], ":")
	switch {
	case isNew:
		for _, name := range names(subject) {
			c := t.newCall(words[1])
			c.label = strings.TrimPrefix(name+": ", "-: ") + c.spec
			t.named[name] = t.check(t.ask(c), true, words[2:])
		}
	case words[len(words)-1] == "later":
		d, tolerant := strings.CutSuffix(subject, "+")
		wait := duration(d)
		if tolerant {
			wait += t.late(1)
		}
		t.wait(wait)
	case subject == "close":
		t.close()
	case paths[nameOf(subject)] == "":
		for _, name := range names(subject) {
			t.check(t.named[name], false, words[1:])
		}
		if words[1] == "cancel" || words[1] == "cancels" {
			t.settle() // once for all
		}
	default:
		c := t.check(t.ask(t.newCall(subject)), true, words[1:])
		if c.waiting() {
			c.cancel()
			t.settle()
		}
		if c.answered.IsZero() {
			t.giveBack(c) // even after the cancellation, because the request may have been granted before
		}
	}
}

// names returns the names of several requests: the letters of text, or as many dashes as it says.
func names(text string) []string {
	if n, err := strconv.Atoi(text); err == nil {
		text = strings.Repeat("-", n)
	}
	return strings.Split(text, "")
}

// check runs the verb of a step for one request. It may replace a new request, and returns the one that counts.
func (t *trial) check(c *call, isNew bool, verb []string) *call {
	if len(verb) == 0 {
		return c
	}
	switch verb[0] {
	case "goes", "go":
		t.goes(c, verb[1:])
	case "waits", "wait":
		ok := t.soon(func() bool {
			if t.realTime && isNew && c.granted() { // a part of the limiter does not know of the limit yet
				t.giveBack(c)
				c = t.ask(t.newCall(c.spec))
			}
			return c.waiting() || len(verb) > 1 && c.failed()
		})
		t.expect(ok, "%s was expected to wait, but %s", c.label, c)
	case "fails", "fail":
		t.fails(c, verb[1:])
	case "gets":
		t.goes(c, nil)
		rest, mayBlock := verb[1:], verb[1] != "at"
		if !mayBlock {
			rest = verb[3:]
		}
		response := answer(rest, nameOf(c.spec))
		c.answered = time.Now()
		t.answered = c.answered
		c.now().lease.Update(response)
		took := time.Since(c.answered)
		t.expect(mayBlock || took <= t.late(0), "Update was expected to return at once, but took %v", took)
		t.settle()
	case "returns":
		t.giveBack(c)
	case "releases":
		c.now().lease.Release()
		t.settle()
	case "cancels", "cancel":
		c.cancel()
	default:
		panic("limitertest: unknown verb " + verb[0])
	}
	return c
}

// goes expects that a request is granted.
func (t *trial) goes(c *call, how []string) {
	option := make(map[string]string)
	for pair := range slices.Chunk(how, 2) {
		option[pair[0]] = pair[1]
	}
	within, after := option["within"], option["after"]
	if within == "" && after == "" {
		if option["if"] == "fast" && t.throughput == 0 && c.waiting() {
			t.skip("the limiter sends one request at a time")
		}
		t.expect(t.soon(c.granted), "%s was expected to be granted at once, but %s", c.label, c)
		return
	}
	earliest, latest := c.began, time.Now()
	if within != "" {
		latest = latest.Add(duration(within) + t.late(1))
		t.await(c, latest)
	} else {
		since := t.answered
		if from := t.named[option["from"]]; from != nil {
			since = from.answered
		}
		earliest, latest = since.Add(duration(after)), since.Add(duration(cmp.Or(option["to"], after))+t.late(1))
		t.wait(time.Until(latest))
	}
	at := c.now().at
	t.expect(c.granted() && !at.Before(earliest) && !at.After(latest),
		"%s was expected to be granted between %v and %v after its call, but %s",
		c.label, earliest.Sub(c.began), latest.Sub(c.began), c)
}

// await waits until the call is granted or has failed, but no longer than until deadline.
func (t *trial) await(c *call, deadline time.Time) {
	select {
	case <-c.decided:
	case <-time.After(time.Until(deadline)):
	}
	t.settle()
}

// fails expects that a request has failed, or fails in time, with an error of this kind: "canceled", "deadline",
// "too-long", or any error. A *ratelimits.TooLongError must match context.DeadlineExceeded if the request has a
// deadline, and only then.
func (t *trial) fails(c *call, how []string) {
	if len(how) > 1 {
		t.await(c, time.Now().Add(duration(how[1])+t.late(1)))
		how = how[2:]
	}
	t.expect(t.soon(c.failed), "%s was expected to fail, but %s", c.label, c)
	err, ok := c.now().err, true
	switch isDeadline := errors.Is(err, context.DeadlineExceeded); strings.Join(how, "") {
	case "canceled":
		ok = errors.Is(err, context.Canceled)
	case "deadline":
		ok = isDeadline
	case "too-long":
		_, has := c.ctx.Deadline()
		t.expect(isDeadline == has, "errors.Is(err, context.DeadlineExceeded) was expected to be %v for: %v", has, err)
		ok = errors.As(err, new(*ratelimits.TooLongError))
	}
	t.expect(ok, "%s was expected to fail with another error (%s), but %s", c.label, how, c)
}

// close closes the limiter, which must end all waits within a second.
func (t *trial) close() {
	waiting := slices.DeleteFunc(slices.Collect(maps.Values(t.named)), func(c *call) bool { return !c.waiting() })
	closed := make(chan error, 1)
	t.background(func() { closed <- t.limiter.(io.Closer).Close() })
	t.wait(time.Second)
	t.expect(t.soon(func() bool { return len(closed) > 0 }), "Close was expected to return within a second")
	err := <-closed
	t.expect(err == nil, "Close was expected to succeed, but its error is %v", err)
	for _, c := range waiting {
		t.expect(t.soon(c.failed), "%s was expected to end with an error, but %s", c.label, c)
	}
}

// bot is the usual credential, other a second one. secret is the token of a webhook.
const (
	bot    = "Bot MTIz.first.credential"
	other  = "Bot NDU2.second.credential"
	secret = "a-webhook-token-that-nobody-may-see"
)

// paths lists the routes of scripts. A number after the name, such as a channel, replaces #. Callbacks and follow-ups
// belong to interactions, whose tokens begin like these: they are exempt from the global limit.
var paths = map[string]string{
	"message":   "POST /channels/#/messages",
	"history":   "GET /channels/#/messages",
	"rename":    "PATCH /channels/#",
	"callback":  "POST /interactions/#/aW50ZXJhY3Rpb246#/callback",
	"followup":  "POST /webhooks/77/aW50ZXJhY3Rpb246#",
	"hook":      "POST /webhooks/#/" + secret,
	"user":      "GET /users/@me",
	"edit-user": "PATCH /users/@me",
	"regions":   "GET /voice/regions",
}

// nameOf returns the key in paths of a request such as "message1+other".
func nameOf(spec string) string {
	route, _, _ := strings.Cut(spec, "+")
	return strings.TrimRight(route, "0123456789")
}

// routeOf returns the route of a request without "+".
func routeOf(spec string) routes.CompiledRoute {
	method, path, _ := strings.Cut(paths[nameOf(spec)], " ")
	return must(routes.Match(method, strings.ReplaceAll(path, "#", strings.TrimPrefix(spec, nameOf(spec)))))
}

// newCall returns a call that has not begun. It is for a request such as "message1+other": a route and what
// distinguishes the request from others. The name of an earlier call stands for the same Request.
func (t *trial) newCall(spec string) *call {
	c := &call{label: spec, spec: spec, began: time.Now(), decided: make(chan struct{}), ended: make(chan struct{})}
	c.ctx, c.cancel = context.WithCancel(t.ctx)
	if earlier := t.named[spec]; earlier != nil {
		c.spec, c.request = earlier.spec, earlier.request
		return c
	}
	words := strings.Split(spec, "+")
	c.request = &buckets.Request{Route: routeOf(words[0]), Authorization: bot}
	for _, word := range words[1:] {
		switch key, value, _ := strings.Cut(word, "="); key {
		case "other":
			c.request.Authorization = other
		case "nobody":
			c.request.Authorization = ""
		case "elsewhere": // not Discord
			c.request.Server = "compatible.example"
		case "ordered":
			c.ctx = buckets.ContextWithOrdered(c.ctx)
		case "max":
			c.ctx = buckets.ContextWithMaxWait(c.ctx, duration(value))
		case "by":
			c.ctx, c.cancel = context.WithTimeout(t.ctx, duration(value))
		default: // a field of the body
			c.request.Fields = func() []string { return []string{word} }
		}
	}
	return c
}

// answer returns the response that words describe: the status, for a 429 its class and for how long, and the state of
// the bucket, as in "429 user 1s 0/5 1s": none of five is left, and the reset is in 1 s. The bucket hash is the next
// word, or the name of the route; "-" means that the response names none.
func answer(words []string, name string) ratelimits.Response {
	r := ratelimits.Response{Status: number(words[0])}
	words = words[1:]
	if r.Status == http.StatusTooManyRequests {
		r.Class = valueOf[ratelimits.Class](words[0])
		if words = words[1:]; len(words) > 0 {
			r.HasRetryAfter, r.RetryAfter = true, duration(words[0])
			words = words[1:]
		}
	}
	if len(words) > 0 {
		remaining, limit, _ := strings.Cut(words[0], "/")
		r.Limited, r.Remaining, r.Limit, r.ResetAfter = true, number(remaining), number(limit), duration(words[1])
		r.Bucket = strings.TrimPrefix(append(words[2:], name)[0], "-")
		r.Stamp = time.Now().Add(r.ResetAfter).UnixMilli() // for limiters that share limits with other processes
	}
	return r.Clip()
}

func duration(text string) time.Duration { return must(time.ParseDuration(text)) }

func number(text string) int { return must(strconv.Atoi(text)) }

// valueOf returns the value that prints like name.
func valueOf[T interface {
	~int | ~uint8
	fmt.Stringer
}](name string) T {
	for value := T(0); value < 10; value++ {
		if value.String() == name {
			return value
		}
	}
	panic("limitertest: unknown word " + name)
}

// must panics if there is an error, because scripts are constants.
func must[T any](value T, err error) T {
	if err != nil {
		panic("limitertest: " + err.Error())
	}
	return value
}
