package output

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/ratelight/ratelight/bench/internal/options"
	"github.com/ratelight/ratelight/bench/internal/tune"
)

// Tune writes what came of several max rate limits for people: a table, and the recommendation.
func Tune(w io.Writer, o options.Tune, load *tune.Load, r tune.Report) {
	fmt.Fprintf(w, "%s\n\n", describeTune(o, load))
	t := &table{columns: []string{
		"max rate\nlimit", "refused", "<", "queued\np50", "\np99", "\nlongest", "longest\nqueue", "waiting\nin all", "429s", "last\nanswer", "<",
	}}
	for i, row := range tuneRows(r) {
		mark := ""
		if i == r.Recommended {
			mark = "← recommended"
		}
		t.add(append(row, mark)...)
	}
	t.write(w)
	fmt.Fprint(w, tuneLegend)
	if r.Recommended < 0 {
		fmt.Fprintf(w, "FAILED: %s\n", recommendation(r))
		return
	}
	fmt.Fprintf(w, "OK: %s\n", recommendation(r))
}

// tuneRows are the values with what came of them.
func tuneRows(r tune.Report) (rows [][]string) {
	for _, v := range r.Results {
		rows = append(rows, []string{
			setting(v.MaxRateLimit), number(v.Refused), percent(v.Share()), seconds(v.Median), seconds(v.P99), seconds(v.Max),
			number(v.LongestQueue), number(v.MostWaiting), number(v.Limited), long(v.Makespan),
		})
	}
	return rows
}

// describeTune says what was replayed, and against what.
func describeTune(o options.Tune, load *tune.Load) string {
	kind := map[string]string{"fixed": "fixed window", "sliding": "sliding window", "leaky": "leaky bucket"}[o.Kind]
	global, bursts, rules := "no global limit", "", ""
	if o.GlobalLimit > 0 {
		global = fmt.Sprintf("at most %d per second in all", o.GlobalLimit)
	}
	if load.Bursts > 0 {
		bursts = fmt.Sprintf(", %s of %d among them", count(load.Bursts, "burst", "bursts"), o.Burst)
	}
	if n := len(o.Rules); n > 0 {
		rules = fmt.Sprintf(" but %s", count(n, "route", "routes"))
	}
	skipped := ""
	if load.Skipped > 0 {
		skipped = fmt.Sprintf("\n%s skipped, the first because of this: %v", count(load.Skipped, "line", "lines"), load.FirstSkipped)
	}
	return fmt.Sprintf("%s in %s%s; %s, %s%s\n%d per %s in each bucket%s (%s); %s\nround trip %s ± %s; seed %d",
		count(load.Requests(), "request", "requests"), long(load.Length), bursts,
		count(load.Routes(), "route", "routes"), count(load.Queues(), "bucket", "buckets"), skipped,
		o.Limit, setting(o.Window), rules, kind, global, setting(o.Latency), setting(o.Jitter), o.Seed)
}

const tuneLegend = `
refused        requests that the client refused at once, because their predicted wait exceeded the max rate limit
queued         how long the others were held back, round trips not counted: median, 99th percentile, longest
longest queue  requests that waited at once for one route and channel; in all: for all of them together
last answer    time from the first request to the last answer

`

// recommendation says which value to take and why, or what is in the way.
func recommendation(r tune.Report) string {
	acceptable := percent(r.Acceptable)
	if r.Recommended < 0 {
		last := r.Results[len(r.Results)-1]
		return fmt.Sprintf("no value refuses %s or less; the largest, %s, refuses %s.\n%s",
			acceptable, setting(last.MaxRateLimit), percent(last.Share()), bottleneck(last, r.Bottleneck))
	}
	v := r.Results[r.Recommended]
	text := fmt.Sprintf("%s is the smallest value that refuses %s or less (%s", setting(v.MaxRateLimit), acceptable, percent(v.Share()))
	if r.Recommended == 0 {
		return text + "). Smaller ones were not tried.\n" + remaining(r.Bottleneck)
	}
	smaller := r.Results[r.Recommended-1]
	return fmt.Sprintf("%s); %s refuses %s.\n%s", text, setting(smaller.MaxRateLimit), percent(smaller.Share()), remaining(r.Bottleneck))
}

// remaining says which limit is still most in the way when few enough requests are refused.
func remaining(b *tune.Bottleneck) string {
	switch {
	case b == nil:
		return "There is no bottleneck: no request waits for a limit."
	case b.Refused > 0:
		return fmt.Sprintf("The bottleneck is %s (%d refused).", nameOf(b), b.Refused)
	}
	return fmt.Sprintf("The bottleneck is %s: requests waited %s for it in all, the longest %s.", nameOf(b), long(b.Waited), long(b.Longest))
}

func nameOf(b *tune.Bottleneck) string {
	if b.Name == "" {
		return "the global limit"
	}
	return b.Name
}

