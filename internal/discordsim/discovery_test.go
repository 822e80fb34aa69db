package discordsim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// to returns a copy of a step with another request.
func (s step) to(method, path string) step {
	s.request = Request{Method: method, Path: path, Authorization: post.Authorization}
	return s
}

// twoOperations returns a world in which reading and writing messages share a bucket.
func twoOperations(t *testing.T, rule Rule) *World {
	t.Helper()
	read, write := rule, rule
	read.Method, write.Method = "GET", "POST"
	read.Path, write.Path = "/channels/{id}/messages", "/channels/{id}/messages"
	return newWorld(t, Config{Rules: []Rule{read, write}})
}

// These are the verdicts when the client may not know which bucket will count a request.
func TestBucketsThatCouldNotBeForeseen(t *testing.T) {
	t.Parallel()
	const one, two = "/channels/1/messages", "/channels/2/messages"
	three := Fixed(3, 10*time.Second)
	byChannel := Rule{Quota: three, Vary: HashByMajor("m")}
	same := Rule{Quota: three, Hash: "m"}
	lost := byChannel
	lost.Faults = []Fault{{
		When: func(c Call) bool { return c.Request.Method == "GET" && c.Elapsed > 100*ms }, Connection: ConnectionLostAfter,
	}}
	lateRead := step{sent: 200 * ms, processed: 250 * ms, answered: 900 * ms}.to("GET", two)
	write := func(sent time.Duration, path string) step { return trip(sent).to("POST", path) }
	read := func(sent time.Duration, path string) step { return trip(sent).to("GET", path) }
	full := []step{ // both operations are known in one channel, and writes have filled the bucket of another
		write(0, one), read(0, one), write(100*ms, two), write(200*ms, two), write(300*ms, two),
	}
	tests := []struct {
		name  string
		rule  Rule
		story []step
		want  []string
	}{
		{"hashes by channel: no answer shows that reads count there, too", byChannel,
			append(full, read(400*ms, two)), []string{becauseUnpredictable}},
		{"hashes by channel: an answer has shown it", byChannel,
			append(full, read(400*ms, two), read(500*ms, two)), []string{becauseUnpredictable, becauseTold}},
		{"hashes by channel: two requests at the same moment", byChannel,
			append(full, read(400*ms, two), read(401*ms, two)), []string{becauseUnpredictable, becauseUnpredictable}},
		{"hashes by channel: more at once than any known channel allows", byChannel,
			[]step{write(0, one), write(100*ms, two), write(101*ms, two), write(102*ms, two), write(103*ms, two)},
			[]string{becauseOwn}},
		{"hashes by channel: answers have named the bucket of the operation", byChannel,
			append(full, write(400*ms, two)), []string{becauseTold}},
		{"one hash: an answer in one channel names it for all", same,
			append(full, read(400*ms, two)), []string{becauseTold}},
		{"an operation never used", same,
			[]step{write(0, one), write(100*ms, one), write(200*ms, one), read(300*ms, one)}, []string{becauseUnpredictable}},
		{"an operation never used, and a second request before the first has been answered", same,
			[]step{write(0, one), write(100*ms, one), write(200*ms, one), read(300*ms, one), read(301*ms, one)},
			[]string{becauseUnpredictable, becauseTold}},
		{"an operation whose first answer named no bucket",
			Rule{Quota: three, Hash: "m", Faults: []Fault{{Status: 502, When: func(c Call) bool { return c.Request.Method == "GET" && c.N == 1 }}}},
			[]step{read(0, one), write(100*ms, one), write(200*ms, one), read(300*ms, one)}, []string{becauseUnpredictable}},
		{"hashes by channel: no answer showed that a read takes a place of the writes", byChannel,
			[]step{write(0, one), read(0, one), write(100*ms, two), read(200*ms, two), write(201*ms, two), write(202*ms, two)},
			[]string{becauseStray}},
		{"hashes by channel: an answer to a write has counted the read", byChannel,
			[]step{write(0, one), read(0, one), write(100*ms, two), lateRead, write(201*ms, two), write(302*ms, two)},
			[]string{becauseTold}},
		{"hashes by channel: the answer to the read was lost", lost,
			[]step{write(0, one), read(0, one), write(100*ms, two), read(200*ms, two), write(201*ms, two), write(202*ms, two)},
			[]string{becauseStray}},
		{"an unknown operation may belong to any bucket", same,
			[]step{write(0, one), read(100*ms, one), write(101*ms, one), write(102*ms, one)}, []string{becauseTold}},
		{"the hash has changed back: older answers no longer count",
			Rule{Quota: three, Hash: "m", Changes: []Change{{At: time.Second, Hash: "n"}, {At: 2 * time.Second, Hash: "m"}}},
			[]step{
				read(0, one), write(0, one), read(1000*ms, one), write(1000*ms, one),
				write(2100*ms, one), read(2101*ms, one), read(2300*ms, one),
			}, []string{becauseUnpredictable, becauseTold}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, reasons := tell(twoOperations(t, test.rule), test.story...)
			assert.Equal(t, test.want, reasons)
		})
	}
}

