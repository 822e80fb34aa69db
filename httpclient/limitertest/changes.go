package limitertest

import (
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
)

func foreignCases() []testCase {
	return []testCase{
		{
			name: "foreign/a lower count is adopted", run: lowerCountAdopted,
			why: "fewer left than the own count says proves that somebody else uses the bucket, too",
		},
		{
			name: "foreign/costs one refusal", run: foreignDrain,
			why: "nobody can know what others with the same credential have sent, until the first 429 says it; a second one could be avoided",
		},
		{
			name: "foreign/steady", run: foreignSteady,
			why: "somebody else who sends all the time must neither stop this client nor make it draw one 429 after another",
		},
	}
}

func lowerCountAdopted(t *trial) {
	t.tell(message(1), ok("messages", 10, 9, 2*time.Second))
	answered := t.must(message(1), "nine of ten are left").update(t, ok("messages", 10, 2, 2*time.Second))
	all := t.asks(4, message(1))
	t.expect(count(all) == 2, "two were expected to go, as the answer says that two are left, but %d did", count(all))
	all[0].update(t, ok("messages", 10, 0, 2*time.Second-time.Since(answered)))
	all[1].update(t, ok("messages", 10, 0, 2*time.Second-time.Since(answered)))
	t.expect(count(all) == 2, "nobody else was expected to go, as the window is used up, but %d have gone", count(all))
	t.grantedAfter(all[2], answered, 2*time.Second, "the third")
}

func foreignDrain(t *trial) {
	w := limited(t, message(1), discordsim.Fixed(5, time.Second))
	w.sends(1, message(1))
	w.finish(10 * time.Second)
	w.foreign(request(message(1)), 5)
	w.sends(1, message(1))
	w.wait(100 * time.Millisecond)
	w.sends(12, message(1))
	w.finish(20 * time.Second)
	w.acceptedAll(w.sent, "all")
	refused := w.tally().refused
	w.expect(refused <= 1, "one 429 was expected at the most, but there were %d", refused)
}

func foreignSteady(t *trial) {
	w := limited(t, message(1), discordsim.Fixed(5, time.Second))
	w.all.Add(1)
	over := make(chan struct{})
	w.background(func() {
		defer w.all.Done()
		for w.sleep(600 * time.Millisecond) {
			select {
			case <-over:
				return
			default:
				w.foreign(request(message(1)), 1)
			}
		}
	})
	all := w.sends(40, message(1))
	for elapsed := time.Duration(0); elapsed < time.Minute; elapsed += 100 * time.Millisecond {
		if done, _, _ := all[len(all)-1].outcome(); done {
			break
		}
		w.wait(100 * time.Millisecond)
	}
	close(over)
	w.finish(20 * time.Second)
	w.acceptedAll(all, "all")
	refused := w.tally().refused
	w.expect(refused <= 10, "a 429 now and then was expected, at most 10 for 40 requests, but there were %d", refused)
}

func changeCases() []testCase {
	return []testCase{
		{
			name: "change/of the hash while many wait", one: true, run: hashChange,
			why: "hashes change with every deployment of Discord's; those who wait follow to the new bucket, none lost, none twice, in order",
		},
		{
			name: "change/of the hash of one of two routes", one: true, run: hashOfOneRoute,
			why: "two routes of one bucket part when one of them names another hash, and only that one moves",
		},
		{
			name: "change/of the limit", run: limitChange,
			why: "limits change without notice; a lower one is kept from the first answer that names it",
		},
	}
}

func hashChange(t *trial) {
	w := limited(t, message(1), discordsim.Fixed(10, time.Second))
	n := 110
	if w.realTime {
		n = 40
	}
	all := w.sends(n, message(1))
	w.wait(1500 * time.Millisecond)
	w.set(request(message(1)), rule{discordsim.Fixed(10, time.Second), "renamed"})
	w.delivered(time.Minute, all, "all")
	tally := w.tally()
	w.expect(tally.accepted == n, "each of %d requests was expected to be sent once, but Discord saw %+v", n, tally)
	w.inOrder(all)
}

func hashOfOneRoute(t *trial) {
	t.tell(message(1), ok("one", 5, 4, 2*time.Second))
	t.tell(history(1), ok("one", 5, 3, 2*time.Second))
	t.must(history(1), "three of five are left").update(t, ok("two", 5, 0, 10*time.Second))
	t.expect(t.waits(request(history(1))), "the route that names another hash has used up its bucket, so it was expected to wait")
	t.must(message(1), "the other route stays where it was, with three of five left").giveBack(t)
}

func limitChange(t *trial) {
	w := limited(t, message(1), discordsim.Fixed(10, time.Second))
	w.sends(10, message(1))
	w.finish(10 * time.Second)
	w.wait(2 * time.Second)
	w.set(request(message(1)), rule{discordsim.Fixed(3, time.Second), "messages"})
	w.sends(1, message(1))
	w.wait(100 * time.Millisecond)
	w.sends(9, message(1))
	w.delivered(20*time.Second, w.sent, "all")
}

func memoryCases() []testCase {
	const why = "who forgets a bucket that is used up sends into it, and draws a 429 that could be avoided"
	return []testCase{
		{name: "memory/while somebody waits", long: true, run: rememberWaiting, why: why},
		{name: "memory/while nobody does", long: true, run: rememberIdle, why: why},
		{name: "memory/while a request is in flight", long: true, run: rememberInFlight, why: why},
		{name: "memory/of a hold", long: true, run: rememberHold, why: why},
	}
}

func rememberWaiting(t *trial) {
	answered := t.tell(message(1), ok("messages", 5, 0, 100*time.Second))
	first := t.ask(message(1))
	for range 9 {
		t.wait(10 * time.Second)
		t.expect(first.waiting(), "it was expected to wait for 100s, but %s", first)
		t.expect(t.waits(request(message(1))), "whoever comes later was expected to wait, too")
	}
	t.grantedAfter(first, answered, 100*time.Second, "the one that waits")
}

func rememberIdle(t *trial) {
	answered := t.tell(message(1), ok("messages", 5, 0, 100*time.Second))
	t.wait(90 * time.Second)
	t.grantedAfter(t.ask(message(1)), answered, 100*time.Second, "the one that comes after 90s")
}

func rememberInFlight(t *trial) {
	t.tell(message(1), ok("messages", 1, 0, time.Second))
	t.wait(2 * time.Second)
	c := t.must(message(1), "the window is over")
	t.wait(90 * time.Second)
	t.expect(t.waits(request(message(1))), "the next was expected to wait, as the only one that is allowed is in flight, and may be counted at any moment")
	c.update(t, ok("messages", 1, 0, time.Second))
	t.expect(t.waits(request(message(1))), "it was expected to wait, as it was counted now")
}

func rememberHold(t *trial) {
	t.tell(message(1), ok("messages", 5, 4, time.Second))
	c := t.must(message(1), "four of five are left")
	t.wait(10 * time.Millisecond)
	answered := c.update(t, refusedBy("shared", "messages", 5, 3, 100*time.Second))
	t.wait(90 * time.Second)
	t.grantedAfter(t.ask(message(1)), answered, 100*time.Second, "the one that comes after 90s")
}
