package processes

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/bench/internal/load"
)

// short is a scenario that is over soon.
func short(works []Work) Scenario {
	return Scenario{Name: "short", work: func(Settings) []Work { return works }}
}

func inProcess() Settings {
	return Settings{Processes: 2, Length: 3 * time.Second, Seed: 1, launch: fake(Child)}
}

func TestRunBringsTogetherWhatBothSidesSaw(t *testing.T) {
	t.Parallel()
	settings, done := inProcess(), make(chan struct{}, 10)
	settings.Done = func() { done <- struct{}{} }
	var traced load.Trace
	works := []Work{{Callers: []Caller{{Count: 2}}}, {Offers: []Offer{{Bucket: 1}, {Bucket: 2, At: 50 * time.Millisecond}}}}
	result, err := Run(t.Context(), short(works), nil, settings, &traced)
	require.NoError(t, err)
	assert.Equal(t, 4, result.Requests)
	assert.Equal(t, 4, result.Answered)
	assert.Len(t, done, 4)
	assert.Empty(t, result.Missed)
	assert.False(t, result.Interrupted)
	assert.False(t, result.Shared)
	assert.Equal(t, 2, result.Processes)
	assert.Positive(t, result.Certain())
	assert.Less(t, result.Certain(), 1.0)
	assert.Zero(t, result.Refused.Total())
	assert.Positive(t, result.Stalled, "everything takes time")
	served := 0
	for _, second := range result.Seconds {
		served += second.Served
	}
	assert.Equal(t, 4, served)
	log := traced.Log()
	assert.Len(t, log.Passages, 4)
	assert.Len(t, log.Calls, 4)
	for _, passage := range log.Passages {
		assert.Len(t, passage.Sends, 1)
	}
}

func TestOneProcessDoesTheWorkOfAll(t *testing.T) {
	t.Parallel()
	s := short([]Work{{Offers: []Offer{{}}}, {Offers: []Offer{{Bucket: 1}}}})
	s.alone = true
	result, err := Run(t.Context(), s, nil, inProcess(), nil)
	require.NoError(t, err)
	assert.Equal(t, 1, result.Processes)
	assert.Equal(t, 2, result.Answered)
}

func TestInterruptedRunIsNotJudged(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	settings := inProcess()
	settings.Done = cancel // of the first
	result, err := Run(ctx, short([]Work{{Offers: []Offer{{}, {At: time.Hour}}}}), nil, settings, nil)
	require.NoError(t, err)
	assert.True(t, result.Interrupted)
	assert.Equal(t, []string{"interrupted"}, result.Missed)
	assert.Equal(t, 1, result.Answered)
}

func TestRunWithAProcessThatFailsIsAnError(t *testing.T) {
	t.Parallel()
	settings := inProcess()
	for want, child := range map[string]func(io.Reader, io.Writer) error{
		"process 1: no luck": func(stdin io.Reader, stdout io.Writer) error {
			_, err := io.WriteString(stdout, `{"failed":"no luck"}`+"\n")
			_, _ = io.Copy(io.Discard, stdin)
			return err
		},
		"process 1: ended early: exit status 2": func(stdin io.Reader, stdout io.Writer) error {
			_, _ = io.WriteString(stdout, `{"ready":true}`+"\n")
			_, _ = stdin.Read(make([]byte, 1))
			return errors.New("exit status 2")
		},
	} {
		settings.launch = fake(child)
		_, err := Run(t.Context(), short([]Work{{Offers: []Offer{{}}}}), nil, settings, nil)
		assert.ErrorContains(t, err, want)
	}
	settings.launch = func() (io.WriteCloser, io.Reader, func(), func() error, error) {
		return nil, nil, nil, nil, errors.New("no more processes")
	}
	_, err := Run(t.Context(), short([]Work{{}}), nil, settings, nil)
	assert.ErrorContains(t, err, "process 1 cannot be started: no more processes")
}

func TestRunEndsWhenOneProcessFails(t *testing.T) {
	t.Parallel()
	settings, launched := inProcess(), 0
	settings.launch = func() (io.WriteCloser, io.Reader, func(), func() error, error) {
		launched++
		if launched == 1 {
			return fake(Child)()
		}
		return fake(func(stdin io.Reader, stdout io.Writer) error {
			_, _ = io.WriteString(stdout, `{"ready":true}`+"\n")
			_ = read(stdin, func(c command) {
				if c.Start != 0 {
					_, _ = io.WriteString(stdout, "panic: oh no\n")
				}
			})
			return errors.New("exit status 2")
		})()
	}
	begin := time.Now()
	_, err := Run(t.Context(), short([]Work{{Offers: []Offer{{At: time.Hour}}}, {}}), nil, settings, nil)
	assert.ErrorContains(t, err, `process 2: expected JSON in a line, got "panic: oh no"`)
	assert.Less(t, time.Since(begin), 30*time.Second, "what the others still have to do is of no interest")
}

