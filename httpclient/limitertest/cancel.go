package limitertest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/routes"
)

// gate is a limit or hold for which requests can wait. prepare makes requests wait for it, in a world in which the
// messages of channel 1 have a limit of five in a second.
type gate struct {
	name    string
	needs   Promise
	one     bool // skipped without OneMind
	fields  []string
	prepare func(w *world)
}

var gates = []gate{
	{name: "unknown route", prepare: func(w *world) {
		w.setTrip(time.Second)
		w.sends(1, message(1))
		w.setTrip(20 * time.Millisecond)
	}},
	{name: "used up window", prepare: func(w *world) {
		w.sends(5, message(1))
		w.wait(200 * time.Millisecond)
	}},
	{name: "everything in flight", prepare: func(w *world) {
		w.sends(1, message(1))
		w.wait(1200 * time.Millisecond)
		w.setTrip(300 * time.Millisecond)
		w.sends(1, message(1))
		w.wait(200 * time.Millisecond)
		w.sends(9, message(1))
		w.setTrip(20 * time.Millisecond)
	}},
	{name: "refused bucket", prepare: func(w *world) { w.refuse(message(1), discordsim.ClassUser) }},
	{name: "refused resource", prepare: func(w *world) { w.refuse(message(1), discordsim.ClassShared) }},
	{name: "refused fields", needs: SubLimits, fields: []string{"content"}, prepare: func(w *world) { w.refuse(message(1), discordsim.ClassSubLimit) }},
	{name: "refused credential", one: true, prepare: func(w *world) { w.refuse(message(1), discordsim.ClassGlobal) }},
	{name: "refused address", needs: Edge, prepare: func(w *world) { w.refuse(message(1), discordsim.ClassEdge) }},
	{name: "global limit", prepare: func(w *world) {
		if w.settings.global == 0 {
			w.reporter.Skipf("the limiter has no global limit")
		}
		w.sends(1, history(1))
		w.sends(1, message(1))
		w.wait(1200 * time.Millisecond)
		var all []*delivery
		// Each in a bucket of its own, for limiters that send one request at a time in a bucket.
		for channel := range w.settings.global {
			all = append(all, w.post(w.ctx, request(history(1+channel))))
		}
		w.settle()
		for _, d := range all {
			if _, times := d.grantedAt(); times == 0 {
				w.reporter.Skipf("the limiter does not send as many requests at once as its global limit allows")
			}
		}
	}},
}

// setTrip changes the round-trip time of requests that are sent from now on.
func (w *world) setTrip(d time.Duration) { w.trip.Store(int64(d)) }

// refuse makes the limiter know a route and has one request refused, which then waits to be sent again.
func (w *world) refuse(r routes.CompiledRoute, class discordsim.Class) {
	w.sends(1, r)
	w.wait(50 * time.Millisecond)
	w.script(discordsim.Fault{Nth: []int{w.tally().arrived + 1}, Refuse: &discordsim.Refusal{Class: class, Wait: 800 * time.Millisecond}})
	w.send(w.ctx, withFields(r, "content"))
	w.wait(50 * time.Millisecond)
}

// leavers lists which of five waiters give up.
var leavers = []struct {
	name string
	who  []int
}{{"first", []int{0}}, {"two in the middle", []int{1, 2}}, {"last", []int{4}}, {"all", []int{0, 1, 2, 3, 4}}}

func cancelCases() []testCase {
	var all []testCase
	for _, g := range gates {
		for _, l := range leavers {
			all = append(all, testCase{
				name: "cancel/" + g.name + "/" + l.name, needs: g.needs, one: g.one,
				run: func(t *trial) { leave(t, g, l.who) },
				why: "a waiter that leaves gives back all that it took, and wakes the next one",
			})
		}
	}
	return all
}

