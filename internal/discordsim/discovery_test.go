package discordsim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// The operations that read and write messages share a bucket, and the client does not always know which bucket will
// count a request. The refusals must get the verdicts that the table below lists.
func TestBucketsThatCouldNotBeForeseen(t *testing.T) {
	t.Parallel()
	const path = "/channels/{id}/messages"
	three := Fixed(3, 10*second)
	byChannel, same := Rule{Quota: three, Vary: HashByMajor("m")}, Rule{Quota: three, Hash: "m"}
	lost := byChannel
	lost.Faults = []Fault{{
		When: func(c Call) bool { return c.Request.Method == "GET" && c.Elapsed > 100*ms }, Connection: ConnectionLostAfter,
	}}
	failing := rule(three, Fault{Status: 502, When: func(c Call) bool { return c.Request.Method == "GET" && c.N == 1 }})
	failing.Hash = "m"
	back := Rule{Quota: three, Hash: "m", Changes: []Change{{At: second, Hash: "n"}, {At: 2 * second, Hash: "m"}}}
	named := map[string]Request{
		"read": by("GET", "/channels/1/messages"), "write": by("POST", "/channels/1/messages"),
		"read2": by("GET", "/channels/2/messages"), "write2": by("POST", "/channels/2/messages"),
	}
	// The client has used both operations in one channel, and its writes have filled the bucket of another channel.
	const full = "write@0 read@0 write2@100 write2@200 write2@300 "
	for _, test := range []struct {
		name  string
		rule  Rule
		story story
		want  string
	}{
		{"hashes by channel: no answer shows that it counts reads, too", byChannel, full + "read2@400", "unforeseen"},
		{"hashes by channel: an answer shows that it does", byChannel, full + "read2@400 read2@500", "unforeseen told"},
		{"hashes by channel: two requests at the same moment", byChannel,
			full + "read2@400 read2@401", "unforeseen unforeseen"},
		{"hashes by channel: more at once than any known channel allows", byChannel,
			"write@0 write2@100 write2@101 write2@102 write2@103", "own"},
		{"hashes by channel: answers have named the bucket of the operation", byChannel, full + "write2@400", "told"},
		{"one hash: an answer in one channel names it for all", same, full + "read2@400", "told"},
		{"an operation never used", same, "write@0 write@100 write@200 read@300", "unforeseen"},
		{"an operation never used, and a second request before the first has been answered", same,
			"write@0 write@100 write@200 read@300 read@301", "unforeseen told"},
		{"an operation whose first answer named no bucket", failing, "read@0 write@100 write@200 read@300", "unforeseen"},
		{"hashes by channel: no answer showed that a read takes a place of the writes", byChannel,
			"write@0 read@0 write2@100 read2@200 write2@201 write2@202", "stray"},
		{"hashes by channel: an answer to a write has counted the read", byChannel,
			"write@0 read@0 write2@100 read2@200/250/900 write2@201 write2@302", "told"},
		{"hashes by channel: the answer to the read was lost", lost,
			"write@0 read@0 write2@100 read2@200 write2@201 write2@202", "stray"},
		{"an unknown operation may belong to any bucket", same, "write@0 read@100 write@101 write@102", "told"},
		{"the hash has changed back: older answers no longer count", back,
			"read@0 write@0 read@1000 write@1000 write@2100 read@2101 read@2300", "unforeseen told"},
	} {
		read, write := test.rule, test.rule
		read.Method, read.Path, write.Method, write.Path = "GET", path, "POST", path
		tell(t, newWorld(t, Config{Rules: []Rule{read, write}}), named, test.story, test.want, test.name)
	}
}

// An answer that was made before a limit changed does not show the change, even if it is read after the change.
func TestOldAnswersDoNotDescribeANewLimit(t *testing.T) {
	t.Parallel()
	changes := []Change{{At: 10 * time.Second, Quota: Fixed(2, time.Second)}}
	w := messages(t, Rule{Quota: Fixed(4, time.Second), Changes: changes})
	old := w.Handle(at(9800*ms), post)
	w.Handle(at(10*time.Second), post) // the answer would show the change, but is never delivered
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

	named := map[string]Request{"good": good, "bad": bad}
	for _, test := range []struct {
		name  string
		story story
		want  string
	}{
		{"a success had no limit, so the next answer may have none", "good@0 bad@100 bad@200 bad@300", "unforeseen"},
		{"only errors, and the last one said that nothing remained", "bad@0 bad@100 bad@200", "told"},
		{"after a 429, without a newer answer", "good@0 bad@100 bad@200 bad@300 bad@400", "unforeseen told"},
		{"after a 429 and a newer success",
			"good@0 bad@100 bad@200 bad@300 good@301 bad@401", "unforeseen unforeseen"},
		{"all at once", "good@0 bad@100x3", "unforeseen"},
	} {
		tell(t, newWorld(t, Config{Rules: []Rule{rule}}), named, test.story, test.want, test.name)
	}
}
