package pages

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestOutcomesStandSideBySide(t *testing.T) {
	t.Parallel()
	setting := Setting{Name: "limit", Values: []string{"0 s", "1 s", "5 min"}, Marked: 1, Mark: "best"}
	chart := Outcomes("Title", setting, Axis{"held back", "s"},
		Outcome{"median", []float64{1, 2, 3}}, Outcome{"bound", []float64{7, 7, 7}}, Outcome{"short", []float64{4, math.NaN()}}, Outcome{Name: "none"})
	assert.Equal(t, "Median: 1 s with 0 s, 2 s with 1 s (best), 3 s with 5 min. Bound: always 7 s. Short: 4 s with 0 s. None: nothing was measured.", chart.Summary)
	data := curves(t, chart)
	assert.Equal(t, setting.Values, data.X.Names)
	assert.Equal(t, "limit", data.X.Label)
	assert.Equal(t, "held back (s)", data.Y.Label)
	assert.Equal(t, []float64{0, 1, 2}, data.Series[0].X)
	assert.Equal(t, []float64{1, 2, 3}, data.Series[0].Y)
	assert.Equal(t, []float64{0}, data.Series[2].X, "what is not there is left out")
	assert.Equal(t, 1, *data.Marked)
	assert.Equal(t, Legend{"marked", "best: 1 s"}, chart.Legend[4])
	assert.Equal(t, Table{Columns: []string{"limit", "median (s)", "bound (s)", "short (s)", "none (s)"}, Rows: [][]Cell{
		Texts("0 s", "1", "7", "4", "–"), Texts("1 s", "2", "7", "–", "–"), Texts("5 min", "3", "7", "–", "–"),
	}}, chart.Table)
	_, err := chart.Data()
	assert.NoError(t, err)
}

func TestOutcomesOfWhatMakesNoSense(t *testing.T) {
	t.Parallel()
	for _, marked := range []int{-1, 1, 7} {
		chart := Outcomes("Title", Setting{Values: []string{"a"}, Marked: marked}, Axis{}, Outcome{"x", []float64{math.Inf(1), 2}})
		assert.Nil(t, curves(t, chart).Marked)
		assert.Len(t, chart.Legend, 1)
		assert.Equal(t, "X: nothing was measured.", chart.Summary)
	}
	assert.False(t, Outcomes("Title", Setting{}, Axis{}, Outcome{Name: "x"}).Drawn())
	assert.False(t, Outcomes("Title", Setting{Values: []string{"a"}}, Axis{}).Drawn())
	lines := make([]Outcome, 6)
	assert.Len(t, curves(t, Outcomes("", Setting{Values: []string{"a"}}, Axis{}, lines...)).Series, mostSeries)
}

func TestNamesOfValuesDoNotBreakOut(t *testing.T) {
	t.Parallel()
	const hostile = `</script><script>alert(1)</script>`
	chart := Outcomes(hostile, Setting{hostile, []string{hostile}, 0, hostile}, Axis{hostile, hostile}, Outcome{hostile, []float64{1}})
	document := text(t, Page{Sections: []Section{{Charts: []Chart{chart}}}})
	assert.Equal(t, 2, strings.Count(document, "<script"))
	assert.Equal(t, []any{hostile}, drawings(t, document)[0]["x"].(map[string]any)["names"])
}