func TestScenariosAreFoundByName(t *testing.T) {
	t.Parallel()
	settings := Settings{Processes: 4, Length: DefaultLength}
	all, err := Find("", settings)
	require.NoError(t, err)
	assert.Len(t, all, 5)
	for _, s := range all {
		found, err := Find(s.Name, settings)
		require.NoError(t, err)
		assert.Equal(t, s.Name, found[0].Name)
		assert.Positive(t, s.Requests(settings))
		assert.NotEmpty(t, s.Targets.List())
	}
	assert.Equal(t, 100, all[0].Requests(settings))
	_, err = Find("none", settings)
	assert.ErrorContains(t, err, `no scenario "none": choose one of one-bucket, own-buckets, foreign-traffic, `)

	for _, s := range Scenarios(Settings{Processes: 2, Length: LengthOfAccidents, Disturb: true, Outage: "full"}) {
		assert.True(t, s.Targets.Anything)
	}
	assert.Len(t, Scenarios(Settings{Processes: 1, Length: DefaultLength}), 4, "nobody is foreign")
	disturbed := Scenarios(Settings{Processes: 2, Length: LengthOfAccidents, Disturb: true})
	require.Len(t, disturbed, 3)
	for _, s := range disturbed {
		require.Len(t, s.accidents, 5)
		h := happenings{period: s.limit().Period}
		assert.Positive(t, s.Requests(settings))
		for i, a := range s.accidents {
			assert.LessOrEqual(t, a.at, a.until)
			next := LengthOfAccidents
			if i+1 < len(s.accidents) {
				next = s.accidents[i+1].at
			}
			assert.Less(t, a.until+s.Targets.ServedWithin, next)
			assert.LessOrEqual(t, a.until+s.Targets.BackWithin+h.settled(), next)
			assert.LessOrEqual(t, a.until+h.steady(), next, "the rate before the next one is not that of this one")
			assert.True(t, a.prepare == nil || a.prepareAt < a.at)
		}
	}
}

func TestResultIsJudgedByItsTargets(t *testing.T) {
	t.Parallel()
	good := Result{
		Scenario: Scenario{Targets: Targets{Certain: 0.97, CallsEach: 0.1, InOrder: true}}, Length: DefaultLength,
		Requests: 100, Answered: 100, Took: 20 * time.Second, Ideal: Ideal{Took: 19600 * time.Millisecond}, Calls: Effort{Calls: 10}, Pairs: 50,
	}
	for name, test := range map[string]struct {
		change func(*Result)
		want   []string
	}{
		"good":                      {func(*Result) {}, nil},
		"slow":                      {func(r *Result) { r.Took = 21 * time.Second }, []string{"0.9333 of the certain ideal, at least 0.97 wanted"}},
		"slow, short":               {func(r *Result) { r.Took, r.Length = 21*time.Second, 3*time.Second }, nil},
		"talkative":                 {func(r *Result) { r.Calls.Calls = 11 }, []string{"0.110 engine calls per request, at most 0.10 wanted"}},
		"disorder":                  {func(r *Result) { r.Inverted = 1 }, []string{"inverted pairs from the second window on: 1 of 50, none wanted"}},
		"refused":                   {func(r *Result) { r.Refused.User = 2 }, []string{"429s: 2, none wanted"}},
		"refused after an accident": {func(r *Result) { r.Refused.User, r.Accidents = 2, []Accident{{Refused: 2, allowed: 2}} }, nil},
		"refused too often": {func(r *Result) {
			r.Refused.User, r.Accidents = 3, []Accident{{Name: "x", Refused: 3, Avoidable: 3, allowed: 2}}
		},
			[]string{"x: 3 429s, 3 of them avoidable, at most 2 wanted"}},
		"failed": {func(r *Result) { r.Answered, r.Errors = 98, map[string]int{"away": 2} },
			[]string{"not answered: 2 of 100 requests", "2 ended with: away"}},
	} {
		result := good
		test.change(&result)
		result.judge()
		assert.Equal(t, test.want, result.Missed, name)
		assert.Len(t, result.NotJudged(), map[bool]int{true: 2}[name == "slow, short"], name)
	}
}

