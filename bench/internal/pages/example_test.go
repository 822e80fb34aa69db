package pages_test

import (
	"fmt"

	"github.com/ratelight/ratelight/bench/internal/pages"
)

// A page of one's own: a table, and a chart for each unit.
func ExampleCurves() {
	limit := pages.Axis{Label: "max rate limit", Unit: "s"}
	refused := pages.Curves("Refused requests", limit, pages.Axis{Label: "share of requests", Unit: "%"},
		pages.Series{Name: "refused", Points: []pages.Point{{X: 1, Y: 80}, {X: 2, Y: 55}, {X: 5, Y: 0}}})
	waits := pages.Curves("Waits", limit, pages.Axis{Label: "queued", Unit: "s"},
		pages.Series{Name: "median", Points: []pages.Point{{X: 1, Y: 0.4}, {X: 2, Y: 1.1}, {X: 5, Y: 2.4}}},
		pages.Series{Name: "99 %", Points: []pages.Point{{X: 1, Y: 1}, {X: 2, Y: 2}, {X: 5, Y: 4.8}}})
	page := pages.Page{
		Title:   "Max rate limits",
		Verdict: pages.Verdict{Status: pages.Passed, Line: "3 values were tried."},
		Sections: []pages.Section{{
			Tables: []pages.Table{{Columns: []string{"max rate limit", "refused"}, Rows: [][]pages.Cell{pages.Texts("1 s", "80 %")}}},
			Charts: []pages.Chart{refused, waits},
		}},
	}
	fmt.Println(page.Sections[0].Charts[1].Summary)
	// page.WriteFile("tune.html")
	// Output: Median: at most 2.4 s, at 5 s. 99 %: at most 4.8 s, at 5 s.
}
