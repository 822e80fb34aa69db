package report_test

import (
	"fmt"
	"os"
	"time"

	"github.com/ratelight/ratelight/bench/internal/report"
)

func Example() {
	scenario := func(name string, took time.Duration, verdict report.Verdict) *report.Report {
		return &report.Report{
			Name:    name,
			About:   []string{"one channel, 5 per second in fixed windows"},
			Verdict: verdict,
			Facts: []report.Fact{
				{Name: "time taken", Key: "seconds", Value: report.Time(took), Remark: "until the last answer", Main: true, Column: "time"},
				{Name: "efficiency", Key: "efficiency.certain", Value: report.Efficiency(0.99, 0.97), Remark: "of the certain ideal", Main: true,
					Column: "certain", Note: "efficiency against the ideal client that must be sure"},
			},
		}
	}
	r := report.Report{Title: "2 scenarios", Parts: []*report.Report{
		scenario("fixed-small", 14280*time.Millisecond, report.Judge("it reached its targets")),
		scenario("fixed-large", 12*time.Second, report.Judge("it reached its targets", "avoidable 429s: 7, none wanted")),
	}}
	r.Verdict = report.Together(r.Parts)
	if err := r.WriteText(os.Stdout); err != nil {
		fmt.Println(err)
	}
	// Output:
	// scenario     verdict     time  certain
	// ────────────────────────────────────────
	// fixed-small  ok       14.28 s    0.990
	// fixed-large  MISSED   12.00 s    0.990
	//
	// certain  efficiency against the ideal client that must be sure
	//
	// fixed-large: avoidable 429s: 7, none wanted
	//
	// FAILED: 1 of 2 scenarios missed a target.
}
