package discordsim

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestInversionsAreAcceptedRequestsThatWereOvertaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{Default: &Rule{Path: "**", Quota: Fixed(6, time.Second)}})
	order := func(path string, numbers ...int64) {
		for _, number := range numbers {
			request := with(post, path)
			request.Sequence = number
			w.Handle(start, request)
		}
	}
	order("/channels/1/messages", 1, 3, 2, 0, 5, 4, 6, 1) // 2 and 4 were overtaken; the last two are refused
	order("/channels/2/messages", 9, 10)
	order("/channels/2/messages", 8)
	report := w.Report()
	require.Len(t, report.Buckets, 2)
	assert.Equal(t, 2, report.Buckets[0].Inversions)
	assert.Equal(t, 1, report.Buckets[1].Inversions)
	assert.Equal(t, 3, report.Inversions)
}

func TestReportPerBucket(t *testing.T) {
	t.Parallel()
	w := messages(t, Rule{Hash: "h", Quota: Fixed(2, time.Second)})
	send(w, 0, 3, post)
	send(w, time.Second, 1, with(post, "/channels/2/messages"))
	w.Handle(at(3*time.Second), Request{Method: "GET", Path: "/gateway"})
	report := w.Report()
	assert.Equal(t, 5, report.Requests)
	assert.Equal(t, 4, report.Accepted)
	assert.Equal(t, ByClass{User: 1}, report.Refused)
	assert.True(t, report.First.Equal(start))
	assert.True(t, report.Last.Equal(at(3*time.Second)))
	assert.Len(t, report.Buckets, 3)
	assert.Contains(t, report.Buckets, BucketReport{
		Hash: "h", Major: "1", Authorization: digest("Bot a"), Quota: Fixed(2, time.Second),
		Tally: Tally{Accepted: 2, Refused: ByClass{User: 1}, Avoidable: ByClass{User: 1}},
	})
	assert.NotContains(t, fmt.Sprint(report, w.Events()), "Bot a", "a report contains no credential")
}

func TestRecentEventsAreARing(t *testing.T) {
	t.Parallel()
	var seen []Event
	w := messages(t, Rule{Quota: Fixed(1, time.Second)}, func(c *Config) {
		c.Observe = func(event Event) { seen = append(seen, event) }
	})
	w.events.size, w.refusals.size = 3, 3
	for i := range 5 {
		request := post
		request.Sequence = int64(i + 1)
		w.Handle(at(time.Duration(i)*400*ms), request)
	}
	sequences := func(events []Event) (list []int64) {
		for _, event := range events {
			list = append(list, event.Sequence)
		}
		return list
	}
	assert.Equal(t, []int64{3, 4, 5}, sequences(w.Events()))
	assert.Equal(t, []int64{2, 3, 5}, sequences(w.Refusals()))
	assert.Equal(t, []int64{1, 2, 3, 4, 5}, sequences(seen))
	assert.Equal(t, []int{1, 0, 0, 2, 0},
		[]int{seen[0].Accepted, seen[1].Accepted, seen[2].Accepted, seen[3].Accepted, seen[4].Accepted})
}

func TestManyInteractionsDoNotFillTheMemory(t *testing.T) {
	t.Parallel()
	const many, n = 256, 4000
	w := newWorld(t, Config{Default: &Rule{
		Path: "**", Quota: Fixed(5, time.Second), SubLimits: []SubLimit{{Quota: Leaky(5, time.Second)}},
	}})
	w.sweepFrom, w.sweepAt = many, many
	for i := range n {
		w.Handle(at(time.Duration(i)*time.Second),
			Request{Method: "POST", Path: fmt.Sprintf("/webhooks/1/%s%d", interactionToken, i)})
	}
	report := w.Report()
	assert.Less(t, len(report.Buckets), 2*many)
	assert.Equal(t, n, report.Accepted)
	sum := 0
	for _, bucket := range report.Buckets {
		sum += bucket.Accepted
	}
	assert.Equal(t, n, sum, "the report includes evicted buckets")
	assert.Positive(t, report.Buckets[0].Evicted)
	assert.Less(t, len(w.gates), 2*many)
}

func TestABucketInUseIsNotSwept(t *testing.T) {
	t.Parallel()
	w := messages(t, Rule{Quota: Fixed(1, time.Hour)}, func(c *Config) { c.Global = Unlimited() })
	w.sweepFrom, w.sweepAt = 256, 256
	w.Handle(start, post)
	for i := range 1000 {
		w.Handle(at(30*time.Minute), Request{Method: "GET", Path: fmt.Sprintf("/channels/%d", i)})
	}
	assert.Equal(t, 429, w.Handle(at(59*time.Minute), post).Status)
}

func BenchmarkHandle(b *testing.B) {
	w := messages(b, Rule{Quota: Sliding(5, time.Second)}, func(c *Config) { c.Global = Unlimited() })
	b.ReportAllocs()
	now := start
	for b.Loop() {
		now = now.Add(200 * ms)
		w.Deliver(w.Handle(now, post), now.Add(10*ms))
	}
}
