package discordsim

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFaultsStrikeWhenTheyShould(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		fault Fault
		want  []int
	}{
		{"always", Fault{Status: 500}, []int{500, 500, 500, 500, 500, 500}},
		{"every second", Fault{Status: 500, Every: 2}, []int{200, 500, 200, 500, 200, 500}},
		{"first and fourth", Fault{Status: 404, Nth: []int{1, 4}}, []int{404, 200, 200, 404, 200, 200}},
		{"when", Fault{Status: 401, When: func(call Call) bool { return call.N > 4 }}, []int{200, 200, 200, 200, 401, 401}},
		{"for a while", Fault{Status: 503, From: time.Second, Until: 3 * time.Second}, []int{200, 503, 503, 200, 200, 200}},
		{"two conditions", Fault{Status: 503, From: time.Second, Every: 2}, []int{200, 503, 200, 503, 200, 503}},
	}
	for _, test := range tests {
		for _, world := range []*World{
			messages(t, Rule{Faults: []Fault{test.fault}}),
			messages(t, Rule{}, func(c *Config) { c.Faults = []Fault{test.fault} }),
		} {
			var got []int
			for i := range 6 {
				got = append(got, world.Handle(at(time.Duration(i)*time.Second), post).Status)
			}
			assert.Equal(t, test.want, got, test.name)
		}
	}
}

func TestChanceIsRepeatable(t *testing.T) {
	t.Parallel()
	run := func(seed uint64) []int {
		w := messages(t, Rule{Faults: []Fault{{Status: 500, Probability: 0.3}}}, globalOf(Unlimited()),
			func(c *Config) { c.Seed = seed })
		return statuses(send(w, 0, 1000, post))
	}
	assert.Equal(t, run(1), run(1))
	assert.NotEqual(t, run(1), run(2))
	failed := 0
	for _, status := range run(3) {
		if status == 500 {
			failed++
		}
	}
	assert.InDelta(t, 300, failed, 75) // five standard deviations
}

func TestServerErrorsHaveNoHeadersAndCountUnlessTheyDoNot(t *testing.T) {
	t.Parallel()
	for _, uncounted := range []bool{false, true} {
		w := messages(t, rule(Fixed(3, second), Fault{Status: 502, Nth: []int{1, 2}, Uncounted: uncounted}))
		responses := send(w, 0, 3, post)
		require.Equal(t, []int{502, 502, 200}, statuses(responses))
		assert.Empty(t, headers(responses[0], limitNames...))
		want := "0"
		if uncounted {
			want = "2"
		}
		assert.Equal(t, want, responses[2].Header.Get("X-RateLimit-Remaining"))
		assert.Equal(t, 2, w.Report().Failed)
	}
}

func TestFullBucketRefusesBeforeAFaultCanStrike(t *testing.T) {
	t.Parallel()
	w := messages(t, Rule{Quota: Fixed(1, time.Second), Faults: []Fault{{Status: 500}}})
	assert.Equal(t, []int{500, 429}, statuses(send(w, 0, 2, post)))
}

func TestSpoiltAnswers(t *testing.T) {
	t.Parallel()
	const absent = "absent"
	blank := map[string]string{"x-ratelimit-remaining": ""}
	lie := func(s State) State { s.Limit, s.Remaining = 50_000, 49_999; return s }
	edit := func(_ Call, r *Response) { r.Header = map[string][]string{"Retry-After": {"1e400"}} }
	tests := []struct {
		name  string
		fault Fault
		n     int // number of the answer that is checked
		// The headers of the answer: limit, remaining, reset, reset-after, bucket, retry-after.
		limit, remaining, reset, after, bucket, retry string
	}{
		{"none", Fault{}, 1, "1", "0", "1893456001.000", "1.000", "h", absent},
		{"dropped", NoHeaders(), 1, absent, absent, absent, absent, absent, absent},
		{"garbage", Garbage("NaN"), 1, "NaN", "NaN", "NaN", "NaN", "h", absent},
		{"blank", Fault{Set: blank}, 1, "1", "", "1893456001.000", "1.000", "h", absent},
		{"lie", Fault{State: lie}, 1, "50000", "49999", "1893456001.000", "1.000", "h", absent},
		{"stale", StaleFirst(), 1, "1", "0", "1893456000.000", "0.000", "h", absent},
		{"stale, but not a refusal", StaleFirst(), 2, "1", "0", "1893456001.000", "1.000", "h", "1"},
		{"without reset-after", ResetAlone(), 1, "1", "0", "1893456001.000", absent, "h", absent},
		{"reset in whole seconds", WholeReset(true), 1, "1", "0", "1893456001", absent, "h", absent},
		{"edited", Fault{Edit: edit}, 2, absent, absent, absent, absent, absent, "1e400"},
	}
	for _, test := range tests {
		w := messages(t, Rule{Hash: "h", Quota: Fixed(1, second), Faults: []Fault{test.fault}})
		header := send(w, 0, test.n, post)[test.n-1].Header
		var got []string
		for _, name := range append(limitNames, "Retry-After") {
			if _, found := header[http.CanonicalHeaderKey(name)]; !found {
				got = append(got, absent)
				continue
			}
			got = append(got, header.Get(name))
		}
		want := []string{test.limit, test.remaining, test.reset, test.after, test.bucket, test.retry}
		assert.Equal(t, want, got, test.name)
	}
}

func TestAnswersOfOtherKinds(t *testing.T) {
	t.Parallel()
	w := messages(t, Rule{Body: `{"id":"1"}`, Faults: []Fault{
		{Nth: []int{1}, Status: 202, Body: `{"message":"not yet","code":110000,"retry_after":2}`},
		{Nth: []int{2}, Status: 307, Set: map[string]string{"Location": "/elsewhere"}},
		{Nth: []int{3}, Status: 403},
		{Nth: []int{4}, Connection: ConnectionLostBefore},
		{Nth: []int{5}, Delay: time.Second, BodyDelay: 2 * time.Second},
	}})
	responses := send(w, 0, 6, post)
	assert.Equal(t, []int{202, 307, 403, 0, 200, 200}, statuses(responses))
	assert.Equal(t, 2.0, body(t, responses[0])["retry_after"])
	assert.Equal(t, "/elsewhere", responses[1].Header.Get("Location"))
	assert.Equal(t, "403: Forbidden", body(t, responses[2])["message"])
	assert.Equal(t, time.Second, responses[4].Delay)
	assert.Equal(t, 2*time.Second, responses[4].BodyDelay)
	assert.Equal(t, "1", body(t, responses[5])["id"])
	report := w.Report()
	assert.Equal(t, []int{4, 1, 1, 1}, []int{report.Accepted, report.Failed, report.Lost, report.Invalid})
}
