package limitertest

import "time"

func leaseCases() []testCase {
	return []testCase{
		{
			name: "lease/ended more than once", run: endedTwice,
			why: "callers defer Release after every Update; what is given back twice is sent twice",
		},
		{
			name: "lease/Return gives back", run: returned,
			why: "a request that was never sent was never counted; its place belongs to the next one",
		},
		{
			name: "lease/Return lets the next one go", one: true, run: returnedToWaiter,
			why: "whoever waits for the place would otherwise wait for a window that nobody has used",
		},
		{
			name: "lease/Release keeps the charge", run: released,
			why: "a request whose answer was lost may have been counted, and one more would draw a 429",
		},
		{
			name: "lease/ending does not block", run: endsAtOnce,
			why: "the request that empties a bucket gets its response at once; only later ones wait",
		},
	}
}

// lastOfTwo acquires the last place of a bucket of two.
func lastOfTwo(t *trial) *call {
	t.reporter.Helper()
	t.tell(message(1), ok("messages", 2, 1, 2*time.Second))
	return t.must(message(1), "one of two is left")
}

func endedTwice(t *trial) {
	c := lastOfTwo(t)
	c.giveBack(t)
	c.giveBack(t)
	c.release(t)
	c.update(t, ok("messages", 2, 2, 2*time.Second))
	all := t.asks(3, message(1))
	t.expect(count(all) == 1, "one grant was expected after a lease was returned twice, but there are %d", count(all))
	for _, c := range all {
		c.cancel()
	}
	t.settle()
	all[0].update(t, ok("messages", 2, 0, 2*time.Second))
	all[0].giveBack(t)
	all[0].release(t)
	t.expect(t.waits(request(message(1))), "no grant was expected: the window is used up, and Return after Update does nothing")
	t.wait(2*time.Second + t.late(1))
	t.must(message(1), "the window is over").giveBack(t)
}

func returned(t *trial) {
	lastOfTwo(t).giveBack(t)
	for range 4 {
		t.must(message(1), "what was granted before was returned").giveBack(t)
	}
	all := t.asks(3, message(1))
	t.expect(count(all) == 1, "one grant was expected, because one of two is left, but there are %d", count(all))
}

func returnedToWaiter(t *trial) {
	last := lastOfTwo(t)
	first, second := t.ask(message(1)), t.ask(message(1))
	t.expect(first.waiting(), "the first behind it was expected to wait, but %s", first)
	last.giveBack(t)
	t.expect(first.granted(), "the first in line was expected to get the place that was returned, but %s", first)
	t.expect(second.waiting(), "the second in line was expected to wait, but %s", second)
}

func released(t *trial) {
	lastOfTwo(t).release(t)
	began := time.Now()
	next := t.ask(message(1))
	t.expect(next.waiting(), "the next was expected to wait until the window is over, but %s", next)
	t.wait(time.Until(began.Add(2*time.Second + t.late(2) + time.Second)))
	t.expect(next.granted(), "the next was expected to go in the next window, but %s", next)
}

func endsAtOnce(t *trial) {
	c := lastOfTwo(t)
	waiting := t.asks(3, message(1))
	began := time.Now()
	c.held().Update(ok("messages", 2, 0, time.Minute))
	took := time.Since(began)
	t.expect(took <= t.late(0), "Update was expected to return at once, but took %v", took)
	t.settle()
	t.expect(count(waiting) == 0, "nobody was expected to go in the used up window, but %d did", count(waiting))
}
