package discordsim

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// The tests in this file are about compatible servers, and about Discord where its answers lag.

func TestRemainingLagsWhileResetAfterIsTrue(t *testing.T) {
	t.Parallel()
	w := messages(t, Rule{Quota: Lagging(3, 3*second)})
	var remaining, reset []string
	for _, response := range send(w, 0, 4, post) {
		remaining = append(remaining, response.Header.Get(headerRemaining))
		reset = append(reset, response.Header.Get(headerResetAfter))
	}
	assert.Equal(t, []string{"2", "2", "1", "0"}, remaining)
	assert.Equal(t, []string{"1.000", "2.000", "3.000", "3.000"}, reset)
}

func TestVerdictsOnRemainingThatLags(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		story []step
		want  []string
	}{
		// Two answers have been read: each request moves the reset by a second.
		"the reset shows it": {[]step{trip(0), trip(100 * ms), trip(200 * ms), trip(200 * ms)}, []string{becauseOwn}},
		// Another client has taken the first place. The client has read only Remaining 2 of 3, but one place is left.
		"no answer shows it": {[]step{others(0, 1), trip(0), trip(100 * ms), trip(100 * ms)},
			[]string{becauseOthers}},
		"a burst on an unknown bucket": {[]step{trip(0), trip(0), trip(0), trip(0)}, []string{becauseOwn}},
		"more than Remaining named": {
			[]step{trip(0), trip(100 * ms), trip(100 * ms), trip(100 * ms), trip(100 * ms)}, []string{becauseOwn, becauseOwn},
		},
	} {
		_, reasons := tell(messages(t, Rule{Quota: Lagging(3, 3*second)}), test.story...)
		assert.Equal(t, test.want, reasons, name)
	}
	// The first answer, which does not lag, is lost. The second alone does not show how far a request moves the reset.
	w := messages(t, Rule{Quota: Lagging(3, 30*second), Faults: []Fault{{Nth: []int{1}, Drop: []string{headerLimit}}}})
	verdicts, reasons := tell(w, trip(0), trip(100*ms), trip(200*ms), trip(200*ms), trip(300*ms))
	assert.Equal(t, []string{becauseLag, becauseTold}, reasons)
	assert.Equal(t, []Verdict{Excused, Avoidable}, verdicts)
}

// An answer with nothing remaining and a reset after 0 seconds says nothing about the window: the client must count the
// requests that it has sent since the last reset.
func TestAStaleFirstAnswerExcusesNothingOnceAWindowIsKnown(t *testing.T) {
	t.Parallel()
	w := messages(t, Rule{Quota: Extending(3, 5*second, 5*second), Faults: []Fault{StaleFirst()}})
	story := slices.Concat(
		[]step{trip(0), trip(100 * ms), trip(200 * ms)},                 // the first window, until 5.05 s
		[]step{trip(5100 * ms), trip(5200 * ms), trip(5200 * ms)},       // the second window, until 10.15 s
		[]step{trip(5250 * ms), trip(5250 * ms), trip(12 * second)},     // two too many, which extend it to 25.15 s
		[]step{trip(25_100 * ms), trip(25_200 * ms), trip(25_200 * ms)}, // the next window: none is refused
	)
	_, reasons := tell(w, story...)
	assert.Equal(t, []string{becauseOwn, becauseOwn, becauseTold}, reasons)
}

// The longest time to a reset that an answer has named is 4.8 s; the period is 5 s. A client that counts its requests
// over 4.8 s is excused.
func TestAPeriodThatNoAnswerNamedExcuses(t *testing.T) {
	t.Parallel()
	w := messages(t, Rule{Quota: Fixed(2, 5*second), Faults: []Fault{StaleFirst()}})
	_, reasons := tell(w, trip(0), trip(200*ms), // the first window, until 5.05 s
		trip(5100*ms), trip(9900*ms), trip(9900*ms), // the second window, until 10.15 s
		trip(10_200*ms), trip(10_200*ms), trip(14_900*ms)) // the last is too early even with a period of 4.8 s
	assert.Equal(t, []string{becausePeriod, becauseTold}, reasons)
}

func TestEveryURLMayHaveAHashOfItsOwn(t *testing.T) {
	t.Parallel()
	rule := Rule{Path: "/channels/{id}/messages/{id}", Quota: Fixed(1, second), Vary: HashByPath("url ")}
	w := newWorld(t, Config{Rules: []Rule{rule}})
	hashes := make(map[string]bool)
	for _, path := range []string{"/channels/1/messages/1", "/channels/1/messages/2", "/channels/2/messages/1"} {
		response := send(w, 0, 1, with(post, path))[0]
		assert.Equal(t, ClassNone, response.Class)
		hashes[response.Header.Get(headerBucket)] = true
		assert.Equal(t, ClassUser, send(w, 0, 1, with(post, path))[0].Class)
	}
	assert.Len(t, hashes, 3)
}

func TestErrorsOfAnAddressAreLimitedOnAllRoutes(t *testing.T) {
	t.Parallel()
	limit := &ErrorLimit{Name: "error", Quota: Extending(2, 10*second, second)}
	missing := func(call Call) Variant {
		if call.op.raw[len(call.op.raw)-1] == "404" {
			return Variant{Status: http.StatusNotFound}
		}
		return Variant{}
	}
	w := newWorld(t, Config{Rules: []Rule{
		{Method: "GET", Path: "/users/{id}", Errors: limit, Vary: missing},
		{Method: "GET", Path: "/guilds/{id}", Errors: limit, Quota: Fixed(5, second), Vary: missing},
	}})
	get := func(path string, sent time.Duration) step {
		s := trip(sent)
		s.request = Request{Method: "GET", Path: path, Authorization: "Bot a"}
		return s
	}
	a := get("/users/404", 0)
	response := w.Handle(at(0), a.request)
	assert.Equal(t, http.StatusNotFound, response.Status)
	assert.Empty(t, response.Header.Get(headerBucket))
	assert.Equal(t, ClassNone, w.Handle(at(0), get("/users/1", 0).request).Class, "a success is not counted")

	verdicts, reasons := tell(w, get("/guilds/404", 100*ms), // the second error
		get("/guilds/1", second), get("/users/1", 2*second), // the first refusal of each operation
		get("/guilds/1", 3*second), get("/users/1", 4*second)) // the client knows that this limit applies to both
	assert.Equal(t, []Verdict{Unavoidable, Unavoidable, Avoidable, Avoidable}, verdicts)
	assert.Equal(t, []string{becauseOthers, becauseOthers, becauseTold, becauseTold}, reasons)

	refused := w.Handle(at(5*second), get("/users/1", 5*second).request)
	assert.Equal(t, "error", refused.Header.Get(headerBucket))
	assert.Equal(t, "0", refused.Header.Get(headerRemaining))
	assert.Equal(t, "2", refused.Header.Get(headerLimit))
	assert.Equal(t, "10.000", refused.Header.Get(headerResetAfter), "five refusals have prolonged the block")
	elsewhere := get("/users/1", 0).request
	elsewhere.Address = "other"
	assert.Equal(t, ClassNone, w.Handle(at(5*second), elsewhere).Class)
	again := get("/users/1", 0).request
	assert.Equal(t, []int{429, 200}, statuses(slices.Concat(send(w, 15*second-1, 1, again), send(w, 16*second, 1, again))))
}
