package pages

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func curves(t *testing.T, chart Chart) curvesData {
	t.Helper()
	data, ok := chart.data.(curvesData)
	require.True(t, ok)
	return data
}

func TestCurvesShowFewPointsAsTheyAre(t *testing.T) {
	t.Parallel()
	chart := Curves("Title", Axis{"x", "s"}, Axis{"y", "%"},
		Series{Name: "a", Points: []Point{{0, 1}, {1, 5}, {2, 3}}},
		Series{Name: "b", Points: []Point{{1, 7}, {3, 8}}, Step: true},
		Series{Name: "c"})
	assert.Equal(t, "A: at most 5 %, at 1 s. B: at most 8 %, at 3 s. C: nothing was measured.", chart.Summary)
	data := curves(t, chart)
	assert.Equal(t, []float64{0, 1, 2}, data.Series[0].X)
	assert.Equal(t, []float64{1, 5, 3}, data.Series[0].Y)
	assert.Equal(t, "x (s)", data.X.Label)
	assert.Equal(t, Table{Columns: []string{"x (s)", "a (%)", "b (%)", "c (%)"}, Rows: [][]Cell{
		Texts("0", "1", "–", "–"), Texts("1", "5", "7", "–"), Texts("2", "3", "7", "–"), Texts("3", "–", "8", "–"),
	}}, chart.Table)
	assert.Len(t, chart.Legend, 3)
}

func TestCurvesOfManyPointsKeepTheirPeaks(t *testing.T) {
	t.Parallel()
	var points []Point
	for i := range 100_000 {
		points = append(points, Point{float64(i), float64(i % 10)})
	}
	points[54_321].Y = 77
	chart := Curves("Title", Axis{Label: "x"}, Axis{Label: "y"}, Series{Name: "a", Points: points, Step: true})
	drawn := curves(t, chart).Series[0]
	assert.LessOrEqual(t, len(drawn.X), mostPoints+2)
	assert.Equal(t, 0.0, drawn.X[0])
	assert.Equal(t, 99_999.0, drawn.X[len(drawn.X)-1])
	assert.Contains(t, drawn.Y, 77.0)
	assert.IsIncreasing(t, drawn.X[1:len(drawn.X)-1])
	assert.Contains(t, chart.Summary, "at most 77, at 54321. Of 100000 points")
	require.Len(t, chart.Table.Rows, 12)
	assert.Equal(t, Texts("50000 – 58333", "77"), chart.Table.Rows[6])
	assert.Equal(t, chart, Curves("Title", Axis{Label: "x"}, Axis{Label: "y"}, Series{Name: "a", Points: points, Step: true}), "no chance is involved")
}

func TestAStepHoldsUntilTheNext(t *testing.T) {
	t.Parallel()
	s := Series{Points: []Point{{0, 9}, {1, 3}, {5, 4}}, Step: true}
	assert.Equal(t, "3", s.most(2, 4, false))
	assert.Equal(t, "4", s.most(4, 5, true))
	s.Step = false
	assert.Equal(t, "–", s.most(2, 4, false))
	assert.Equal(t, "9", s.most(0, 1, false))
}

func TestWhatIsNoNumberIsLeftOut(t *testing.T) {
	t.Parallel()
	bad := []Point{{math.NaN(), 1}, {1, math.Inf(1)}, {math.Inf(-1), 1}, {2, 3}, {3, math.NaN()}}
	chart := Curves("Title", Axis{}, Axis{}, Series{Name: "a", Points: bad})
	assert.Equal(t, []float64{2}, curves(t, chart).Series[0].X)
	_, err := chart.Data()
	assert.NoError(t, err)
	assert.False(t, Curves("Title", Axis{}, Axis{}, Series{Points: bad[:3]}).Drawn())
	assert.False(t, Curves("Title", Axis{}, Axis{}).Drawn())
	assert.Len(t, curves(t, Curves("", Axis{}, Axis{}, Series{}, Series{Points: bad}, Series{}, Series{}, Series{})).Series, mostSeries)
}

func TestHistogramCountsEveryValueOnce(t *testing.T) {
	t.Parallel()
	values := []float64{0, 0.1, 0.9, 4, 4, 4, 4, 39.99}
	chart := Histogram("Title", Axis{"time", "s"}, "requests", values)
	data := chart.data.(barsData)
	assert.Equal(t, 1.0, data.Width)
	assert.Len(t, data.Counts, 40)
	assert.Equal(t, 3, data.Counts[0])
	assert.Equal(t, 4, data.Counts[4])
	assert.Equal(t, 1, data.Counts[39])
	assert.Equal(t, "Each bar is 1 s wide. The tallest holds 4 of 8 requests: 4 to 5 s.", chart.Summary)
	assert.Len(t, chart.Table.Rows, 3)

	zeros := Histogram("Title", Axis{}, "requests", []float64{0, 0}).data.(barsData)
	assert.Equal(t, []int{2}, zeros.Counts)
	assert.False(t, Histogram("Title", Axis{}, "requests", nil).Drawn())
}

func TestWidthsOfBarsAreRound(t *testing.T) {
	t.Parallel()
	for x, want := range map[float64]float64{0: 1, 0.03: 0.05, 1: 1, 1.1: 2, 2.5: 5, 7: 10, 120: 200} {
		assert.InEpsilon(t, want, roundWidth(x), 1e-9, x)
	}
}

func TestNumbersHaveFourDigits(t *testing.T) {
	t.Parallel()
	for x, want := range map[float64]string{
		0: "0", 1: "1", 12345.6: "12346", 123.45: "123.5", 12.345: "12.35", 1.2345: "1.234", 0.5: "0.5", 0.00123456: "0.00123", 1e-12: "0",
	} {
		assert.Equal(t, want, decimal(x))
	}
}
