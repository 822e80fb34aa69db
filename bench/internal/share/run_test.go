package share

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/bench/internal/report"
)

// short is a scenario that is over soon.
func short(works ...work) Scenario {
	return Scenario{Name: "short", quota: quota, works: works}
}

// alone is one in which nothing is shared.
func alone(works ...work) Scenario {
	s := short(works...)
	s.alone = true
	return s
}

func options() Options { return Options{Processes: 2, Length: 3 * time.Second, Seed: 1} }

func TestRunBringsTogetherWhatBothSidesSaw(t *testing.T) {
	t.Parallel()
	o, done := options(), make(chan struct{}, 10)
	o.Record, o.Done = true, func() { done <- struct{}{} }
	r, err := runScenario(t.Context(), alone(work{{count: 2}}, work{{bucket: 1, count: 1}, {bucket: 2, at: 50 * ms, count: 1}}), o)
	require.NoError(t, err)
	assert.Equal(t, 4, r.requests)
	assert.Equal(t, 4, r.answered)
	assert.Len(t, done, 4)
	assert.Empty(t, r.missed())
	assert.Positive(t, r.efficiency())
	assert.Less(t, r.efficiency(), 1.0)
	assert.Positive(t, r.meanWait)
	served := 0
	for _, second := range r.seconds {
		served += second[0]
	}
	assert.Equal(t, 4, served)
	require.NotNil(t, r.log)
	assert.Equal(t, 4, r.log.Calls)
	require.Len(t, r.log.Passages, 4)
	for _, passage := range r.log.Passages {
		assert.Len(t, passage.Sends, 1)
	}
}

func TestCallsOfTheEngineAreCounted(t *testing.T) {
	t.Parallel()
	newEngine(t)
	r, err := runScenario(t.Context(), short(work{{count: 2}}, work{{count: 2}}), options())
	require.NoError(t, err)
	assert.Equal(t, 4, r.answered)
	assert.Positive(t, r.callsEach())
	assert.Positive(t, r.calls.Time)
}

func TestInterruptedRunIsNotJudged(t *testing.T) {
	t.Parallel()
	newEngine(t)
	ctx, cancel := context.WithCancel(t.Context())
	o, begun := options(), 0
	o.Begin, o.Done = func(string) { begun++ }, cancel // of the first request
	r, err := Run(ctx, o)
	require.NoError(t, err)
	assert.Equal(t, report.Interrupted, r.Verdict.Status)
	assert.Len(t, r.Parts, begun)
	assert.Equal(t, report.Interrupted, r.Parts[0].Verdict.Status)
}

func TestRunEndsWhenOneProcessFails(t *testing.T) {
	t.Parallel()
	s := alone(work{{at: time.Hour, count: 1}}, nil)
	s.accidents = []accident{{at: 100 * ms, begin: func(_ context.Context, r *run) error {
		return r.places[1].process.kill() // nobody wanted that
	}}}
	o := options()
	o.Length = time.Minute
	begin := time.Now()
	_, err := runScenario(t.Context(), s, o)
	require.Error(t, err)
	assert.Regexp(t, "^process [12] ended early: signal: killed", err.Error())
	assert.Less(t, time.Since(begin), 30*time.Second, "what the others still have to do is of no interest")
}

func TestProcessThatCannotOpenWhatItNeedsSaysWhy(t *testing.T) {
	t.Parallel()
	_, err := launch(1, assignment{Discord: "http://127.0.0.1", Engine: "redis://127.0.0.1:1", Application: "x"}, nil)
	assert.ErrorContains(t, err, "process 2 is not ready: ")
	assert.ErrorContains(t, err, "exit status 1: ")
	assert.ErrorContains(t, err, "connection refused")
}

func TestProcessesThatAreEndedAreReplaced(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*process){"killed": (*process).shoot, "restarted": (*process).end} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := alone(work{{}}, work{{bucket: 1, count: 1}, {bucket: 1, at: 100 * ms, count: 1}, {bucket: 1, at: 700 * ms, count: 1}})
			s.accidents = []accident{{at: 300 * ms, until: 300 * ms,
				begin: func(ctx context.Context, r *run) error { return r.replaceFrom(ctx, 0, 0, end) }}}
			o := options()
			r, err := runScenario(t.Context(), s, o)
			require.NoError(t, err)
			assert.Equal(t, r.requests, r.answered, "429s are no wonder where nothing is shared, and are repeated")
			assert.Greater(t, r.requests, 5, "the work goes on")
			assert.Equal(t, o.Length, r.took, "until the end, though others had to go")
			require.Len(t, r.costs, 1)
			assert.Positive(t, r.costs[0].served)
		})
	}
}

func TestEngineIsRolledBackInARun(t *testing.T) {
	t.Parallel()
	newEngine(t)
	s := short(work{{}}, work{{bucket: 1}})
	a := accidents()[3]
	a.at, a.until = 500*ms, 600*ms
	before := accident{at: 200 * ms, until: 200 * ms, begin: func(_ context.Context, r *run) error { return snapshot(r.engine) }}
	s.accidents = []accident{before, a}
	r, err := runScenario(t.Context(), s, options())
	require.NoError(t, err)
	require.Len(t, r.costs, 2)
	assert.Positive(t, r.costs[1].served, "it is used again")
	assert.Equal(t, r.requests, r.answered)
}

func TestScenariosAreFoundByName(t *testing.T) {
	t.Parallel()
	o := Options{Processes: 4, Length: 20 * time.Second}
	all, err := o.Find()
	require.NoError(t, err)
	assert.Equal(t, "one-bucket,own-buckets,foreign-traffic,one-bucket-alone,own-buckets-alone", strings.Join(names(all), ","))
	assert.Equal(t, 100, all[0].Requests(o.Length))
	o.Scenarios = []string{"own-buckets", "one-bucket"}
	two, err := o.Find()
	require.NoError(t, err)
	assert.Equal(t, []string{"one-bucket", "own-buckets"}, names(two))
	o.Scenarios = []string{"none"}
	_, err = o.Find()
	assert.ErrorContains(t, err, `no scenario "none": choose among one-bucket, own-buckets, foreign-traffic, `)
	assert.Len(t, Options{Processes: 1, Length: 20 * time.Second}.all(), 4, "nobody is foreign")
}

// Each accident is over, and what it did has passed, before the next one.
func TestAccidentsDoNotMeet(t *testing.T) {
	t.Parallel()
	o := Options{Processes: 2, Length: LengthOfAccidents, Disturb: true}
	require.Len(t, o.all(), 3)
	for _, s := range o.all() {
		require.Len(t, s.accidents, 5)
		assert.Positive(t, s.Requests(o.Length))
		for i, a := range s.accidents {
			assert.LessOrEqual(t, a.at, a.until)
			next := LengthOfAccidents
			if i+1 < len(s.accidents) {
				next = s.accidents[i+1].at
			}
			assert.Less(t, a.until+s.targets.servedWithin, next)
			assert.LessOrEqual(t, a.until+s.targets.backWithin+wholeWindows(3*time.Second, s.quota.Period), next)
			assert.LessOrEqual(t, a.until+wholeWindows(6*time.Second, s.quota.Period), next, "the rate before the next one is not that of this one")
		}
	}
	o.Outage = "full"
	for _, s := range o.all() {
		assert.True(t, s.targets.anything)
	}
}
