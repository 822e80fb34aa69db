package limitertest

import (
	"fmt"
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// gates lists the limits, and the holds, that requests can wait for. After the script, further messages in channel 1,
// which have a limit of five per second, wait at the gate.
var gates = []struct {
	name, script, more string // more: see newCall
	needs              []Promise
}{
	{name: "unknown route", script: "trip 1s; send 1 message1; trip 20ms"},
	{name: "used up window", script: "send 5 message1; 200ms later"},
	{name: "everything in flight", script: `
		send 1 message1; 1.2s later
		trip 300ms; send 1 message1; 200ms later; send 9 message1; trip 20ms`},
	{name: "refused bucket", script: "refuse user"},
	{name: "refused resource", script: "refuse shared"},
	{name: "refused fields", script: "refuse sub-limit", more: "+content", needs: []Promise{SubLimits}},
	{name: "refused credential", script: "refuse global", needs: []Promise{OneMind}},
	{name: "refused address", script: "refuse edge", needs: []Promise{Edge}},
	{name: "global limit", script: "send 1 message1; 1.2s later; use up the global limit",
		needs: []Promise{globalLimit}},
}

func (s *suite) cancelling() {
	for _, g := range gates {
		for _, l := range []struct{ name, who string }{
			{"first", "a"}, {"two in the middle", "bc"}, {"last", "e"}, {"all", "abcde"},
		} {
			s.play("cancel/"+g.name+"/"+l.name, "a cancelled request gives back all that it took, and wakes the next one",
				"limit message1 fixed 5/1s\n"+g.script+"\nsend abcde message1"+g.more+"\nabcde wait\n"+
					l.who+" cancel; "+l.who+` fail canceled
					all succeed within 20s; none refused; in order
					full rate`, g.needs...)
		}
	}
	const lost = "a grant to a cancelled request has to be given back; otherwise the bucket loses a place each time"
	s.add("cancel/while the window opens", lost, func(t *trial) {
		t.play("limit message1 fixed 5/1s")
		for round := range t.rounds(40, 4) {
			t.play("send 5 message1")
			opens := time.Now().Add(time.Second)
			t.play("100ms later; send a message1; send 4 message1")
			time.AfterFunc(time.Until(opens)+time.Duration(round)*time.Millisecond, t.named["a"].cancel)
			t.play("all succeed within 20s; 1.5s later")
		}
		t.play("none refused; full rate")
	})
	s.add("cancel/while a place is given back", lost, func(t *trial) {
		for range t.rounds(50, 5) {
			t.play(lastOfTwo + "b: message1 waits")
			a, b := t.named["a"], t.named["b"]
			t.background(b.cancel)
			t.background(a.now().lease.Return)
			t.settle()
			t.expect(!b.waiting(), "the cancelled request was expected to end, but it waits")
			t.play(`
				b returns
				c: message1 goes; message1 waits # one of two is left, because nothing was sent
				c returns; 4s later`)
		}
	})
	s.add("cancel/while in flight",
		"a caller that gets no response ends its lease with Release, and the other requests are still sent", func(t *trial) {
			odd := func(c discordsim.Call) bool { return c.N%2 == 1 }
			t.survive(12, discordsim.Fault{When: odd, Connection: discordsim.ConnectionLostAfter})
		})
}

// survive sends messages in spite of a fault. Afterwards, without the fault, the bucket must still have its full rate.
func (t *trial) survive(n int, fault discordsim.Fault) {
	t.discord.faults(fault)
	t.play(fmt.Sprintf("limit message1 fixed 5/1s; send %d message1; all granted within 40s; none refused", n))
	t.discord.faults()
	t.play("4s later; full rate")
}

func (s *suite) deadlines() {
	s.play("deadline/before the predicted wait",
		"a caller whose deadline is too early is to learn that at once, not at the deadline", `
			message1 gets 200 0/5 20s
			message1+by=3s fails too-long`, Prediction)
	s.play("deadline/counting the queue ahead",
		"the wait is longer than the current window, because the requests ahead use up windows, too", `
			message1 gets 200 0/1 10s
			abc: message1 wait
			message1+by=25s fails too-long # it would be sent in the fourth window, after 30 s
			abc wait`, Prediction, OneMind)
	s.play("deadline/after the wait", "a limiter must not reject a request that can be sent in time", `
			message1 gets 200 0/5 1s
			message1+by=10s goes after 1s`)
	s.play("deadline/of a wait that nobody can predict",
		"the end of its context ends a wait, whatever the request waits for", `
			a: message1 goes # the route is unknown
			b: message1+by=1s waits; c: message1 waits
			b fails within 1s deadline
			a gets 200 4/5 1s; c goes`, Discovery)
	s.play("max wait/zero", "a request with a max wait of 0 gets a grant or an error at once", `
			message1 gets 200 1/2 1s
			a: message1+max=0s goes; message1+max=0s fails too-long
			a gets 200 0/2 1s; message1+max=0s fails too-long
			1s+ later; message1+max=0s goes`, Prediction)
	s.play("max wait/shorter than the wait", "an error at once is worth more than an error after the wait", `
			message1 gets 200 0/2 2s
			message1+max=1s fails too-long
			message1+max=3s goes after 2s`, Prediction)
	s.play("max wait/a hold makes it too long",
		"when the head of a queue is rejected, the request behind it must still be sent", `
			message1 gets 200 1/2 1s
			a: message1 goes; b: message1+max=1.5s waits; c: message1 waits
			10ms later; a gets 429 user 4s 0/2 4s
			b fails within 1.5s too-long; c goes after 4s`, Prediction)
	s.add("max wait/of the limiter", "the limiter's bound is for requests that set none of their own", func(t *trial) {
		t.play(fmt.Sprintf(`
			message1 gets 200 0/5 %v; message1 fails too-long
			message2 gets 200 0/5 %v; message2 waits
			message1+max=%v waits # the bound of the context replaces the limiter's`,
			t.maxWait+time.Second, t.maxWait-time.Second, t.maxWait+time.Minute))
	}, Prediction, ownMaxWait)
}
