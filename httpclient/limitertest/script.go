package limitertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// play runs the steps of a script, which stand on lines of their own or between semicolons. # begins a comment. The
// methods serve, act and check list the forms of steps. "message1" is a request to a route, see newCall. Letters name
// requests: "ab" are two of them.
func (t *trial) play(script string) {
	for line := range strings.Lines(script) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		t.steps = append(t.steps, line)
		steps, _, _ := strings.Cut(line, "#")
		for text := range strings.SplitSeq(steps, ";") {
			if text = strings.Join(strings.Fields(text), " "); text != "" {
				t.run(&step{text: text})
			}
		}
	}
}

// run runs a step. It panics if it does not understand the whole step, because scripts are constants.
func (t *trial) run(s *step) {
	defer func() {
		if problem := recover(); problem != nil {
			panic(fmt.Sprintf("limitertest: case %q, step %q: %v", t.name, s.text, problem))
		}
	}()
	if !t.serve(s) {
		t.act(s)
	}
}

// step is a step of a script, or the end of one.
type step struct {
	text  string
	parts []string // what the groups of the step's form match, from index 1
}

// terms replaces the words in capitals of forms.
var terms = strings.NewReplacer(
	"CLASS", `user|shared|sub-limit|global|edge`,
	"REQUEST", `[a-z-]+\d*(?:\+(?:other|nobody|elsewhere|ordered|content|embeds|(?:max|by)=\d[^ /+]*))*`,
	"TIME", `\d[^ /+]*`,
)

var forms sync.Map // the compiled forms

// is reports whether the whole step has this form, which is a regular expression with terms.
func (s *step) is(form string) bool {
	compiled, ok := forms.Load(form)
	if !ok {
		compiled = regexp.MustCompile("^(?:" + terms.Replace(form) + ")$")
		forms.Store(form, compiled)
	}
	s.parts = compiled.(*regexp.Regexp).FindStringSubmatch(s.text)
	return s.parts != nil
}

// act runs a step without the fake Discord.
func (t *trial) act(s *step) {
	switch {
	case s.is(`([a-z]+|[1-9]\d*): (REQUEST)(?: (.+))?`): // new requests; a number of them have no names
		for _, name := range names(s.parts[1]) {
			c := t.newCall(s.parts[2])
			c.label = strings.TrimPrefix(name+": ", "-: ") + c.spec
			t.named[name] = t.check(t.ask(c), true, s.parts[3])
		}
	case s.is(`(TIME) later`): // time passes
		t.wait(duration(s.parts[1]))
	case s.is(`(TIME)\+ later`): // with the tolerance
		t.wait(duration(s.parts[1]) + t.late(1))
	case s.is(`close`): // Close must succeed and end all waits
		t.close()
	case s.is(`([a-z]+) cancels?`): // the contexts end at the same time
		for _, name := range names(s.parts[1]) {
			t.call(name).cancel()
		}
		t.settle()
	case s.is(`([a-z]+) (.+)`) && paths[s.parts[1]] == "": // what must be true now of earlier requests
		for _, name := range names(s.parts[1]) {
			t.check(t.call(name), false, s.parts[2])
		}
	case s.is(`(REQUEST) (.+)`): // a new request, which ends with the step
		c := t.check(t.ask(t.newCall(s.parts[1])), true, s.parts[2])
		if c.waiting() {
			c.cancel()
			t.settle()
		}
		if c.answered.IsZero() {
			t.giveBack(c) // even after the cancellation, because the request may have been granted before
		}
	default:
		panic("it has no known form")
	}
}

// names returns the names of several requests: the letters of text, or as many dashes as it says.
func names(text string) []string {
	if n, err := strconv.Atoi(text); err == nil {
		text = strings.Repeat("-", n)
	}
	return strings.Split(text, "")
}

// call returns the request that has this name.
func (t *trial) call(name string) *call {
	c := t.named[name]
	if c == nil {
		panic("no request is named " + name)
	}
	return c
}

