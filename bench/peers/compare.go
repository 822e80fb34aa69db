package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ratelight/ratelight/bench/internal/report"
)

// compare runs the scenarios one after the other. When the context ends, it returns the scenarios completed so far.
func compare(ctx context.Context, o options, progress io.Writer) (*report.Report, error) {
	described := &report.Report{Title: "Limiters compared", Facts: []report.Fact{
		{Key: "seed", Value: report.Data(o.seed)}, {Key: "quick", Value: report.Data(o.quick)},
		{Key: "go", Value: report.Data(runtime.Version())}, {Key: "cpus", Value: report.Data(runtime.NumCPU())},
	}}
	all := make([][]result, len(o.contenders)) // results of each contender, in the order of the scenarios
	for i, s := range o.scenarios {
		ideal, err := s.ideal()
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(progress, "%d of %d: %s, about %.0f s\n", i+1, len(o.scenarios), s.name, 1.3*ideal.Seconds()+1)
		results, err := runAll(ctx, o, s, ideal)
		if err != nil {
			return nil, err
		}
		if ctx.Err() != nil {
			break
		}
		described.Tables = append(described.Tables, table(s, results))
		for i, r := range results {
			all[i] = append(all[i], r)
		}
	}
	described.Tables = append(described.Tables, overview(o, all))
	return described, nil
}

// overview returns a table with a row for each contender and a column for each scenario that was run. A contender that
// failed has no sum of 429s, because not all of its 429s were counted.
func overview(o options, all [][]result) report.Table {
	t := report.Table{Title: "Ideal time as a share of the time taken (and the number of 429s)",
		Columns: []report.Column{{Name: "contender", Left: true}}}
	for _, s := range o.scenarios[:len(all[0])] {
		t.Columns = append(t.Columns, report.Column{Name: s.name})
	}
	t.Columns = append(t.Columns, report.Column{Name: "429s in all"})
	for i, by := range o.contenders {
		row, refused, failed := []report.Value{report.Text(by.name)}, 0, false
		for _, r := range all[i] {
			row = append(row, report.Text(summary(r)))
			refused += r.Refused.Total()
			failed = failed || r.Note != ""
		}
		inAll := report.Count(refused)
		if failed {
			inAll = report.Text("failed")
		}
		t.Rows = append(t.Rows, append(row, inAll))
	}
	return t
}

// runAll runs a scenario with all contenders: concurrently, each in its own process, or one after the other in this
// process.
func runAll(ctx context.Context, o options, s scenario, ideal time.Duration) ([]result, error) {
	results := make([]result, len(o.contenders))
	var running errgroup.Group
	if o.here {
		running.SetLimit(1)
	}
	for i, by := range o.contenders {
		running.Go(func() (err error) {
			if o.here {
				results[i], err = measure(ctx, by, s, o.seed, realTime)
			} else {
				results[i] = apart(ctx, newResult(by, s, ideal), s, o, longest(ideal)+beyond)
			}
			return err
		})
	}
	return results, running.Wait()
}

// childVariable is the environment variable that makes this program measure one contender and write the result as JSON.
const childVariable = "PEERS_CHILD"

// beyond bounds the time that a process takes in addition to its run, to start and to end.
const beyond = 15 * time.Second

// apart measures a contender in a separate process, so that a library that crashes, hangs or exhausts the memory
// affects no other. It kills the process after limit. If the process fails, the note of the result says how.
func apart(ctx context.Context, r result, s scenario, o options, limit time.Duration) result {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	process := exec.CommandContext(limited, os.Args[0], "-scenario", s.name, "-contender", r.Contender,
		fmt.Sprintf("-quick=%t", o.quick), fmt.Sprintf("-seed=%d", o.seed))
	process.Env = append(os.Environ(), childVariable+"=1")
	var out, complaints bytes.Buffer
	process.Stdout, process.Stderr = &out, &complaints
	process.WaitDelay = time.Second
	err := process.Run()
	wrong := json.Unmarshal(out.Bytes(), &r)
	switch {
	case ctx.Err() != nil:
		r.Note = "interrupted"
	case limited.Err() != nil:
		r.Note = fmt.Sprintf("killed after %v", limit.Round(time.Second))
	case err != nil:
		r.Note = strings.TrimSuffix(fmt.Sprintf("crashed: %v: %s", err, shortened(complaints.String(), 200)), ": ")
	case wrong != nil:
		r.Note = "ended without a result"
	}
	return r
}