func TestCallsAreThoseOfTheTimeTheyFallInto(t *testing.T) {
	t.Parallel()
	const s = time.Second
	r := &run{engine: &Engine{}, samples: []sample{
		{0, Effort{100, s}}, {0, Effort{100, s}}, {s, Effort{110, 2 * s}}, {3 * s, Effort{130, 3 * s}}, {4 * s, Effort{131, 4 * s}},
	}, records: []Record{{Sends: []Send{{At: 1}}}, {Sends: []Send{{At: 3 * s}}}, {Sends: []Send{{At: 4 * s}}}, {}}}
	result := Result{Requests: 31, Took: 4 * s}
	r.efforts(&result)
	assert.Equal(t, Effort{31, 3 * s}, result.Calls)
	assert.Equal(t, Effort{1, s}, result.Late)
	assert.Equal(t, 2, result.LateRequests)
	all, late := result.CallsEach()
	assert.Equal(t, []float64{1, 0.5}, []float64{all, late})

	seconds := r.seconds(4*s+s/2, happenings{served: []time.Duration{0, s, s}})
	require.Len(t, seconds, 5)
	assert.Equal(t, Second{Served: 1, Calls: 10}, seconds[0])
	assert.Equal(t, Second{Served: 2, Calls: 10}, seconds[1], "the sample between is missing")
	assert.Equal(t, Second{Calls: 10}, seconds[2])
	assert.NotEqual(t, seconds[4].Calls, seconds[4].Calls, "not a number")
}

func TestQuantiles(t *testing.T) {
	t.Parallel()
	var all []time.Duration
	for n := range 100 {
		all = append(all, time.Duration(100-n))
	}
	q, mean := quantiles(all)
	assert.Equal(t, []time.Duration{50, 90, 99, 100, 50}, []time.Duration{q.Median, q.P90, q.P99, q.Max, mean})
	q, mean = quantiles(nil)
	assert.Zero(t, q)
	assert.Zero(t, mean)
}

// without is an accident that needs no engine.
func without(ends func(int) []int, begin func(context.Context, *run) error) accident {
	return accident{
		name: "x", at: 300 * time.Millisecond, until: 300 * time.Millisecond, ends: ends,
		begin: begin, end: func(context.Context, *run) error { return nil },
	}
}

func TestProcessesThatAreEndedAreReplaced(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		ends []int
		stop func(int, *worker)
	}{
		"killed":    {[]int{1}, func(_ int, w *worker) { w.shoot() }},
		"restarted": {[]int{0, 1}, func(_ int, w *worker) { w.end() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			works := []Work{{Callers: []Caller{{}}}, {Offers: []Offer{{Bucket: 1}, {Bucket: 1, At: 100 * time.Millisecond}, {Bucket: 1, At: 700 * time.Millisecond}}}}
			s := short(works)
			s.accidents = []accident{without(func(int) []int { return test.ends }, func(ctx context.Context, r *run) error { return r.replaceAll(ctx, test.ends, test.stop) })}
			settings := inProcess()
			settings.Length = 1500 * time.Millisecond
			settings.launch = fake(Child)
			result, err := Run(t.Context(), s, nil, settings, nil)
			require.NoError(t, err)
			assert.Zero(t, result.Unanswered(), "429s are no wonder where nothing is shared, and are repeated")
			require.Len(t, result.Accidents, 1)
			accident := result.Accidents[0]
			assert.GreaterOrEqual(t, accident.Served, time.Duration(0))
			assert.Less(t, accident.Served, 1200*time.Millisecond)
			assert.Greater(t, result.Requests, 5, "the work goes on")
			assert.Equal(t, 1500*time.Millisecond, result.Took, "until the end, though others had to go")
		})
	}
}

func TestProcessThatCannotBeReplacedEndsTheRun(t *testing.T) {
	t.Parallel()
	s := short([]Work{{Callers: []Caller{{}}}})
	settings, launched := inProcess(), 0
	settings.Length = time.Minute
	settings.launch = func() (io.WriteCloser, io.Reader, func(), func() error, error) {
		if launched++; launched > 1 {
			return nil, nil, nil, nil, errors.New("no more processes")
		}
		return fake(Child)()
	}
	s.accidents = []accident{without(half, func(ctx context.Context, r *run) error {
		return r.replaceAll(ctx, []int{0}, func(_ int, w *worker) { w.shoot() })
	})}
	begin := time.Now()
	_, err := Run(t.Context(), s, nil, settings, nil)
	assert.ErrorContains(t, err, "x: process 2 cannot be started: no more processes")
	assert.Less(t, time.Since(begin), 30*time.Second)
}

func TestEngineIsRolledBackInARun(t *testing.T) {
	t.Parallel()
	s := short([]Work{{Callers: []Caller{{}}}, {Callers: []Caller{{Bucket: 1}}}})
	for _, a := range accidents() {
		if a.prepare != nil {
			a.prepareAt, a.at, a.until = 200*time.Millisecond, 500*time.Millisecond, 600*time.Millisecond
			s.accidents = append(s.accidents, a)
		}
	}
	require.Len(t, s.accidents, 1)
	result, err := Run(t.Context(), s, newEngine(t), inProcess(), nil)
	require.NoError(t, err)
	require.Len(t, result.Accidents, 1)
	assert.Positive(t, result.Accidents[0].Served, "it is used again")
	assert.Zero(t, result.Unanswered())
}