// check runs the end of a step for one request. It may replace a new request, and returns the one that counts.
func (t *trial) check(c *call, isNew bool, verb string) *call {
	switch s := (&step{text: verb}); {
	case s.is(``): // only a name
	case s.is(`go(?:es)?( if fast)?`): // at once; if the limiter need not be fast, the case may also end here
		if s.parts[1] != "" && t.throughput == 0 && c.waiting() {
			t.skip("the limiter sends one request at a time")
		}
		t.goes(c)
	case s.is(`goes within (TIME)`): // it must be granted in this time, from now on
		latest := time.Now().Add(duration(s.parts[1]) + t.late(1))
		t.await(c, latest)
		t.grantedBetween(c, c.began, latest)
	case s.is(`goes after (TIME)(?: to (TIME))?(?: from ([a-z]))?`): // after the latest answer, or the one to this
		since := t.answered
		if s.parts[3] != "" {
			since = t.call(s.parts[3]).answered
		}
		latest := since.Add(duration(cmp.Or(s.parts[2], s.parts[1])) + t.late(1))
		t.wait(time.Until(latest))
		t.grantedBetween(c, since.Add(duration(s.parts[1])), latest)
	case s.is(`waits?( or fails)?`): // the limiter may reject it only if the step says so
		ok := t.soon(func() bool {
			if t.realTime && isNew && c.granted() { // a part of the limiter does not know of the limit yet
				t.giveBack(c)
				c = t.ask(t.newCall(c.spec))
			}
			return c.waiting() || s.parts[1] != "" && c.failed()
		})
		t.expect(ok, "%s was expected to wait, but %s", c.label, c)
	case s.is(`fails?(?: within (TIME))?(?: (canceled|deadline|too-long))?`): // it must have failed, or fail in this time
		if s.parts[1] != "" {
			t.await(c, time.Now().Add(duration(s.parts[1])+t.late(1)))
		}
		t.fails(c, s.parts[2])
	case s.is(`gets( at once)? (?:(2\d\d|5\d\d)|429 (CLASS)(?: (TIME))?)(?: (\d+)/(\d+) (TIME)(?: (-|[a-z]+))?)?`):
		t.goes(c)
		response := answer(s.parts[2:], nameOf(c.spec))
		c.answered = time.Now()
		t.answered = c.answered
		t.endLease(c, s.parts[1] != "", func(l buckets.Lease) { l.Update(response) })
	case s.is(`returns( at once)?`):
		t.endLease(c, s.parts[1] != "", buckets.Lease.Return)
	case s.is(`releases( at once)?`):
		t.endLease(c, s.parts[1] != "", buckets.Lease.Release)
	default:
		panic("its end has no known form: " + verb)
	}
	return c
}

// goes expects that a request is granted at once.
func (t *trial) goes(c *call) {
	t.expect(t.soon(c.granted), "%s was expected to be granted at once, but %s", c.label, c)
}

// grantedBetween expects that a request was granted at one of these times, or between them.
func (t *trial) grantedBetween(c *call, earliest, latest time.Time) {
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

// fails expects that a request has failed with an error of this kind: "canceled", "deadline", "too-long", or any error.
// A *ratelimits.TooLongError must match context.DeadlineExceeded if the request has a deadline, and only then.
func (t *trial) fails(c *call, kind string) {
	t.expect(t.soon(c.failed), "%s was expected to fail, but %s", c.label, c)
	err, ok := c.now().err, true
	switch isDeadline := errors.Is(err, context.DeadlineExceeded); kind {
	case "canceled":
		ok = errors.Is(err, context.Canceled)
	case "deadline":
		ok = isDeadline
	case "too-long":
		_, has := c.ctx.Deadline()
		t.expect(isDeadline == has, "errors.Is(err, context.DeadlineExceeded) was expected to be %v for: %v", has, err)
		ok = errors.As(err, new(*ratelimits.TooLongError))
	}
	t.expect(ok, "%s was expected to fail with another error (%s), but %s", c.label, kind, c)
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
	name := nameOf(spec)
	number := strings.TrimPrefix(spec, name)
	method, path, known := strings.Cut(paths[name], " ")
	if !known || strings.Contains(path, "#") != (number != "") {
		panic("no such route: " + spec)
	}
	return must(routes.Match(method, strings.ReplaceAll(path, "#", number)))
}

// newCall returns a call that has not begun. It is for a request such as "message1+other": a route and what
// distinguishes the request from others, see terms. The name of an earlier call stands for the same Request.
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

// answer returns the response that a step describes: the status, for a 429 its class and for how long, and the state of
// the bucket, as in "429 user 1s 0/5 1s": none of five is left, and the reset is in 1 s. The bucket hash is the next
// word, or usualHash; "-" means that the response names none.
func answer(parts []string, usualHash string) ratelimits.Response {
	class := valueOf[ratelimits.Class](cmp.Or(parts[1], ratelimits.ClassOK.String()))
	r := ratelimits.Response{Status: number(cmp.Or(parts[0], "429")), Class: class}
	if parts[2] != "" {
		r.HasRetryAfter, r.RetryAfter = true, duration(parts[2])
	}
	if parts[3] != "" {
		r.Limited, r.Remaining, r.Limit, r.ResetAfter = true, number(parts[3]), number(parts[4]), duration(parts[5])
		r.Bucket = strings.TrimPrefix(cmp.Or(parts[6], usualHash), "-")
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
	panic("unknown word " + name)
}

// must panics if there is an error, because scripts are constants.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