// An answer that was made before a limit changed does not show the change, however late it is read.
func TestOldAnswersDoNotDescribeANewLimit(t *testing.T) {
	t.Parallel()
	changes := []Change{{At: 10 * time.Second, Quota: Fixed(2, time.Second)}}
	w := messages(t, Rule{Quota: Fixed(4, time.Second), Changes: changes})
	old := w.Handle(at(9800*ms), post)
	w.Handle(at(10*time.Second), post) // the answer, which would show the change, is never delivered
	w.Deliver(old, at(10_100*ms))
	refused := w.Handle(at(10_200*ms), post)
	assert.Equal(t, ClassUser, refused.Class)
	assert.Equal(t, becauseChanged, refused.Because)
}

func TestErrorsMayHaveABucketOfTheirOwn(t *testing.T) {
	t.Parallel()
	missing := func(c Call) int {
		if c.Request.Path == "/channels/1/messages/404" {
			return 404
		}
		return 0
	}
	rule := Rule{
		Path: "/channels/{id}/messages/{id}", Quota: Unlimited(),
		Vary: ErrorBucket("errors", Fixed(2, 10*time.Second), missing),
	}
	good := Request{Method: "GET", Path: "/channels/1/messages/5"}
	bad := Request{Method: "GET", Path: "/channels/1/messages/404"}

	w := newWorld(t, Config{Rules: []Rule{rule}})
	assert.Empty(t, headers(w.Handle(start, good), limitNames...))
	for _, remaining := range []string{"1", "0"} {
		response := w.Handle(start, bad)
		assert.Equal(t, 404, response.Status)
		assert.Equal(t, "errors", response.Header.Get("X-RateLimit-Bucket"))
		assert.Equal(t, "2", response.Header.Get("X-RateLimit-Limit"))
		assert.Equal(t, remaining, response.Header.Get("X-RateLimit-Remaining"))
	}
	refused := w.Handle(start, bad)
	assert.Equal(t, 429, refused.Status)
	assert.Equal(t, "errors", refused.Header.Get("X-RateLimit-Bucket"))
	for range 9 {
		assert.Equal(t, 200, w.Handle(start, good).Status, "successes stay unlimited")
	}

	ask := func(sent time.Duration, request Request) step {
		s := trip(sent)
		s.request = request
		return s
	}
	tests := []struct {
		name  string
		story []step
		want  []string
	}{
		{"a success had no limit, so the next answer may have none",
			[]step{ask(0, good), ask(100*ms, bad), ask(200*ms, bad), ask(300*ms, bad)},
			[]string{becauseUnpredictable}},
		{"only errors, which named none remaining", []step{ask(0, bad), ask(100*ms, bad), ask(200*ms, bad)},
			[]string{becauseTold}},
		{"after a 429, without a newer answer",
			[]step{ask(0, good), ask(100*ms, bad), ask(200*ms, bad), ask(300*ms, bad), ask(400*ms, bad)},
			[]string{becauseUnpredictable, becauseTold}},
		{"after a 429 and a newer success",
			[]step{ask(0, good), ask(100*ms, bad), ask(200*ms, bad), ask(300*ms, bad), ask(301*ms, good), ask(401*ms, bad)},
			[]string{becauseUnpredictable, becauseUnpredictable}},
		{"all at once", []step{ask(0, good), ask(100*ms, bad), ask(100*ms, bad), ask(100*ms, bad)},
			[]string{becauseUnpredictable}},
	}
	for _, test := range tests {
		_, reasons := tell(newWorld(t, Config{Rules: []Rule{rule}}), test.story...)
		assert.Equal(t, test.want, reasons, test.name)
	}
}
