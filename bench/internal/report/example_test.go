package report_test

import (
	"fmt"

	"github.com/ratelight/ratelight/bench/internal/report"
)

// A page of one's own: a table, and a chart for each unit.
func ExampleCurves() {
	limit := report.Axis{Label: "max rate limit", Unit: "s"}
	refused := report.Curves("Refused requests", limit, report.Axis{Label: "share of requests", Unit: "%"},
		report.Series{Name: "refused", Points: []report.Point{{X: 1, Y: 80}, {X: 2, Y: 55}, {X: 5, Y: 0}}})
	waits := report.Curves("Waits", limit, report.Axis{Label: "queued", Unit: "s"},
		report.Series{Name: "median", Points: []report.Point{{X: 1, Y: 0.4}, {X: 2, Y: 1.1}, {X: 5, Y: 2.4}}},
		report.Series{Name: "99 %", Points: []report.Point{{X: 1, Y: 1}, {X: 2, Y: 2}, {X: 5, Y: 4.8}}})
	page := report.Page{
		Title:   "Max rate limits",
		Verdict: report.Verdict{Status: report.Passed, Line: "3 values were tried."},
		Sections: []report.Section{{
			Tables: []report.Table{{Columns: []string{"max rate limit", "refused"}, Rows: [][]report.Cell{report.Texts("1 s", "80 %")}}},
			Charts: []report.Chart{refused, waits},
		}},
	}
	fmt.Println(page.Sections[0].Charts[1].Summary)
	// page.WriteFile("tune.html")
	// Output: Median: at most 2.4 s, at 5 s. 99 %: at most 4.8 s, at 5 s.
}
