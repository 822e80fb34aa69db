package output

import (
	"time"

	"github.com/ratelight/ratelight/bench/internal/load"
	"github.com/ratelight/ratelight/bench/internal/processes"
	"github.com/ratelight/ratelight/bench/internal/scenario"
	"github.com/ratelight/ratelight/bench/internal/tune"
)

// What other forms of output share with the text: the same numbers should look the same everywhere.

// Seconds shows a time that was measured.
func Seconds(d time.Duration) string { return seconds(d) }

// Setting shows a time that was asked for.
func Setting(d time.Duration) string { return setting(d) }

// Part shows an efficiency.
func Part(x float64) string { return part(x) }

// Long shows a time that may be hours.
func Long(d time.Duration) string { return long(d) }

// Percent shows a part of the whole.
func Percent(x float64) string { return percent(x) }

// Measures are what was measured in a load: a name, a value and a remark each, or three empty texts as a division.
func Measures(result load.Result) [][]string { return measures(result).rows }

// Refusals are the 429s of a load by class, as a table. Columns whose names begin with "<" are aligned to the left.
func Refusals(result load.Result) (columns []string, rows [][]string) {
	t := refusals(result)
	return t.columns, t.rows
}

// LoadVerdict is the verdict of a load in a line.
func LoadVerdict(result load.Result, verdict Verdict) string { return loadVerdict(result, verdict) }

// Classes counts 429s by class in a few words.
func Classes(result scenario.Result) string { return classes(result.Refused) }

// RouteOf is the route of a real load, without the parameters of its path.
func RouteOf(real *load.Real) string { return routeOf(real) }

// TuneRows are max rate limits with what came of them: the value; how many requests it refused, and which part; how long the others
// were queued (median, 99th percentile, longest); the longest queue, and how many waited in all; 429s; the last answer.
func TuneRows(r tune.Report) [][]string { return tuneRows(r) }

// Recommendation says which max rate limit to take and why. If there is none, further lines say what is in the way.
func Recommendation(r tune.Report) string { return recommendation(r) }

// ProcessesSettings says how several processes share their limits.
func ProcessesSettings(s processes.Settings) string { return describeProcesses(s) }

// ProcessesRow is a scenario of several processes in numbers: its name; how many requests were answered; time; efficiency; 429s; the
// share of inverted pairs; calls per request, in all and in the second half, with the engine's time; and how long requests were queued:
// mean, the ideal's mean, median, 99th percentile.
func ProcessesRow(r processes.Result) []string { return processesRow(r) }

// ProcessesBusy says that a run was spoilt by what else the machine had to do. Empty: it was not.
func ProcessesBusy(r processes.Result) string { return busy(r) }

// ProcessesClasses counts 429s by class in a few words.
func ProcessesClasses(r processes.Result) string { return classes(r.Refused) }

// AccidentRow is what an accident cost: what it was, from when to when, the rate before, requests lost, when the rate was back and each
// bucket served again, 429s, those of them that were avoidable, their buckets, errors.
func AccidentRow(r processes.Result, a processes.Accident) []string { return accidentRow(r, a) }

// AccidentVerdict is the verdict on one accident: ok, MISSED, or – if it is not judged.
func AccidentVerdict(r processes.Result, a processes.Accident) string { return accidentVerdict(r, a) }
