package output

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/bench/internal/meter"
	"github.com/ratelight/ratelight/bench/internal/processes"
	"github.com/ratelight/ratelight/internal/discordsim"
)

var ofProcesses = processes.Settings{Processes: 4, Length: 20 * second, Seed: 7}

// shared are results of each kind: good, missed, without an engine, and with accidents.
func shared() []processes.Result {
	scenarios := processes.Scenarios(ofProcesses)
	accidents := processes.Scenarios(processes.Settings{Processes: 4, Length: 40 * second, Disturb: true})
	queued := meter.Queued{Median: 7300 * ms, P90: 8 * second, P99: 8350 * ms, Max: 9 * second}
	return []processes.Result{{
		Scenario: scenarios[0], Processes: 4, Length: 20 * second, Requests: 100, Answered: 100, Errors: map[string]int{}, Took: 19800 * ms,
		Ideal: processes.Ideal{Took: 19400 * ms}, Queued: queued, MeanWait: 6250 * ms, Pairs: 3000,
		Shared: true, Calls: processes.Effort{Calls: 320, Took: 9 * ms}, Late: processes.Effort{Calls: 150, Took: 4 * ms}, LateRequests: 50,
		Seconds: []processes.Second{{Served: 5, Calls: 16}, {Served: 5, Refused: 1, Errors: 2, Calls: math.NaN()}},
	}, {
		Scenario: scenarios[1], Processes: 4, Length: 20 * second, Requests: 2600, Answered: 2598, Errors: map[string]int{"EOF": 2}, Took: 20100 * ms,
		Ideal: processes.Ideal{Took: 20 * second, MeanWait: 62 * ms}, Queued: meter.Queued{Median: 90 * time.Microsecond, P99: 800 * ms}, MeanWait: 70 * ms,
		Refused: discordsim.ByClass{User: 1}, Avoidable: discordsim.ByClass{User: 1}, Shared: true, Calls: processes.Effort{Calls: 130, Took: 100 * ms},
		Stalled: 2700 * ms,
		Missed:  []string{"not answered: 2 of 2600 requests", "2 ended with: EOF", "429s: 1, none wanted"},
	}, {
		Scenario: scenarios[3], Processes: 1, Length: 20 * second, Requests: 100, Answered: 100, Errors: map[string]int{}, Took: 19600 * ms,
		Ideal: processes.Ideal{Took: 19400 * ms}, Queued: queued, MeanWait: 6 * second,
	}, {
		Scenario: accidents[0], Processes: 4, Length: 40 * second, Requests: 160, Answered: 160, Errors: map[string]int{}, Took: 40 * second,
		Queued: queued, MeanWait: 6 * second, Pairs: 4000, Inverted: 2, Shared: true, Calls: processes.Effort{Calls: 500, Took: 10 * ms},
		Accidents: []processes.Accident{
			{Name: "a process is killed", At: 8 * second, Until: 8 * second, Before: 5, Lost: 4.4, Back: 1420 * ms, Served: 310 * ms, Seconds: []int{5, 5, 3, 3, 5}},
			{Name: "the engine is frozen for 3 s", At: 16 * second, Until: 19 * second, Before: 14.0 / 3, Lost: 17, Back: -1, Served: -1, Refused: 3, Avoidable: 2, RefusedBuckets: 1, Errors: 3, Seconds: []int{5, 5, 0, 0, 0, 5},
				Missed: []string{"the engine is frozen for 3 s: 3 429s, 2 of them avoidable, none wanted", "the engine is frozen for 3 s: the rate was back never, after 5s wanted"}},
		},
		Missed: []string{"the engine is frozen for 3 s: 3 429s, 2 of them avoidable, none wanted", "the engine is frozen for 3 s: the rate was back never, after 5s wanted"},
	}}
}

func TestProcessesForPeople(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	Processes(&b, ofProcesses, shared())
	golden(t, "processes.txt", b.Bytes())
	for line := range strings.Lines(b.String()) {
		assert.LessOrEqual(t, utf8.RuneCountInString(line), 165, line)
	}
}

func TestProcessesForPrograms(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	require.NoError(t, ProcessesJSON(&b, ofProcesses, shared()))
	golden(t, "processes.json", b.Bytes())
	b.Reset()
	require.NoError(t, ProcessesJSON(&b, ofProcesses, nil))
	assert.Equal(t, "[]\n", b.String())
}

func TestVerdictsOfProcesses(t *testing.T) {
	t.Parallel()
	good := shared()[:1]
	last := func(results []processes.Result) string {
		var b bytes.Buffer
		Processes(&b, ofProcesses, results)
		lines := strings.Split(strings.TrimSpace(b.String()), "\n")
		return lines[len(lines)-1]
	}
	assert.Equal(t, "OK: 1 scenario reached all targets.", last(good))
	assert.Equal(t, "FAILED: 2 of 4 scenarios missed a target.", last(shared()))

	short := shared()[:3]
	short[0].Length, short[1] = 3*second, short[2]
	assert.Equal(t, "OK: nothing was missed, but 1 of 3 scenarios was too short to be judged by all targets.", last(short))
	var b bytes.Buffer
	Processes(&b, ofProcesses, short)
	assert.Contains(t, b.String(), "one-bucket: not judged, as that takes runs of 10 s: 0.97 of the certain ideal\n")
	assert.Regexp(t, `one-bucket .* short\n`, b.String())
	b.Reset()
	require.NoError(t, ProcessesJSON(&b, ofProcesses, short))
	assert.Contains(t, b.String(), `"0.97 of the certain ideal"
    ],
    "verdict"`)

	cutOff := shared()[:1]
	cutOff[0].Interrupted = true
	assert.Equal(t, "INTERRUPTED: what was cut off is not judged.", last(cutOff))

	full := processes.Settings{Processes: 2, Length: 40 * second, Disturb: true, Outage: "full"}
	good[0].Scenario = processes.Scenarios(full)[0]
	assert.Equal(t, "OK: this shows what the policy for outages costs, and nothing is judged.", last(good))
}

func TestListOfProcesses(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	ProcessesList(&b, ofProcesses, processes.Scenarios(ofProcesses))
	assert.Contains(t, b.String(), "one-bucket              100  all processes with 10 callers each on one bucket")
	b.Reset()
	require.NoError(t, ProcessesListJSON(&b, ofProcesses, processes.Scenarios(ofProcesses)))
	assert.Contains(t, b.String(), `"no pairs inverted from the second window on"`)
	assert.NotContains(t, b.String(), `"requests_estimated": true`)

	disturbed := processes.Settings{Processes: 4, Length: 40 * second, Disturb: true}
	b.Reset()
	ProcessesList(&b, disturbed, processes.Scenarios(disturbed))
	assert.Contains(t, b.String(), "one-bucket    about 200  all")
	b.Reset()
	require.NoError(t, ProcessesListJSON(&b, disturbed, processes.Scenarios(disturbed)))
	assert.Contains(t, b.String(), `"requests_estimated": true`)
}
