package discordsim

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// The tests in this file are about what compatible servers do, and Discord where its answers lag.

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
		"told by the reset": {[]step{trip(0), trip(100 * ms), trip(200 * ms), trip(200 * ms)}, []string{becauseOwn}},
		// Others have taken the first place. Remaining 2 of 3 is all that the client has read, and one place is left.
		"told by nothing":        {[]step{others(0, 1), trip(0), trip(100 * ms), trip(100 * ms)}, []string{becauseOthers}},
		"a burst never heard of": {[]step{trip(0), trip(0), trip(0), trip(0)}, []string{becauseOwn}},
		"more than Remaining named": {
			[]step{trip(0), trip(100 * ms), trip(100 * ms), trip(100 * ms), trip(100 * ms)}, []string{becauseOwn, becauseOwn},
		},
	} {
		_, reasons := tell(messages(t, Rule{Quota: Lagging(3, 3*second)}), test.story...)
		assert.Equal(t, test.want, reasons, name)
	}
	// The first answer, which does not lag, is lost: the second alone tells nothing of how far a request moves the reset.
	w := messages(t, Rule{Quota: Lagging(3, 30*second), Faults: []Fault{{Nth: []int{1}, Drop: []string{headerLimit}}}})
	verdicts, reasons := tell(w, trip(0), trip(100*ms), trip(200*ms), trip(200*ms), trip(300*ms))
	assert.Equal(t, []string{becauseLag, becauseTold}, reasons)
	assert.Equal(t, []Verdict{Excused, Avoidable}, verdicts)
}

// An answer with nothing remaining and nothing to wait for says nothing: what the client has sent since the reset
// counts.
func TestAStaleFirstAnswerExcusesNothingOnceAWindowIsKnown(t *testing.T) {
	t.Parallel()
	w := messages(t, Rule{Quota: Extending(3, 5*second, 5*second), Faults: []Fault{StaleFirst()}})
	story := slices.Concat(
		[]step{trip(0), trip(100 * ms), trip(200 * ms)},                 // a window until 5.05 s
		[]step{trip(5100 * ms), trip(5200 * ms), trip(5200 * ms)},       // the next one, until 10.15 s
		[]step{trip(5250 * ms), trip(5250 * ms), trip(12 * second)},     // too many: until 25.15 s
		[]step{trip(25_100 * ms), trip(25_200 * ms), trip(25_200 * ms)}, // none is refused
	)
	_, reasons := tell(w, story...)
	assert.Equal(t, []string{becauseOwn, becauseOwn, becauseTold}, reasons)
}

// The longest time that an answer has told is 4.8 s of 5: a client that counts its requests over so long knows no
// better.
func TestAPeriodThatNoAnswerNamedExcuses(t *testing.T) {
	t.Parallel()
	w := messages(t, Rule{Quota: Fixed(2, 5*second), Faults: []Fault{StaleFirst()}})
	_, reasons := tell(w, trip(0), trip(200*ms), // a window until 5.05 s
		trip(5100*ms), trip(9900*ms), trip(9900*ms), // the next one, until 10.15 s
		trip(10_200*ms), trip(10_200*ms), trip(14_900*ms)) // too early even for 4.8 s
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
		get("/guilds/1", second), get("/users/1", 2*second), // both are refused for the first time
		get("/guilds/1", 3*second), get("/users/1", 4*second)) // both know that a refusal in that name is about them
	assert.Equal(t, []Verdict{Unavoidable, Unavoidable, Avoidable, Avoidable}, verdicts)
	assert.Equal(t, []string{becauseOthers, becauseOthers, becauseTold, becauseTold}, reasons)

	refused := w.Handle(at(5*second), get("/users/1", 5*second).request)
	assert.Equal(t, "error", refused.Header.Get(headerBucket))
	assert.Equal(t, "0", refused.Header.Get(headerRemaining))
	assert.Equal(t, "2", refused.Header.Get(headerLimit))
	assert.Equal(t, "10.000", refused.Header.Get(headerResetAfter), "prolonged by five refusals")
	elsewhere := get("/users/1", 0).request
	elsewhere.Address = "other"
	assert.Equal(t, ClassNone, w.Handle(at(5*second), elsewhere).Class)
	again := get("/users/1", 0).request
	assert.Equal(t, []int{429, 200}, statuses(slices.Concat(send(w, 15*second-1, 1, again), send(w, 16*second, 1, again))))
}
