package discordsim

import (
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
		w := messages(t, Rule{Faults: []Fault{{Status: 500, Probability: 0.3}}}, func(c *Config) { c.Seed, c.Global = seed, Unlimited() })
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
		w := messages(t, Rule{Quota: Fixed(3, time.Second), Faults: []Fault{{Status: 502, Nth: []int{1, 2}, Uncounted: uncounted}}})
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
	set := func(name, value string) Fault { return Fault{Set: map[string]string{name: value}} }
	tests := []struct {
		name  string
		fault Fault
		n     int // number of the answer that is checked
		want  map[string]string
	}{
		{"dropped", NoHeaders(), 1, map[string]string{}},
		{"garbage", Garbage("NaN"), 1, map[string]string{
			"X-RateLimit-Limit": "NaN", "X-RateLimit-Remaining": "NaN", "X-RateLimit-Reset": "NaN",
			"X-RateLimit-Reset-After": "NaN", "X-RateLimit-Bucket": "h",
		}},
		{"blank", set("x-ratelimit-remaining", ""), 1, map[string]string{
			"X-RateLimit-Limit": "1", "X-RateLimit-Remaining": "", "X-RateLimit-Reset": "1893456001.000",
			"X-RateLimit-Reset-After": "1.000", "X-RateLimit-Bucket": "h",
		}},
		{"lie", Fault{State: func(s State) State { s.Limit, s.Remaining = 50_000, 49_999; return s }}, 1, map[string]string{
			"X-RateLimit-Limit": "50000", "X-RateLimit-Remaining": "49999", "X-RateLimit-Reset": "1893456001.000",
			"X-RateLimit-Reset-After": "1.000", "X-RateLimit-Bucket": "h",
		}},
		{"stale", StaleFirst(), 1, map[string]string{
			"X-RateLimit-Limit": "1", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1893456000.000",
			"X-RateLimit-Reset-After": "0.000", "X-RateLimit-Bucket": "h",
		}},
		{"stale, but not a refusal", StaleFirst(), 2, map[string]string{
			"X-RateLimit-Limit": "1", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1893456001.000",
			"X-RateLimit-Reset-After": "1.000", "X-RateLimit-Bucket": "h",
			"Retry-After": "1",
		}},
		{"without reset-after", ResetAlone(), 1, map[string]string{
			"X-RateLimit-Limit": "1", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1893456001.000",
			"X-RateLimit-Bucket": "h",
		}},
		{"reset in whole seconds", WholeReset(true), 1, map[string]string{
			"X-RateLimit-Limit": "1", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1893456001", "X-RateLimit-Bucket": "h",
		}},
		{"edited", Fault{Edit: func(_ Call, r *Response) { r.Header = map[string][]string{"Retry-After": {"1e400"}} }}, 2, map[string]string{
			"Retry-After": "1e400",
		}},
	}
	for _, test := range tests {
		w := messages(t, Rule{Hash: "h", Quota: Fixed(1, time.Second), Faults: []Fault{test.fault}})
		response := send(w, 0, test.n, post)[test.n-1]
		assert.Equal(t, test.want, headers(response, append(limitNames, "Retry-After")...), test.name)
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
	assert.Equal(t, 4, report.Accepted)
	assert.Equal(t, 1, report.Failed)
	assert.Equal(t, 1, report.Lost)
	assert.Equal(t, 1, report.Invalid)
}
