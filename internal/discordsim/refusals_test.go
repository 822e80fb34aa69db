package discordsim

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// wait returns the times that a 429 has in its header and in its body. A missing time is nil.
func wait(t *testing.T, response *Response) (header, inBody any) {
	t.Helper()
	require.Equal(t, http.StatusTooManyRequests, response.Status)
	if values := response.Header["Retry-After"]; len(values) > 0 {
		header = values[0]
	}
	return header, body(t, response)["retry_after"]
}

func TestRefusalsAreWrittenInManyWays(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name         string
		faults       []Fault
		header, body any
		scope        string
	}{
		{"Discord's", nil, "1", 0.91, "user"},
		{"without a scope", []Fault{WithoutScope()}, "1", 0.91, ""},
		{"milliseconds in the body", []Fault{MillisecondBodies(false)}, "1", 910.0, "user"},
		{"milliseconds in the body, decimals in the header", []Fault{MillisecondBodies(true)}, "0.91", 910.0, "user"},
		{"header until the bucket is empty", []Fault{HeadersUntilFull()}, "6", 0.91, "user"},
		{"no time", []Fault{WithoutRetryAfter()}, nil, nil, "user"},
		{"an old server", []Fault{WithoutScope(), MillisecondBodies(true), HeadersUntilFull()}, "0.91", 910.0, ""},
	}
	for _, test := range tests {
		w := messages(t, Rule{Hash: "h", Quota: Sliding(2, 10*time.Second), Faults: test.faults})
		send(w, 0, 1, post)
		send(w, 5*time.Second, 1, post)
		refused := send(w, 9090*ms, 1, post)[0]
		header, inBody := wait(t, refused)
		assert.Equal(t, test.header, header, test.name)
		assert.Equal(t, test.body, inBody, test.name)
		assert.Equal(t, test.scope, refused.Header.Get("X-RateLimit-Scope"), test.name)
		assert.Equal(t, "h", refused.Header.Get("X-RateLimit-Bucket"), test.name)
	}

	w := messages(t, Rule{
		Quota: Fixed(5, time.Second), Shared: &SharedLimit{Quota: Fixed(1, 1163*time.Second), Code: 20029},
		Faults: []Fault{ShortHeaders()},
	})
	refused := send(w, 0, 2, post)[1]
	header, inBody := wait(t, refused)
	assert.Equal(t, "1", header)
	assert.Equal(t, 1163.0, inBody)
	assert.Equal(t, 20029.0, body(t, refused)["code"], "the rest of the body stays")
}

func TestFaultsThatLetOthersApplyComeTogether(t *testing.T) {
	t.Parallel()
	set := func(value string) map[string]string { return map[string]string{"X-Fault": value} }
	oneMore := func(s State) State { s.Limit++; return s }
	w := messages(t, Rule{
		Quota: Fixed(2, time.Second),
		Faults: []Fault{
			{Also: true, Nth: []int{1}, Set: set("first"), Body: "a", Delay: time.Second},
			{Also: true, Drop: []string{"x-fault"}, Status: 500, Delay: second, State: oneMore},
			{Nth: []int{2}, Set: set("last"), Body: "b"},
			{Set: set("never"), Uncounted: true, Nth: []int{2}},
		},
	}, func(c *Config) {
		c.Faults = []Fault{{Set: set("world"), Status: 404, State: func(s State) State { s.Limit *= 10; return s }}}
	})
	responses := send(w, 0, 3, post)

	assert.Equal(t, 500, responses[0].Status, "a field that only one fault sets takes effect")
	assert.Equal(t, "first", responses[0].Header.Get("X-Fault"),
		"if two faults contradict each other, the earlier one decides")
	assert.Equal(t, "a", string(responses[0].Body))
	assert.Equal(t, 2*time.Second, responses[0].Delay)

	assert.Empty(t, responses[1].Header.Get("X-Fault"))
	assert.Equal(t, "b", string(responses[1].Body), "a fault without Also is the last one")

	assert.Equal(t, 429, responses[2].Status, "request 2 was counted: the fault that says otherwise comes too late")
	assert.Equal(t, "21", responses[2].Header.Get("X-RateLimit-Limit"), "the later fault changes the state first")
}