// bottleneck says which limit is in the way and what helps.
func bottleneck(last tune.Result, b *tune.Bottleneck) string {
	text := fmt.Sprintf("The bottleneck is %s (%d refused).\n", nameOf(b), b.Refused)
	allows := fmt.Sprintf("%d per %s", b.Limit, setting(b.Period))
	switch {
	case b.Lasting:
		return text + fmt.Sprintf("%.3g requests per second are asked for, not only for a while, and it allows %.3g (%s).\n"+
			"No max rate limit helps against that; fewer requests do.", b.Asked, float64(b.Limit)/b.Period.Seconds(), allows)
	case b.Limit > 0:
		text += fmt.Sprintf("It allows %s, and for a while there is more to do: requests would have to wait for %s or more.\n", allows, long(b.Longest))
	}
	return text + fmt.Sprintf("Try values above %s, or spread the requests.", setting(last.MaxRateLimit))
}

// percent shows a part of the whole.
func percent(x float64) string {
	switch p := 100 * x; {
	case p == 0:
		return "0 %"
	case p < 0.01:
		return "< 0.01 %"
	case p < 10:
		return strings.TrimSuffix(fmt.Sprintf("%.2f", p), ".00") + " %"
	default:
		return fmt.Sprintf("%.1f %%", p)
	}
}

// long shows a time that may be hours.
func long(d time.Duration) string {
	if d < time.Minute {
		return seconds(d)
	}
	text := d.Round(time.Second).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

type tuneDocument struct {
	Load struct {
		Requests int     `json:"requests"`
		Routes   int     `json:"routes"`
		Buckets  int     `json:"buckets"`
		Seconds  float64 `json:"seconds"`
		// What was wrong with the first of the lines that were skipped, "" if none were.
		SkippedLines int    `json:"skipped_lines"`
		FirstSkipped string `json:"first_skipped_line"`
	} `json:"load"`
	AcceptableShare    float64             `json:"acceptable_share"`
	Values             []tuneValue         `json:"values"`
	RecommendedSeconds *float64            `json:"recommended_seconds"`
	Bottleneck         *bottleneckDocument `json:"bottleneck"`
	Verdict            Verdict             `json:"verdict"`
}

type tuneValue struct {
	MaxRateLimitSeconds float64 `json:"max_rate_limit_seconds"`
	Refused             int     `json:"refused_early"`
	RefusedShare        float64 `json:"refused_early_share"`
	QueuedSeconds       struct {
		Median float64 `json:"median"`
		P99    float64 `json:"p99"`
		Max    float64 `json:"max"`
	} `json:"queued_seconds"`
	LongestQueue      int     `json:"longest_queue"`
	MostWaiting       int     `json:"most_waiting"`
	RateLimited       int     `json:"rate_limited"`
	LastAnswerSeconds float64 `json:"last_answer_seconds"`
}

type bottleneckDocument struct {
	Name                 string  `json:"name"` // of the route and what it is about; "": the global limit
	Refused              int     `json:"refused_early"`
	WaitedSeconds        float64 `json:"waited_seconds"`
	AskedPerSecond       float64 `json:"asked_per_second"`
	Limit                int     `json:"limit"`
	PeriodSeconds        float64 `json:"period_seconds"`
	Lasting              bool    `json:"lasting"`
	LongestPredictedWait float64 `json:"longest_predicted_wait_seconds"`
}

// TuneJSON writes what came of several max rate limits as one JSON object.
func TuneJSON(w io.Writer, load *tune.Load, r tune.Report) error {
	var d tuneDocument
	d.Load.Requests, d.Load.Routes, d.Load.Buckets = load.Requests(), load.Routes(), load.Queues()
	d.Load.Seconds = inSeconds(load.Length)
	if d.Load.SkippedLines = load.Skipped; load.Skipped > 0 {
		d.Load.FirstSkipped = load.FirstSkipped.Error()
	}
	d.AcceptableShare = r.Acceptable
	for _, v := range r.Results {
		value := tuneValue{
			MaxRateLimitSeconds: inSeconds(v.MaxRateLimit), Refused: v.Refused, RefusedShare: rounded(v.Share()),
			LongestQueue: v.LongestQueue, MostWaiting: v.MostWaiting, RateLimited: v.Limited, LastAnswerSeconds: inSeconds(v.Makespan),
		}
		q := &value.QueuedSeconds
		q.Median, q.P99, q.Max = inSeconds(v.Median), inSeconds(v.P99), inSeconds(v.Max)
		d.Values = append(d.Values, value)
	}
	d.Verdict = Verdict{Passed: r.Recommended >= 0, Reasons: []string{}}
	if d.Verdict.Passed {
		recommended := inSeconds(r.Results[r.Recommended].MaxRateLimit)
		d.RecommendedSeconds = &recommended
	} else {
		d.Verdict.Reasons = append(d.Verdict.Reasons, strings.ReplaceAll(recommendation(r), "\n", " "))
	}
	if b := r.Bottleneck; b != nil {
		d.Bottleneck = &bottleneckDocument{
			b.Name, b.Refused, inSeconds(b.Waited), rounded(b.Asked), b.Limit, inSeconds(b.Period), b.Lasting, inSeconds(b.Longest),
		}
	}
	return write(w, d)
}
