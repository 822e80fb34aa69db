package limitertest

import (
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/discordsim"
)

func orderCases() []testCase {
	return []testCase{
		{
			name: "order/first come, first served", needs: Order, run: firstComeFirstServed,
			why: "messages would be sent in an order that nobody asked for, and the unlucky would wait for ever",
		},
		{
			name: "order/a refused request comes first", needs: Order, run: refusedComesFirst,
			why: "the request that drew a 429 is the oldest; behind the others it would be overtaken again and again",
		},
		{
			name: "order/two refused requests come in order", needs: Order, run: twoRefusedComeFirst,
			why: "who comes back to the queue stands where it stood, also among others who come back",
		},
		{
			name: "order/one at a time", needs: OneAtATime, run: oneAtATime,
			why: "Discord orders messages by arrival, so each has to be answered before the next one leaves",
		},
	}
}

func firstComeFirstServed(t *trial) {
	w := limited(t, message(1), discordsim.Fixed(2, 200*time.Millisecond))
	all := w.sends(13, message(1))
	w.delivered(10*time.Second, all, "all")
	w.inOrder(all)
}

func refusedComesFirst(t *trial) {
	t.tell(message(1), ok("messages", 3, 2, time.Second))
	first := t.must(message(1), "two of three are left")
	second := t.must(message(1), "one of three is left")
	behind := t.asks(3, message(1))
	t.wait(10 * time.Millisecond)
	first.update(t, refusedBy("user", "messages", 3, 0, 500*time.Millisecond))
	again := t.call(t.ctx, first.request)
	t.wait(10 * time.Millisecond)
	second.update(t, ok("messages", 3, 0, 500*time.Millisecond))
	t.expect(again.waiting() && count(behind) == 0, "nobody was expected to go during the hold, but %s, and %d others went", again, count(behind))
	for elapsed := time.Duration(0); again.waiting() && elapsed < 5*time.Second; elapsed += 10 * time.Millisecond {
		t.expect(count(behind) == 0, "the refused request was expected to go first, but another one has gone")
		t.wait(10 * time.Millisecond)
	}
	t.expect(again.granted(), "the refused request was expected to be granted after the hold, but %s", again)
}

func twoRefusedComeFirst(t *trial) {
	t.tell(message(1), ok("messages", 3, 2, time.Second))
	first, second := t.must(message(1), "two of three are left"), t.must(message(1), "one of three is left")
	behind := t.ask(message(1))
	t.wait(10 * time.Millisecond)
	first.update(t, refusedBy("user", "messages", 3, 0, 500*time.Millisecond))
	second.update(t, refusedBy("user", "messages", 3, 0, 500*time.Millisecond))
	secondAgain := t.call(t.ctx, second.request)
	firstAgain := t.call(t.ctx, first.request)
	for i, c := range []*call{firstAgain, secondAgain, behind} {
		for elapsed := time.Duration(0); c.waiting() && elapsed < 10*time.Second; elapsed += 10 * time.Millisecond {
			t.wait(10 * time.Millisecond)
		}
		t.expect(c.granted(), "number %d was expected to be granted, but %s", i+1, c)
		for _, other := range []*call{secondAgain, behind}[min(i, 2):] {
			t.expect(other == c || !t.before(other, c), "number %d was expected to go before those behind it", i+1)
		}
		c.update(t, ok("messages", 3, 0, 200*time.Millisecond))
	}
}

// before reports whether one was granted before another.
func (t *trial) before(one, another *call) bool {
	if !one.granted() {
		return false
	}
	_, first, _ := one.state()
	_, second, _ := another.state()
	return first.Before(second)
}

func oneAtATime(t *trial) {
	t.tell(message(1), ok("messages", 10, 9, time.Minute))
	ctx := buckets.ContextWithOrdered(t.ctx)
	var all []*call
	for range 4 {
		all = append(all, t.call(ctx, request(message(1))))
	}
	for i, c := range all {
		t.expect(count(all) == i+1, "%d grants were expected when %d are answered, but there are %d", i+1, i, count(all))
		t.expect(c.granted(), "number %d was expected to be the next, but %s", i+1, c)
		c.update(t, ok("messages", 10, 8-i, time.Minute))
	}
}