// table returns the results of one scenario as a table.
func table(s scenario, results []result) report.Table {
	t := report.Table{Key: "scenarios." + s.name, Columns: []report.Column{
		{Name: "contender", Key: "contender", Left: true}, {Key: "calls"}, {Key: "given_up"}, {Name: "calls ok", Key: "ok"},
		{Key: "failed"}, {Key: "never_ended"}, {Key: "error"}, {Key: "late_seconds"}, {Key: "note"}, {Key: "ideal_seconds"},
		{Name: "of the ideal", Key: "efficiency"}, {Name: "time", Key: "seconds"}, {Name: "429s", Key: "refused"},
		{Name: "avoidable", Key: "avoidable"}, {Name: "queued p50", Key: "queued_seconds.median"},
		{Name: "p99", Key: "queued_seconds.p99"},
		{Name: "in flight", Key: "largest_in_flight"}, {Name: "remarks", Left: true},
	}}
	for _, r := range results {
		t.Title = fmt.Sprintf("%s: %s; %d calls, ideal %v", s.name, s.about, r.Calls, report.Time(r.Ideal))
		row := []report.Value{
			report.Text(r.Contender), report.Count(r.Calls), report.Count(r.GivenUp),
			report.Count(r.OK).As(fmt.Sprintf("%d/%d", r.OK, r.wanted())),
			report.Count(r.Failed), report.Count(r.NeverEnded), report.Text(r.Error), report.Time(r.Late),
			report.Text(r.Note), report.Time(r.Ideal),
			report.Efficiency(r.efficiency(), 0), report.Time(r.Took), report.ByClass(r.Refused), report.ByClass(r.Avoidable),
			report.Time(r.Queued.Median), report.Time(r.Queued.P99),
			report.Count(r.LargestInFlight), report.Text(r.remarks()),
		}
		for i, column := range t.Columns {
			if r.Note != "" && !slices.Contains(known, column.Key) {
				row[i] = report.Value{}
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// known lists the columns that have a value even if nothing was measured, because the contender failed.
var known = []string{"contender", "calls", "given_up", "note", "ideal_seconds", ""}

// noticeable is how long a call may continue without a remark after its caller has given it up.
const noticeable = 200 * time.Millisecond

// remarks returns what went wrong, for the last column.
func (r *result) remarks() string {
	var list []string
	say := func(when bool, format string, values ...any) {
		if when {
			list = append(list, fmt.Sprintf(format, values...))
		}
	}
	say(r.Note != "", "FAILED: %s", r.Note)
	say(r.Note == "" && r.NeverEnded > 0, "%d never ended", r.NeverEnded)
	say(r.Failed > 0, "%d failed: %s", r.Failed, shortened(r.Error, 80))
	say(r.Late > noticeable, "given-up calls end up to %.1f s late", r.Late.Seconds())
	return strings.Join(list, "; ")
}

// shortened returns the first line of a text, cut to length characters.
func shortened(text string, length int) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if runes := []rune(line); len(runes) > length {
		return string(runes[:length-1]) + "…"
	}
	return line
}

// summary returns a result as the text of one cell.
func summary(r result) string {
	text := fmt.Sprintf("%.2f", r.efficiency())
	switch {
	case r.Note != "":
		return "failed"
	case r.NeverEnded > 0:
		text = fmt.Sprintf("%d hang", r.NeverEnded)
	case r.Failed > 0:
		text = fmt.Sprintf("%d fail", r.Failed)
	}
	if n := r.Refused.Total(); n > 0 {
		text += fmt.Sprintf(" (%d)", n)
	}
	return text
}
