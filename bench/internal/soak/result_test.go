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
func kept() Result {
	return Result{
		Config:  Config{Length: 10 * time.Minute, Virtual: true},
		Started: 10, Ended: 10, Outcomes: map[string]int{"answered 2xx": 10}, Invalid: 1, LargestInvalid: 1,
		Storm:       discordsim.Tally{Refused: discordsim.ByClass{User: 1}, Avoidable: discordsim.ByClass{User: 1}},
		Checkpoints: []Checkpoint{{Heap: 1 << 20}, {Heap: 2 << 20}, {Heap: 3 << 20}},
		Goroutines:  [2]int{3, 3},
	}
}

func TestABrokenPromiseIsNoticed(t *testing.T) {
	t.Parallel()
	good := kept()
	good.judge()
	require.Empty(t, good.Broken)
	for want, spoil := range map[string]func(*Result){
		"10 requests have 9 outcomes":                func(r *Result) { r.Ended = 9 },
		"no outcome within":                          func(r *Result) { r.Late = 1 },
		"2 times closed":                             func(r *Result) { r.Unexpected = map[string]int{"closed": 2} },
		"1 bodies were not closed":                   func(r *Result) { r.Open = 1 },
		"1 avoidable 429s in calm rounds":            func(r *Result) { r.Calm.Avoidable.Global = 1 },
		"121 invalid responses":                      func(r *Result) { r.LargestInvalid = 121 },
		"1 bans":                                     func(r *Result) { r.Bans = 1 },
		"this was no soak":                           func(r *Result) { r.Storm = discordsim.Tally{} },
		"after round 1, 1 requests waited":           func(r *Result) { r.Checkpoints[1].Waiting = 1 },
		"in the end 0 requests wait and 1":           func(r *Result) { r.Left.InFlight = 1 },
		"in the end 1 buckets":                       func(r *Result) { r.Left.Buckets = 1 },
		"1 routes":                                   func(r *Result) { r.Left.Routes = 1 },
		"3 goroutines became 4":                      func(r *Result) { r.Goroutines[1] = 4 },
		"the heap grew from 2.00 MB":                 func(r *Result) { r.Checkpoints[2].Heap = 5 << 20 },
		"the heap grew from 1.00 MB after the warm-": func(r *Result) { r.Checkpoints[1].Heap, r.Checkpoints[2].Heap = 6<<20, 6<<20 },
		"token in log":                               func(r *Result) { r.Found = []string{"log: …"} },
	} {
		r := kept()
		spoil(&r)
		r.judge()
		assert.Contains(t, strings.Join(r.Broken, "\n"), want)
		var out strings.Builder
		r.Write(&out)
		assert.Contains(t, out.String(), "broken: ")
		assert.Contains(t, out.String(), "FAILED: ")
	}
}

func TestTableEndsWithAVerdict(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	kept().Write(&out)
	assert.Contains(t, out.String(), "10  answered 2xx\n")
	assert.True(t, strings.HasSuffix(out.String(), "OK: all promises were kept.\n"))
}

func TestAnInterruptedSoakSaysSo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	result, err := Run(ctx, Config{Length: time.Minute})
	require.NoError(t, err)
	assert.True(t, result.Interrupted)
	var out strings.Builder
	result.Write(&out)
	assert.True(t, strings.HasSuffix(out.String(), "INTERRUPTED\n"))
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
		{plan{once: true}, status(429), nil, "answered 429", true},
		{plan{}, status(200), io.ErrUnexpectedEOF, "the body got lost", true},
		{plan{}, nil, &ratelimits.TooLongError{Deadline: true}, "too long", false},
		{plan{deadline: 1}, nil, &ratelimits.TooLongError{Deadline: true}, "too long", true},
		{plan{}, nil, context.Canceled, "cancelled", false},
		{plan{cancelled: true}, nil, context.Canceled, "cancelled", true},
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
		s := &soak{Config: Config{Seed: seed}}
		for n := range uint64(500) {
			p := s.draw(n, weather{storm: true}, 0)
			if !strings.Contains(p.path, "/messages/") { // whose ids are times
				plans = append(plans, p)
			}
		}
		return plans
	}
	assert.Equal(t, draw(1), draw(1))
	assert.NotEqual(t, draw(1), draw(2))
}

func TestBodiesAreCountedUntilTheyAreClosed(t *testing.T) {
	t.Parallel()
	l := &ledger{}
	base := l.below(roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{Body: io.NopCloser(strings.NewReader("x"))}, nil
	}))
	body := l.request(strings.NewReader("x"))
	response, err := base.RoundTrip(nil)
	require.NoError(t, err)
	assert.Equal(t, 2, l.open())
	require.NoError(t, response.Body.Close())
	require.NoError(t, response.Body.Close())
	require.NoError(t, body.Close())
	assert.Zero(t, l.open())
}

func TestInvalidResponsesAreCountedInEveryPeriod(t *testing.T) {
	t.Parallel()
	c := &invalidCount{period: time.Minute}
	began := time.Now()
	for i, e := range []discordsim.Event{
		{Status: 401}, {Status: 403}, {Status: 429, Class: discordsim.ClassUser}, {Status: 429, Class: discordsim.ClassShared}, {Status: 200}, {Status: 404},
		{Status: 429, Class: discordsim.ClassEdge},
	} {
		e.At = began.Add(time.Duration(i) * 15 * time.Second)
		c.observe(e)
	}
	assert.Equal(t, 4, c.total())
	assert.Equal(t, 3, c.most())
}
