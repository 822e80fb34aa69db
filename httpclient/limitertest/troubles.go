package limitertest

import (
	"net/http"
	"time"
)

// troubles are what may happen to any request, given its number.
var troubles = []struct {
	name   string
	faults func(n int) fault
}{
	{"server errors", every(4, fault{status: http.StatusBadGateway, uncounted: true})},
	{"server errors, counted", every(4, fault{status: http.StatusInternalServerError})},
	{"lost before", every(4, fault{uncounted: true, lost: true})},
	{"lost after", every(4, fault{lost: true})},
	{"no headers", every(4, fault{silent: true})},
	{"slow answers", every(4, fault{delay: 3 * time.Second})},
	{"all of the first", func(n int) fault { return fault{lost: n < 3, uncounted: n < 3} }},
}

// every lets something happen to every n-th request.
func every(n int, f fault) func(int) fault {
	return func(i int) fault {
		if i%n == n-1 {
			return f
		}
		return fault{}
	}
}

func troubleCases() []testCase {
	all := []testCase{{
		name: "trouble/a server error neither fills nor empties", run: errorLeavesCount,
		why: "a 5xx carries no headers and says nothing of the count; it is neither a reset nor a refusal",
	}}
	for _, trouble := range troubles {
		all = append(all, testCase{
			name: "trouble/" + trouble.name, run: func(t *trial) { goesOn(t, trouble.faults) },
			why: "an answer that says nothing, or none at all, may have been counted; it must neither stop the others nor let more go",
		})
	}
	return all
}

func goesOn(t *trial, faults func(n int) fault) {
	w := limited(t, message(1), quota{fixed, 5, time.Second})
	w.faults = faults
	all := w.sends(30, message(1))
	w.finish(40 * time.Second)
	for i, d := range all {
		_, _, err := d.outcome()
		w.expect(err == nil, "number %d was expected to be sent, but its error is %v", i+1, err)
	}
	w.refusedNone()
	w.faults = nil
	w.wait(4 * time.Second)
	w.fullRate()
}

func errorLeavesCount(t *trial) {
	t.tell(message(1), ok("messages", 5, 4, 2*time.Second))
	t.must(message(1), "four of five are left").update(t, plain(http.StatusBadGateway))
	all := t.asks(5, message(1))
	t.expect(count(all) == 3, "three were expected to go, as four of five were left and the 502 may have been counted, but %d did", count(all))
	for _, c := range all {
		c.cancel()
	}
	t.settle()
	for i, c := range all[:3] {
		c.update(t, ok("messages", 5, 2-i, 2*time.Second))
	}
	t.wait(4*time.Second + t.late(1))
	t.must(message(1), "the window is over").giveBack(t)
}