func leave(t *trial, g gate, leaving []int) {
	w := limited(t, message(1), discordsim.Fixed(5, time.Second))
	g.prepare(w)
	var waiting []*delivery
	for range 5 {
		waiting = append(waiting, w.send(w.ctx, withFields(message(1), g.fields...)))
	}
	for i, d := range waiting {
		_, times := d.grantedAt()
		w.expect(times == 0, "number %d was expected to wait (%s), but it was granted", i+1, g.name)
	}
	for _, i := range leaving {
		waiting[i].cancel()
	}
	w.settle()
	var staying []*delivery
	for i, d := range waiting {
		done, _, err := d.outcome()
		if !slices.Contains(leaving, i) {
			staying = append(staying, d)
			continue
		}
		w.expect(done && errors.Is(err, context.Canceled), "number %d was expected to end with context.Canceled at once, but it has ended: %v, error: %v", i+1, done, err)
	}
	w.delivered(20*time.Second, staying, "all that did not give up")
	w.inOrder(staying)
	w.fullRate()
}

// fullRate expects that a bucket of five in a second still reaches its full rate.
func (w *world) fullRate() {
	w.reporter.Helper()
	w.wait(2500 * time.Millisecond)
	after := w.sends(10, message(1))
	took := w.delivered(30*time.Second, after, "all that came later")
	w.expect(took < 1500*time.Millisecond+w.late(2), "10 later requests of a bucket of 5 in 1s were expected to take little more than 1s, "+
		"but took %v: something has not been given back", took)
}

func momentCases() []testCase {
	return []testCase{
		{
			name: "cancel/while the window opens", run: leaveWhileWindowOpens,
			why: "a grant that nobody takes any more has to be given back, or the bucket loses a place each time",
		},
		{
			name: "cancel/while a place is given back", run: leaveWhilePlaceIsGivenBack,
			why: "a grant that nobody takes any more has to be given back, or the bucket loses a place each time",
		},
		{
			name: "cancel/while in flight", run: leaveWhileInFlight,
			why: "a caller that gives up on the response ends its lease with Release, and the others go on",
		},
	}
}

// rounds returns how often to repeat a race: less often in real time.
func (t *trial) rounds(n int) int {
	if t.realTime {
		return max(n/10, 1)
	}
	return n
}

func leaveWhileWindowOpens(t *trial) {
	w := limited(t, message(1), discordsim.Fixed(5, time.Second))
	for round := range w.rounds(40) {
		w.sends(5, message(1))
		opens := time.Now().Add(time.Second)
		w.wait(100 * time.Millisecond)
		head := w.send(w.ctx, request(message(1)))
		rest := w.sends(4, message(1))
		offset := time.Duration(round%40) * time.Millisecond
		time.AfterFunc(time.Until(opens)+offset, head.cancel)
		w.finish(20 * time.Second)
		w.acceptedAll(rest, "those behind the one that gave up")
		w.wait(1500 * time.Millisecond)
	}
	w.refusedNone()
	w.fullRate()
}

func leaveWhilePlaceIsGivenBack(t *trial) {
	for range t.rounds(50) {
		last := lastOfTwo(t)
		waiting := t.ask(message(1))
		t.expect(waiting.waiting(), "the one behind the last was expected to wait, but %s", waiting)
		t.background(waiting.cancel)
		t.background(last.held().Return)
		t.settle()
		t.expect(!waiting.waiting(), "the one that gave up was expected to return, but it waits")
		waiting.giveBack(t)
		next := t.must(message(1), "one of two is left, as nobody has sent anything")
		t.expect(t.waits(request(message(1))), "one grant was expected, because one of two is left, but there are two")
		next.giveBack(t)
		t.wait(4 * time.Second)
	}
}

func leaveWhileInFlight(t *trial) {
	w := limited(t, message(1), discordsim.Fixed(5, time.Second))
	w.script(discordsim.Fault{When: func(c discordsim.Call) bool { return c.N%2 == 1 }, Connection: discordsim.ConnectionLostAfter})
	all := w.sends(12, message(1))
	w.finish(30 * time.Second)
	for i, d := range all {
		done, _, err := d.outcome()
		w.expect(done && err == nil, "number %d was expected to be granted, but its error is %v", i+1, err)
	}
	w.refusedNone()
	w.script()
	w.fullRate()
}

// withMaxWait returns a context that bounds waits to d.
func (t *trial) withMaxWait(d time.Duration) context.Context {
	return buckets.ContextWithMaxWait(t.ctx, d)
}
