package pages

import (
	"encoding/json"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Chart is a picture with its description. Use Curves or Histogram.
type Chart struct {
	Title   string
	Summary string // the picture in words, for those who do not see it, too
	Legend  []Legend
	Table   Table // the picture in numbers
	Wide    bool  // as wide as the page, not half of it

	lanes int // of the picture; 0: it has no lanes
	data  any // what the script draws; nil: there is nothing to draw
}

// Legend says what a mark means.
type Legend struct{ Mark, Name string }

// Axis is what a chart's axis shows.
type Axis struct {
	Label string
	Unit  string // "s", "%"; "": a number of something
}

func (a Axis) String() string {
	if a.Unit == "" {
		return a.Label
	}
	return a.Label + " (" + a.Unit + ")"
}

// Series is a line. Points that are not finite are left out.
type Series struct {
	Name   string
	Points []Point // in the order of X
	// Step: the value of a point holds until the next one, so that the line goes in steps.
	Step bool
}

// Point is a place in a chart, in the units of its axes.
type Point struct{ X, Y float64 }

// Drawn reports whether there is a picture.
func (c Chart) Drawn() bool { return c.data != nil }

// Lanes is the number of lanes in the picture.
func (c Chart) Lanes() int { return c.lanes }

// LaneHeight is in pixels. Few lanes can be high.
func (c Chart) LaneHeight() int {
	switch {
	case c.lanes <= 2:
		return 84
	case c.lanes <= 6:
		return 54
	}
	return 38
}

// Data is what the script draws. What it contains cannot end the script element: JSON escapes angle brackets.
func (c Chart) Data() (template.JS, error) {
	text, err := json.Marshal(c.data)
	return template.JS(text), err
}

const (
	// mostPoints is how many points of a line are shown.
	mostPoints = 2000
	// mostSeries is how many lines a chart shows; there are as many colours.
	mostSeries = 4
	// mostTableRows is how many rows the table below a chart has.
	mostTableRows = 24
)

// curvesData is what the script draws.
type curvesData struct {
	Kind   string       `json:"kind"`
	Sync   string       `json:"sync,omitempty"` // charts with one name share cursor and zoom
	X      axisData     `json:"x"`
	Y      axisData     `json:"y"`
	Series []seriesData `json:"series"`
	Marked *int         `json:"marked,omitempty"` // the number of a name of the X axis
	Events []eventData  `json:"events,omitempty"`
}

// eventData is shaded if it lasts, and a line if it does not. Its name is short.
type eventData struct {
	From float64 `json:"from"`
	To   float64 `json:"to"`
	Name string  `json:"name"`
}

type axisData struct {
	Label string  `json:"label"`
	Unit  string  `json:"unit"`
	Max   float64 `json:"max,omitempty"` // 0: as far as there are values
	// Names stand at 0, 1, 2, … in place of numbers.
	Names []string `json:"names,omitempty"`
}

type seriesData struct {
	Name string    `json:"name"`
	Step bool      `json:"step"`
	X    []float64 `json:"x"`
	Y    []float64 `json:"y"`
}

// Curves is a chart of up to four lines over one axis, and a table of their points. Of a long line it shows the largest
// value in each of many equal parts.
func Curves(title string, x, y Axis, series ...Series) Chart {
	series = slices.Clone(series[:min(len(series), mostSeries)])
	data := curvesData{Kind: "curves", X: axisData{Label: x.String(), Unit: x.Unit}, Y: axisData{Label: y.String(), Unit: y.Unit}}
	chart := Chart{Title: title}
	var words []string
	for i := range series {
		s := &series[i]
		all := finite(s.Points)
		s.Points = thinned(all, mostPoints)
		drawn := seriesData{Name: s.Name, Step: s.Step, X: []float64{}, Y: []float64{}}
		for _, point := range s.Points {
			drawn.X, drawn.Y = append(drawn.X, significant(point.X)), append(drawn.Y, significant(point.Y))
		}
		data.Series = append(data.Series, drawn)
		words = append(words, s.words(x, y))
		if len(all) > len(s.Points) {
			words = append(words, fmt.Sprintf("Of %d points, the highest in each of %d equal parts is shown.", len(all), mostPoints))
		}
		if len(series) > 1 {
			chart.Legend = append(chart.Legend, Legend{fmt.Sprintf("line series-%d", i), s.Name})
		}
	}
	chart.Summary = strings.Join(words, " ")
	chart.Table = curvesTable(x, y, series)
	if slices.ContainsFunc(series, func(s Series) bool { return len(s.Points) > 0 }) {
		chart.data = data
	}
	return chart
}

// words describes a line.
func (s Series) words(x, y Axis) string {
	if len(s.Points) == 0 {
		return fmt.Sprintf("%s: nothing was measured.", capital(s.Name))
	}
	top := s.Points[0]
	for _, point := range s.Points {
		if point.Y > top.Y {
			top = point
		}
	}
	return fmt.Sprintf("%s: at most %s, at %s.", capital(s.Name), withUnit(top.Y, y.Unit), withUnit(top.X, x.Unit))
}

// curvesTable shows the points themselves if they are few, and otherwise the largest values in equal parts.
func curvesTable(x, y Axis, series []Series) Table {
	table := Table{Columns: []string{x.String()}}
	var all []float64
	for _, s := range series {
		name := s.Name
		if y.Unit != "" {
			name += " (" + y.Unit + ")"
		}
		for _, point := range s.Points {
			all = append(all, point.X)
		}
		table.Columns = append(table.Columns, name)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	if len(all) == 0 {
		return Table{}
	}
	if len(all) <= mostTableRows {
		for _, at := range all {
			row := []string{decimal(at)}
			for _, s := range series {
				row = append(row, s.at(at))
			}
			table.Rows = append(table.Rows, Texts(row...))
		}
		return table
	}
	const parts = 12
	table.Columns[0] = "<" + x.String() + ", from – to"
	for i := 1; i < len(table.Columns); i++ {
		table.Columns[i] = "most " + table.Columns[i]
	}
	low, width := all[0], (all[len(all)-1]-all[0])/parts
	for part := range parts {
		from, to := low+float64(part)*width, low+float64(part+1)*width
		row := []string{decimal(from) + " – " + decimal(to)}
		for _, s := range series {
			row = append(row, s.most(from, to, part == parts-1))
		}
		table.Rows = append(table.Rows, Texts(row...))
	}
	return table
}

// at is the value at an X that may be none of this line's.
func (s Series) at(x float64) string {
	for _, point := range slices.Backward(s.Points) {
		if point.X == x || s.Step && point.X < x {
			return decimal(point.Y)
		}
	}
	return "–"
}

// most is the largest value from an X to another, the latter included for the last part only. A step holds until the next.
func (s Series) most(from, to float64, last bool) string {
	found, most := false, math.Inf(-1)
	for _, point := range s.Points {
		if point.X >= to && !last {
			break
		}
		if point.X < from {
			if s.Step {
				found, most = true, point.Y
			}
			continue
		}
		found, most = true, max(most, point.Y)
	}
	if !found {
		return "–"
	}
	return decimal(most)
}

func finite(points []Point) []Point {
	return slices.DeleteFunc(slices.Clone(points), func(p Point) bool {
		return math.IsNaN(p.X+p.Y) || math.IsInf(p.X, 0) || math.IsInf(p.Y, 0)
	})
}

// thinned returns so many points and two at most: the first and the last, and of each equal part of the X axis the first
// one with the largest Y.
func thinned(points []Point, most int) []Point {
	if len(points) <= most {
		return points
	}
	first, last := points[0], points[len(points)-1]
	width := (last.X - first.X) / float64(most)
	result := []Point{first}
	current := -1
	for _, point := range points {
		part := 0
		if width > 0 {
			part = min(int((point.X-first.X)/width), most-1)
		}
		switch {
		case part != current:
			result = append(result, point)
			current = part
		case point.Y > result[len(result)-1].Y:
			result[len(result)-1] = point
		}
	}
	return append(result, last)
}

// barsData is what the script draws.
type barsData struct {
	Kind   string   `json:"kind"`
	X      axisData `json:"x"`
	Y      axisData `json:"y"`
	Width  float64  `json:"width"`
	Counts []int    `json:"counts"`
}

// Histogram is a chart of how many values lie in each of some equal parts of an axis that begins at 0.
func Histogram(title string, x Axis, what string, values []float64) Chart {
	chart := Chart{Title: title, Summary: "Nothing was measured."}
	if len(values) == 0 {
		return chart
	}
	const mostBars = 40
	largest := slices.Max(values)
	width := roundWidth(largest / mostBars)
	counts := make([]int, min(int(largest/width)+1, mostBars+1))
	for _, value := range values {
		counts[min(max(int(value/width), 0), len(counts)-1)]++
	}
	chart.data = barsData{
		Kind: "bars", X: axisData{Label: x.String(), Unit: x.Unit, Max: width * float64(len(counts))},
		Y: axisData{Label: what}, Width: width, Counts: counts,
	}
	tallest := slices.Index(counts, slices.Max(counts))
	chart.Summary = fmt.Sprintf("Each bar is %s wide. The tallest holds %d of %d %s: %s to %s.", withUnit(width, x.Unit),
		counts[tallest], len(values), what, decimal(float64(tallest)*width), withUnit(float64(tallest+1)*width, x.Unit))
	chart.Table = Table{Columns: []string{"<" + x.String() + ", from – to", what}}
	for i, count := range counts {
		if count > 0 {
			span := decimal(float64(i)*width) + " – " + decimal(float64(i+1)*width)
			chart.Table.Rows = append(chart.Table.Rows, Texts(span, strconv.Itoa(count)))
		}
	}
	return chart
}

// roundWidth is the smallest of 1, 2 and 5 times a power of ten that is at least x.
func roundWidth(x float64) float64 {
	if !(x > 0) {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(x)))
	for _, factor := range []float64{1, 2, 5} {
		if factor*power >= x {
			return factor * power
		}
	}
	return 10 * power
}

func round(x float64, decimals int) float64 {
	scale := math.Pow(10, float64(decimals))
	return math.Round(x*scale) / scale
}

// significant leaves out digits that no picture shows.
func significant(x float64) float64 {
	if x == 0 {
		return 0
	}
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 7, 64), 64)
	if err != nil {
		return x
	}
	return rounded
}

// decimal shows a number with about four digits.
func decimal(x float64) string {
	digits := 3
	switch size := math.Abs(x); {
	case size >= 1000:
		digits = 0
	case size >= 100:
		digits = 1
	case size >= 10:
		digits = 2
	case size < 0.1 && size > 1e-9:
		digits = 2 - int(math.Floor(math.Log10(size)))
	}
	text := strconv.FormatFloat(x, 'f', digits, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
	}
	if text == "-0" {
		return "0"
	}
	return text
}

func withUnit(x float64, unit string) string {
	return strings.TrimSpace(decimal(x) + " " + unit)
}

func capital(text string) string {
	if text == "" {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
