package limitertest

import (
	"fmt"
	"strings"

	"github.com/ratelight/ratelight/buckets"
)

func (s *suite) arguments() {
	const mistake = "a caller's mistake must cause an error, neither a panic nor a wait"
	for _, c := range []struct {
		name, why string
		make      func(c *call)
	}{
		{"no context", "a caller's mistake must cause an error, or a panic like those of package context, but no wait",
			func(c *call) { c.ctx = nil }},
		{"no request", mistake, func(c *call) { c.request = nil }},
		{"no route", mistake, func(c *call) { c.request = &buckets.Request{Authorization: bot} }},
		{"context that has ended", "the caller no longer wants to send the request, and must learn why it gets no grant",
			func(c *call) { c.cancel() }},
	} {
		s.add("arguments/"+c.name, c.why, func(t *trial) { t.rejects(c.make) })
	}
	s.add("arguments/no token in an error", "errors are logged, and tokens must not appear in logs", func(t *trial) {
		t.play("hook5 gets 200 0/5 1m; a: hook5+max=0s fails too-long")
		err := t.named["a"].now().err
		for _, token := range []string{secret, bot, strings.TrimPrefix(bot, "Bot ")} {
			text := fmt.Sprintf("%v %+v %#v", err, err, err)
			t.expect(!strings.Contains(text, token), "no token was expected in the error, but it reads: %s", text)
		}
	}, Prediction)
}

// rejects expects an error at once and no lease for a call that spoil has changed. Without a context, AcquireRequest
// may panic instead.
func (t *trial) rejects(spoil func(c *call)) {
	c := t.newCall("message1")
	spoil(c)
	var lease buckets.Lease
	var panicked any
	t.start(c, func() (_ int, err error) {
		defer func() {
			if panicked = recover(); panicked != nil {
				err = fmt.Errorf("panic: %v", panicked)
			}
		}()
		lease, err = t.acquire(c)
		return 0, err
	})
	t.settle()
	t.expect(t.soon(c.failed), "an error was expected at once, but %s", c)
	t.expect(panicked == nil || c.ctx == nil, "an error was expected, but the call panicked: %v", panicked)
	t.expect(lease == (buckets.Lease{}), "with the error %v, a zero Lease was expected", c.now().err)
	if c.ctx != nil && c.ctx.Err() != nil {
		t.fails(c, "canceled")
	}
	t.play("message1 goes # a wrong call must not affect other requests")
}

// lastOfTwo acquires the last place of a bucket of two.
const lastOfTwo = "message1 gets 200 1/2 2s; a: message1 goes\n"

func (s *suite) leases() {
	s.play("lease/ended more than once",
		"callers that defer Release also call it after Update; a place given back twice is used twice", lastOfTwo+`
			a returns; a returns; a releases; a gets 200 2/2 2s
			b: message1 goes; cd: message1 wait # one place was given back
			cd cancel
			b gets 200 0/2 2s; b returns; b releases
			message1 waits                      # Return after Update does nothing
			2s+ later; message1 goes`)
	s.play("lease/Return gives back",
		"a request that was never sent was never counted; its place belongs to the next one", `
			message1 gets 200 1/2 10s; a: message1 goes; a returns
			message1 goes; message1 goes; message1 goes; message1 goes # each is returned
			b: message1 goes; cd: message1 wait`)
	s.play("lease/Return lets the next one go",
		"otherwise a request would wait for the next window, although this window has room", lastOfTwo+`
			bc: message1 wait
			a returns
			b goes; c waits`, OneMind)
	s.play("lease/Release keeps the charge",
		"a request whose response was lost may have been counted; then one more causes a 429", lastOfTwo+`
			a releases
			b: message1 waits; b goes within 3s`)
	s.play("lease/ending does not block",
		"a caller that ends a lease has its response or its error; only later requests wait", `
			message1 gets 200 4/5 1m
			a: message1 goes; a returns at once
			a: message1 goes; a releases at once
			a: message1 goes; 9: message1 # most of these wait
			a gets at once 200 0/5 1m
			message1 waits`)
}

func (s *suite) order() {
	s.play("order/first come, first served",
		"otherwise messages are sent in a wrong order, and some requests can wait for ever", `
			limit message1 fixed 2/200ms
			send 13 message1
			all succeed within 10s; none refused; in order`, Order)
	s.add("order/refused requests come first, in order",
		"refused requests are the oldest; behind others they would be overtaken again and again", func(t *trial) {
			t.play(`
				message1 gets 200 2/3 1s
				ab: message1 go; c: message1 waits
				10ms later; a gets 429 user 500ms 0/3 500ms; b gets 429 user 500ms 0/3 500ms
				e: b; d: a; dec wait
				d goes within 10s; d gets 200 0/3 200ms
				e goes within 10s; e gets 200 0/3 200ms
				c goes within 10s`)
			t.inOrder([]*call{t.named["d"], t.named["e"], t.named["c"]})
		}, Order)
	s.play("order/one at a time",
		"Discord orders messages by arrival, so each has to be answered before the next one is sent", `
			message1 gets 200 9/10 1m
			a: message1+ordered goes; bcd: message1+ordered wait
			a gets 200 8/10 1m; b goes; cd wait
			b gets 200 7/10 1m; c goes; d waits
			c gets 200 6/10 1m; d goes`, OneAtATime)
}

func (s *suite) closing() {
	s.play("close/ends all waits", "a program that shuts down must not hang because requests wait", `
		message1 gets 200 0/5 1m
		message2 gets 200 4/5 1m; message2 gets 429 shared 1m 3/5 1m
		a: history1 goes          # its lease is never ended
		bcd: message1 wait; efg: message2 wait
		hij: history1             # the route is unknown; these wait in a limiter that promises Discovery
		message3 gets 429 global 1m; bcdefg wait
		k: message4 waits; l: rename5 waits
		close`, closing)
	s.play("close/afterwards",
		"a request that comes after Close gets an error, and a lease that ends later does no harm", `
			message1 gets 200 4/5 1m
			abc: message1 go
			close
			a gets 200 1/5 1m; b releases; c returns
			d: message1 fails
			close`, closing)
}
