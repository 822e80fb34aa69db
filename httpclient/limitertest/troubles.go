package limitertest

import (
	"net/http"
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// troubles lists what may happen to any request.
var troubles = []struct {
	name string
	discordsim.Fault
}{
	{"server errors", discordsim.Fault{Every: 4, Status: http.StatusBadGateway, Uncounted: true}},
	{"server errors, counted", discordsim.Fault{Every: 4, Status: http.StatusInternalServerError}},
	{"lost before", discordsim.Fault{Every: 4, Connection: discordsim.ConnectionLostBefore}},
	{"lost after", discordsim.Fault{Every: 4, Connection: discordsim.ConnectionLostAfter}},
	{"no headers", withoutHeaders(4)},
	{"slow answers", discordsim.Fault{Every: 4, Delay: 3 * time.Second}},
	{"all of the first", discordsim.Fault{Nth: []int{1, 2, 3}, Connection: discordsim.ConnectionLostBefore}},
}

func withoutHeaders(every int) discordsim.Fault {
	f := discordsim.NoHeaders()
	f.Every = every
	return f
}

func troubleCases() []testCase {
	all := []testCase{{
		name: "trouble/a server error neither fills nor empties", run: errorLeavesCount,
		why: "a 5xx carries no headers and says nothing of the count; it is neither a reset nor a refusal",
	}}
	for _, trouble := range troubles {
		all = append(all, testCase{
			name: "trouble/" + trouble.name, run: func(t *trial) { goesOn(t, trouble.Fault) },
			why: "an answer that says nothing, or none at all, may have been counted; it must neither stop the others nor let more go",
		})
	}
	return all
}

func goesOn(t *trial, fault discordsim.Fault) {
	w := limited(t, message(1), discordsim.Fixed(5, time.Second))
	w.script(fault)
	all := w.sends(30, message(1))
	w.finish(40 * time.Second)
	for i, d := range all {
		_, _, err := d.outcome()
		w.expect(err == nil, "number %d was expected to be sent, but its error is %v", i+1, err)
	}
	w.refusedNone()
	w.script()
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
