package soak

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
)

// kept is a result with nothing wrong.
func kept() *Result {
	disturbed := Round{Refused: discordsim.ByClass{User: 1}, Avoidable: discordsim.ByClass{User: 1}, Invalid: 1, Heap: 1 << 20}
	return &Result{
		Options: Options{Length: 10 * time.Minute, witness: &witness{}},
		Made:    10, Outcomes: map[string]int{"answered 2xx": 10},
		Rounds:     []Round{disturbed, {Heap: 2 << 20}, {Kind: undisturbed, Heap: 3 << 20}},
		Goroutines: [2]int{3, 3},
	}
}

func TestABrokenPromiseIsNoticed(t *testing.T) {
	t.Parallel()
	good := kept()
	good.judge()
	require.Empty(t, good.Broken)
	for want, spoil := range map[string]func(*Result){
		"9 requests have 10 outcomes":                func(r *Result) { r.Made = 9 },
		"had its outcome after 7m0s":                 func(r *Result) { r.Longest = 7 * time.Minute },
		"2 times closed":                             func(r *Result) { r.Unexpected = map[string]int{"closed": 2} },
		"avoidable 429s in round 3":                  func(r *Result) { r.Rounds[2].Avoidable.Global = 1 },
		"1 bans":                                     func(r *Result) { r.Rounds[0].Bans = 1 },
		"this was no soak":                           func(r *Result) { r.Rounds[0].Refused = discordsim.ByClass{} },
		"after round 2, 1 requests waited":           func(r *Result) { r.Rounds[1].Stats.Waiting = 1 },
		"in the end 0 requests wait and 1":           func(r *Result) { r.Left.InFlight = 1 },
		"in the end 1 buckets":                       func(r *Result) { r.Left.Buckets = 1 },
		"1 routes":                                   func(r *Result) { r.Left.Routes = 1 },
		"3 goroutines became 4":                      func(r *Result) { r.Goroutines[1] = 4 },
		"the heap grew from 2.00 MB":                 func(r *Result) { r.Rounds[2].Heap = 5 << 20 },
		"the heap grew from 1.00 MB after the warm-": func(r *Result) { r.Rounds[1].Heap, r.Rounds[2].Heap = 6<<20, 6<<20 },
	} {
		r := kept()
		spoil(r)
		r.judge()
		assert.Contains(t, strings.Join(r.Broken, "\n"), want)
		assert.Contains(t, text(t, r), "FAILED: "+r.Broken[0])
	}
}

// text is what people see.
func text(t *testing.T, r *Result) string {
	var out strings.Builder
	require.NoError(t, r.Report().WriteText(&out))
	return out.String()
}

func TestTableEndsWithAVerdict(t *testing.T) {
	t.Parallel()
	r := kept()
	r.judge()
	assert.Contains(t, text(t, r), "10  answered 2xx\n")
	assert.True(t, strings.HasSuffix(text(t, r), "OK: all promises were kept.\n"))
}

func TestAnInterruptedSoakSaysSo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	result, err := Run(ctx, Options{Length: time.Minute})
	require.NoError(t, err)
	assert.True(t, result.Interrupted)
	assert.Contains(t, text(t, result), "INTERRUPTED: ")
}

func TestOutcomesAreToldApart(t *testing.T) {
	t.Parallel()
	status := func(code int) *http.Response { return &http.Response{StatusCode: code} }
	for _, test := range []struct {
		plan     plan
		response *http.Response
		err      error
		kind     string
		expected bool
	}{
		{plan{}, status(204), nil, "answered 2xx", true},
		{plan{}, status(429), nil, "answered 429", false},
		{plan{body: upload}, status(429), nil, "answered 429", true},
		{plan{}, status(200), io.ErrUnexpectedEOF, "the body got lost", true},
		{plan{}, nil, &ratelimits.TooLongError{Deadline: true}, "too long", false},
		{plan{deadline: 1}, nil, &ratelimits.TooLongError{Deadline: true}, "too long", true},
		{plan{}, nil, context.Canceled, "cancelled", false},
		{plan{cancelAfter: 1}, nil, context.Canceled, "cancelled", true},
		{plan{}, nil, context.DeadlineExceeded, "past its deadline", false},
		{plan{}, nil, io.EOF, "connection lost", true},
		{plan{}, nil, buckets.ErrClosed, "something else", false},
		{plan{}, nil, errors.New("surprise"), "something else", false},
	} {
		kind, expected := outcomeOf(test.plan, test.response, test.err)
		assert.Contains(t, kind, test.kind)
		assert.Equal(t, test.expected, expected, "%s: %v", kind, test.err)
	}
}

// The same seed asks the same things at the same times, whatever became of the requests before.
func TestPlansDependOnTheSeedAlone(t *testing.T) {
	t.Parallel()
	draw := func(seed uint64) (plans []plan) {
		for n := range uint64(500) {
			p := (&Round{Kind: disturbed}).draw(seed, n, 0)
			if !strings.Contains(p.path, "/messages/") { // whose ids are times
				plans = append(plans, p)
			}
		}
		return plans
	}
	assert.Equal(t, draw(1), draw(1))
	assert.NotEqual(t, draw(1), draw(2))
}
