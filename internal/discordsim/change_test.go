package discordsim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// rollout returns a change that begins at 10 s and takes 10 s to reach all servers.
func rollout(change Change) []Change {
	change.At, change.Over = 10*time.Second, 10*time.Second
	return []Change{change}
}

func TestARollOutReachesMoreAndMoreServers(t *testing.T) {
	t.Parallel()
	rule := Rule{Hash: "old", Quota: Fixed(10_000, time.Hour), Changes: rollout(Change{Hash: "new"})}
	w := messages(t, rule, func(c *Config) { c.Global, c.Seed = Unlimited(), 3 })
	share := func(at time.Duration) (share float64) {
		for _, response := range send(w, at, 1000, post) {
			if response.Header.Get("X-RateLimit-Bucket") == "new" {
				share++
			}
		}
		return share / 1000
	}
	assert.Zero(t, share(9999*ms))
	assert.Zero(t, share(10*time.Second))
	assert.InDelta(t, 0.2, share(12*time.Second), 0.07) // five standard deviations
	assert.InDelta(t, 0.8, share(18*time.Second), 0.07)
	assert.Equal(t, 1.0, share(20*time.Second))
}

// inTurn lets servers that have changed handle every second request, beginning with the second one.
func inTurn() func(Call) float64 {
	return func(c Call) float64 { return float64(c.N%2) / 2 } // at half time half of the servers have changed
}

func TestOldAndNewServersCountTogetherOrApart(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change Change
		// The limit is 5. old and new: how many requests the old and the new servers accept; after: how many are
		// accepted later.
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
		accepted, hashes := []int{0, 0}, map[string]bool{}
		for i := range 20 {
			response := send(w, 15*time.Second, 1, post)[0]
			if response.Status == 200 {
				accepted[i%2]++
			}
			hashes[response.Header.Get("X-RateLimit-Bucket")] = true
		}
		assert.Equal(t, []int{test.old, test.new}, accepted, test.name)
		assert.Len(t, hashes, len(test.hashes), test.name)
		for _, hash := range test.hashes {
			assert.True(t, hashes[hash], test.name)
		}
		assert.Equal(t, test.after, 10-count(send(w, 20*time.Second, 10, post), ClassUser),
			"%s: counted requests stay counted", test.name)
	}
}

// These are the verdicts while a change reaches one server after the other.
func TestVerdictsInARollOut(t *testing.T) {
	t.Parallel()
	two := Fixed(2, 30*time.Second)
	numbered := func(s step, sequence int64) step {
		s.request = post
		s.request.Sequence = sequence
		return s
	}
	// Old servers handle requests with odd numbers, new servers those with even numbers.
	bySequence := func(c Call) float64 { return float64(c.Request.Sequence%2) * 0.99 }
	at := func(sent time.Duration, sequence int64) step { return numbered(trip(15*time.Second+sent), sequence) }
	elsewhere := func(s step) step {
		s.request.Path = "/channels/2/messages"
		return s
	}
	later := func(sent time.Duration, sequence int64) step { return numbered(trip(20*time.Second+sent), sequence) }
	tests := []struct {
		name   string
		change Change
		story  []step
		want   []string
	}{
		{"another hash: one bucket is full, the other is not", Change{Hash: "new"},
			[]step{at(0, 1), at(100*ms, 3), at(200*ms, 2), at(300*ms, 5)}, []string{becauseUnpredictable}},
		{"another hash: answers have named both buckets, which are full", Change{Hash: "new"},
			[]step{at(0, 1), at(100*ms, 3), at(200*ms, 2), at(300*ms, 4), at(400*ms, 5), at(500*ms, 6)},
			[]string{becauseTold, becauseTold}},
		{"another hash: answers have named one bucket, which is full", Change{Hash: "new"},
			[]step{at(0, 1), at(100*ms, 3), at(200*ms, 5)}, []string{becauseTold}},
		{"another hash: full, but the newest answer from elsewhere names the other bucket", Change{Hash: "new"},
			[]step{at(0, 1), at(100*ms, 3), elsewhere(at(200*ms, 2)), at(300*ms, 5)}, []string{becauseUnpredictable}},
		{"another hash: again after a 429", Change{Hash: "new"},
			[]step{at(0, 1), at(100*ms, 3), at(200*ms, 2), at(300*ms, 5), at(400*ms, 7)},
			[]string{becauseUnpredictable, becauseTold}},
		{"another hash: the latest answer named the old one", Change{Hash: "new"},
			[]step{at(0, 2), at(100*ms, 4), at(200*ms, 1), later(0, 3), later(100*ms, 5)},
			[]string{becauseUnpredictable, becauseTold}},
		{"another hash: only answers from elsewhere show that the roll-out is over", Change{Hash: "new"},
			[]step{at(0, 2), at(100*ms, 4), at(200*ms, 1), elsewhere(later(0, 2)), later(100*ms, 5)},
			[]string{becauseUnpredictable}},
		{"another hash: an answer from here shows that the roll-out is over", Change{Hash: "new"},
			[]step{at(0, 2), at(200*ms, 1), later(0, 4), later(100*ms, 5)}, []string{becauseTold}},
		{"the same counters under two hashes: no answer shows that", Change{Hash: "new", Counters: CountersKept},
			[]step{at(0, 1), at(100*ms, 2), at(200*ms, 3), at(201*ms, 4)}, []string{becauseUnpredictable, becauseUnpredictable}},
		{"the same counters under two hashes: again after a 429", Change{Hash: "new", Counters: CountersKept},
			[]step{at(0, 1), at(100*ms, 2), at(200*ms, 3), at(300*ms, 5)}, []string{becauseUnpredictable, becauseTold}},
		{"apart under one hash", Change{Counters: CountersApart},
			[]step{at(0, 1), at(100*ms, 3), at(200*ms, 2), at(300*ms, 5)}, []string{becauseUnpredictable}},
		{"another limit: no answer has named the new one", Change{Quota: Fixed(1, 30*time.Second)},
			[]step{at(0, 1), at(100*ms, 2)}, []string{becauseChanged}},
		{"another limit: the newest answer named none remaining", Change{Quota: Fixed(1, 30*time.Second)},
			[]step{at(0, 2), at(100*ms, 4)}, []string{becauseTold}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := messages(t, Rule{Hash: "old", Quota: two, Changes: rollout(test.change), Server: bySequence})
			_, reasons := tell(w, test.story...)
			require.Equal(t, test.want, reasons)
		})
	}
}

// If servers have different limits, a client may believe the answer that was made last.
func TestALimitIsRolledOut(t *testing.T) {
	t.Parallel()
	servers := []float64{0, 0.99, 0} // the server that handles each request
	w := messages(t, Rule{
		Quota: Fixed(3, 30*time.Second), Changes: rollout(Change{Quota: Fixed(1, 30*time.Second)}),
		Server: func(c Call) float64 { return servers[c.N-1] },
	})
	late := step{sent: 15_090 * ms, processed: 15_140 * ms, answered: 15_190 * ms}
	_, reasons := tell(w, trip(15*time.Second), late, trip(15_200*ms))
	assert.Equal(t, []string{becauseChanged}, reasons, "an old server had named one remaining place")
}
