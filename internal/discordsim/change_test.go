package discordsim

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// rollout turns a change into one that begins at 10 s and takes 10 s to reach all servers.
func rollout(change Change) []Change {
	change.At, change.Over = 10*time.Second, 10*time.Second
	return []Change{change}
}

func TestARollOutReachesMoreAndMoreServers(t *testing.T) {
	t.Parallel()
	rule := Rule{Hash: "old", Quota: Fixed(10_000, time.Hour), Changes: rollout(Change{Hash: "new"})}
	w := messages(t, rule, func(c *Config) { c.Global, c.Seed = Unlimited(), 3 })
	share := func(at time.Duration) (share float64) {
		for _, hash := range hashes(send(w, at, 1000, post)) {
			if hash == "new" {
				share += 0.001
			}
		}
		return share
	}
	assert.Zero(t, share(9999*ms))
	assert.Zero(t, share(10*time.Second))
	assert.InDelta(t, 0.2, share(12*time.Second), 0.07) // five standard deviations
	assert.InDelta(t, 0.8, share(18*time.Second), 0.07)
	assert.InDelta(t, 1, share(20*time.Second), 1e-9)
}

// inTurn lets a changed server handle every second request, beginning with the second one. An old server handles the
// others.
func inTurn() func(Call) float64 {
	return func(c Call) float64 { return float64(c.N%2) / 2 } // half of the servers have changed at half time
}

func TestOldAndNewServersCountTogetherOrApart(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change Change
		// The limit is 5. old and new are how many requests the old servers and the changed servers accept. after is how many
		// requests are accepted after the roll-out.
		old, new, after int
		hashes          []string
	}{
		{"the counters of a hash", Change{Hash: "new"}, 5, 5, 0, []string{"new", "old"}},
		{"counters kept", Change{Hash: "new", Counters: CountersKept}, 3, 2, 0, []string{"new", "old"}},
		{"counters apart", Change{Counters: CountersApart}, 5, 5, 0, []string{"old"}},
		{"another limit, the counters of the hash", Change{Quota: Fixed(8, time.Hour)}, 3, 5, 0, []string{"old"}},
	}
	for _, test := range tests {
		w := messages(t, Rule{Hash: "old", Quota: Fixed(5, time.Hour), Changes: rollout(test.change), Server: inTurn()})
		accepted, named := []int{0, 0}, map[string]bool{}
		for i := range 20 {
			response := send(w, 15*time.Second, 1, post)[0]
			if response.Status == 200 {
				accepted[i%2]++
			}
			named[response.Header.Get(headerBucket)] = true
		}
		assert.Equal(t, []int{test.old, test.new}, accepted, test.name)
		assert.ElementsMatch(t, test.hashes, slices.Collect(maps.Keys(named)), test.name)
		assert.Equal(t, test.after, 10-count(send(w, 20*time.Second, 10, post), ClassUser),
			"%s: counted requests stay counted", test.name)
	}
}

// While a change reaches one server after the other, refusals must get the verdicts that the table below lists.
func TestVerdictsInARollOut(t *testing.T) {
	t.Parallel()
	toOld, toNew := post, post
	toOld.Sequence, toNew.Sequence = 1, 2
	byServer := map[string]Request{"old": toOld, "new": toNew, "elsewhere": with(toNew, "/channels/2/messages")}
	server := func(c Call) float64 { return float64(c.Request.Sequence%2) * 0.99 }
	renamed, kept := Change{Hash: "new"}, Change{Hash: "new", Counters: CountersKept}
	smaller := Change{Quota: Fixed(1, 30*second)}
	for _, test := range []struct { // the roll-out ends at 20 s
		name   string
		limit  int
		change Change
		story  story
		want   string
	}{
		{"another hash: one bucket is full, the other is not", 2, renamed,
			"old@15000 old@15100 new@15200 old@15300", "unforeseen"},
		{"another hash: answers have named both buckets, which are full", 2, renamed,
			"old@15000 old@15100 new@15200 new@15300 old@15400 new@15500", "told told"},
		{"another hash: answers have named one bucket, which is full", 2, renamed, "old@15000 old@15100 old@15200", "told"},
		{"another hash: full, but the newest answer, from another channel, names the other bucket", 2, renamed,
			"old@15000 old@15100 elsewhere@15200 old@15300", "unforeseen"},
		{"another hash: again after a 429", 2, renamed,
			"old@15000 old@15100 new@15200 old@15300 old@15400", "unforeseen told"},
		{"another hash: the latest answer named the old hash", 2, renamed,
			"new@15000 new@15100 old@15200 new@20000 new@20100", "unforeseen told"},
		{"another hash: only answers from another channel show that the roll-out is over", 2, renamed,
			"new@15000 new@15100 old@15200 elsewhere@20000 new@20100", "unforeseen"},
		{"another hash: an answer from this channel shows that the roll-out is over", 2, renamed,
			"new@15000 old@15200 new@20000 new@20100", "told"},
		{"the same counters under two hashes: no answer shows that", 2, kept,
			"old@15000 new@15100 old@15200 new@15201", "unforeseen unforeseen"},
		{"the same counters under two hashes: again after a 429", 2, kept,
			"old@15000 new@15100 old@15200 old@15300", "unforeseen told"},
		{"apart under one hash", 2, Change{Counters: CountersApart},
			"old@15000 old@15100 new@15200 old@15300", "unforeseen"},
		{"another limit: no answer has named the new limit", 2, smaller, "old@15000 new@15100", "changed"},
		{"another limit: according to the newest answer, nothing remained", 2, smaller, "new@15000 new@15100", "told"},
		{"another limit: the answer that was made last, by an old server, had named a place", 3, smaller,
			"new@15000 old@15090 new@15200", "changed"},
	} {
		rule := Rule{Hash: "old", Quota: Fixed(test.limit, 30*second), Changes: rollout(test.change), Server: server}
		tell(t, messages(t, rule), byServer, test.story, test.want, test.name)
	}
}
