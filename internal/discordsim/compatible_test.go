package discordsim

import (
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The tests in this file simulate servers that are compatible with Discord's API, and answers of Discord whose
// Remaining lags.

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

func TestVerdictsOnCompatibleServers(t *testing.T) {
	t.Parallel()
	lagging, twoStale := rule(Lagging(3, 3*second)), rule(Fixed(2, 5*second), StaleFirst())
	for _, test := range []struct {
		name  string
		rule  Rule
		story story
		want  string
	}{
		// The client has read two answers. They show that each request moves the reset by one second.
		{"Remaining lags, but the reset shows it", lagging, "0 100 200x2", "own"},
		// Another client has taken the first place. One place is left, but the client has read only that 2 of 3 remain.
		{"Remaining lags, and no answer shows it", lagging, "others@0 0 100x2", "others"},
		{"Remaining lags, a burst on an unknown bucket", lagging, "0x4", "own"},
		{"Remaining lags, and the client sends more requests than it named", lagging, "0 100x4", "own own"},
		// The first answer, which does not lag, names no limit, so the client learns nothing from it. The second answer alone
		// does not show by how much a request moves the reset.
		{"Remaining lags, and the first answer names no limit",
			rule(Lagging(3, 30*second), Fault{Nth: []int{1}, Drop: []string{headerLimit}}),
			"0 100 200x2 300", "lag told"},

		// An answer that says that nothing remains and that the reset is in 0 seconds says nothing about the present window.
		// So the client must count the requests that it has sent since the last reset. The first window ends at 5.05 s. The
		// second window would end at 10.15 s, but three refusals extend it by 5 s each, to 25.15 s.
		{"a stale first answer excuses nothing once a window is known", rule(Extending(3, 5*second, 5*second), StaleFirst()),
			"0 100 200 5100 5200x2 5250x2 12000 25100 25200x2", "own own told"},
		// The longest time to a reset that an answer has named is 4.8 s, but the period is 5 s. A client that counts its
		// requests over 4.8 s is excused. The last request would be too early even if the period were 4.8 s.
		{"no answer has named the whole period", twoStale, "0 200 5100 9900x2 10200x2 14900", "period told"},
	} {
		tell(t, messages(t, test.rule), nil, test.story, test.want, test.name)
	}
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
	user, guild := by("GET", "/users/1"), by("GET", "/guilds/1")
	response := w.Handle(at(0), by("GET", "/users/404"))
	assert.Equal(t, http.StatusNotFound, response.Status)
	assert.Empty(t, response.Header.Get(headerBucket))
	assert.Equal(t, ClassNone, w.Handle(at(0), user).Class, "a success is not counted")

	// After the second error, the first refusal of each operation is not the client's fault. After these refusals the
	// client knows that the limit applies to both operations.
	named := map[string]Request{"error": by("GET", "/guilds/404"), "guild": guild, "user": user}
	tell(t, w, named, "error@100 guild@1000 user@2000 guild@3000 user@4000", "others others told told", "errors")

	refused := w.Handle(at(5*second), user)
	want := map[string]string{headerBucket: "error", headerRemaining: "0", headerLimit: "2", headerResetAfter: "10.000"}
	got := headers(refused, headerBucket, headerRemaining, headerLimit, headerResetAfter)
	assert.Equal(t, want, got, "five refusals have prolonged the block")
	elsewhere := user
	elsewhere.Address = "other"
	assert.Equal(t, ClassNone, w.Handle(at(5*second), elsewhere).Class)
	assert.Equal(t, []int{429, 200}, statuses(slices.Concat(send(w, 15*second-1, 1, user), send(w, 16*second, 1, user))))
}
