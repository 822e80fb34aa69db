package report

import (
	"encoding/json"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
	"time"
)

// figure is a chart as the page has it. What is drawn is bounded, whatever was measured.
type figure struct {
	Title   string
	Summary string
	Legend  []legend
	Table   Table // the picture in numbers
	Wide    bool  // as wide as the page, not half of it
	Lanes   int
	data    any // what the script draws; nil: there is nothing to draw
}

// legend says what a mark means. The styles know the marks.
type legend struct{ Mark, Name string }

// Drawn reports whether there is a picture.
func (f figure) Drawn() bool { return f.data != nil }

// LaneHeight is in pixels. Few lanes can be high.
func (f figure) LaneHeight() int {
	switch {
	case f.Lanes <= 2:
		return 84
	case f.Lanes <= 6:
		return 54
	}
	return 38
}

// Data is what the script draws. What it contains cannot end the script element: JSON escapes angle brackets.
func (f figure) Data() (template.JS, error) {
	text, err := json.Marshal(f.data)
	return template.JS(text), err
}

const (
	mostPoints = 2000 // of a line
	mostSeries = 4    // there are as many colours
	mostRows   = 24   // of the table below a chart, before it shows the largest values in parts
	parts      = 12   // of that table
)

// unit is what times are shown in.
type unit struct {
	name     string
	in       time.Duration // one of it
	decimals int
}

// unitFor suits times up to the longest. A hundred-thousandth of that is less than a pixel, even after zooming in.
func unitFor(longest time.Duration) unit {
	u := unit{name: "h", in: time.Hour}
	switch {
	case longest < time.Second:
		u = unit{name: "ms", in: time.Millisecond}
	case longest < 3*time.Minute:
		u = unit{name: "s", in: time.Second}
	case longest < 3*time.Hour:
		u = unit{name: "min", in: time.Minute}
	}
	u.decimals = max(5-int(math.Floor(math.Log10(float64(max(longest, time.Millisecond))/float64(u.in)))), 0)
	return u
}

func (u unit) time(d time.Duration) float64 { return round(float64(d)/float64(u.in), u.decimals) }

func (u unit) axis(label string) axisData { return newAxis(Axis{label, u.name}) }

// What the script draws as curves.
type (
	curvesData struct {
		Kind   string       `json:"kind"`
		Sync   string       `json:"sync,omitempty"` // charts with one name share cursor and zoom
		X      axisData     `json:"x"`
		Y      axisData     `json:"y"`
		Series []seriesData `json:"series"`
		Marked *int         `json:"marked,omitempty"` // the number of a name of the X axis
		Events []eventData  `json:"events,omitempty"`
	}
	axisData struct {
		Label string   `json:"label"`
		Unit  string   `json:"unit"`
		Max   float64  `json:"max,omitempty"` // 0: as far as there are values
		Names []string `json:"names,omitempty"`
	}
	seriesData struct {
		Name string    `json:"name"`
		Step bool      `json:"step"`
		X    []float64 `json:"x"`
		Y    []float64 `json:"y"`
	}
	eventData struct {
		From float64 `json:"from"`
		To   float64 `json:"to"`
		Name string  `json:"name"`
	}
)

func newAxis(a Axis) axisData {
	if a.Unit == "" {
		return axisData{Label: a.Label}
	}
	return axisData{Label: a.Label + " (" + a.Unit + ")", Unit: a.Unit}
}

// curves draws a chart. Of a long line it shows the largest value in each of many equal parts. Lasted is the length of the run.
func curves(c Chart, lasted time.Duration, sync string) figure {
	x, y := scaleOf(c.X, c, func(p Point) float64 { return p.X }), scaleOf(c.Y, c, func(p Point) float64 { return p.Y })
	if c.Run {
		x = scaleOfRun(lasted)
	}
	data := curvesData{Kind: "curves", X: newAxis(Axis{c.X.Label, x.unit}), Y: newAxis(Axis{c.Y.Label, y.unit})}
	if c.Run {
		data.Sync, data.X.Max = sync, round(lasted.Seconds()*x.by, 6)
	}
	data.X.Names = c.Names
	f := figure{Title: c.Title, Summary: c.Summary, Wide: c.Run && len(c.Series) > 1}
	for i, s := range c.Series[:min(len(c.Series), mostSeries)] {
		d := seriesData{Name: s.Name, Step: s.Step, X: []float64{}, Y: []float64{}}
		for _, p := range thinned(s.Points, mostPoints) {
			d.X, d.Y = append(d.X, significant(p.X*x.by)), append(d.Y, significant(p.Y*y.by))
		}
		data.Series = append(data.Series, d)
		if len(c.Series) > 1 {
			f.Legend = append(f.Legend, legend{fmt.Sprintf("line series-%d", i), s.Name})
		}
		if len(d.X) > 0 {
			f.data = &data
		}
	}
	if c.Marked > 0 && c.Marked <= len(c.Names) {
		at := c.Marked - 1
		data.Marked = &at
		f.Legend = append(f.Legend, legend{"marked", "recommended"})
	}
	for _, e := range c.Events {
		name, _, _ := strings.Cut(e.Name, ":")
		data.Events = append(data.Events, eventData{significant(e.From * x.by), significant(e.To * x.by), name})
		f.Legend = append(f.Legend, legend{"event", e.Name})
	}
	if f.Summary == "" {
		f.Summary = data.words()
	}
	f.Table = data.table()
	return f
}

// scale turns the values of a chart into what an axis shows.
type scale struct {
	unit string
	by   float64
}

func scaleOf(a Axis, c Chart, value func(Point) float64) scale {
	if a.Unit != "s" {
		return scale{a.Unit, 1}
	}
	longest := 0.0
	for _, s := range c.Series {
		for _, p := range s.Points {
			longest = max(longest, value(p))
		}
	}
	return scaleOfRun(time.Duration(longest * float64(time.Second)))
}

func scaleOfRun(longest time.Duration) scale {
	u := unitFor(longest)
	return scale{u.name, time.Second.Seconds() / u.in.Seconds()}
}

// words describes each line by its highest point.
func (d *curvesData) words() string {
	var words []string
	for _, s := range d.Series {
		if len(s.Y) == 0 {
			words = append(words, capital(s.Name)+": nothing was measured.")
			continue
		}
		top := slices.Index(s.Y, slices.Max(s.Y))
		at := withUnit(s.X[top], d.X.Unit)
		if n := int(s.X[top]); n < len(d.X.Names) {
			at = d.X.Names[n]
		}
		words = append(words, fmt.Sprintf("%s: at most %s, at %s.", capital(s.Name), withUnit(s.Y[top], d.Y.Unit), at))
	}
	return strings.Join(words, " ")
}

// table has the points themselves if they are few, and otherwise the largest values in equal parts.
func (d *curvesData) table() Table {
	t := Table{Title: "values", Columns: []Column{{Name: d.X.Label, Left: true}}}
	var all []float64
	for _, s := range d.Series {
		t.Columns = append(t.Columns, Column{Name: strings.TrimSpace(s.Name + " " + d.Y.Unit)})
		all = append(all, s.X...)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	row := func(name string, from, to float64) {
		cells := []Value{Text(name)}
		for _, s := range d.Series {
			cells = append(cells, s.most(from, to))
		}
		t.Rows = append(t.Rows, cells)
	}
	switch {
	case len(all) == 0:
	case len(all) <= mostRows:
		for _, at := range all {
			name := decimal(at)
			if int(at) < len(d.X.Names) {
				name = d.X.Names[int(at)]
			}
			row(name, at, at)
		}
	default:
		low, width := all[0], (all[len(all)-1]-all[0])/parts
		for part := range parts {
			from, to := low+float64(part)*width, low+float64(part+1)*width
			row("most from "+decimal(from)+" to "+decimal(to), from, to)
		}
	}
	return t
}

// most is the largest value from an X to another. A step holds until the next.
func (s *seriesData) most(from, to float64) Value {
	most := math.Inf(-1)
	for i, x := range s.X {
		switch {
		case x > to:
		case x >= from:
			most = max(most, s.Y[i])
		case s.Step:
			most = s.Y[i]
		}
	}
	if math.IsInf(most, 0) {
		return Value{}
	}
	return Text(decimal(most))
}

// thinned returns so many points and two at most, of those that are finite: the first and the last, and of each equal part of the X
// axis the first one with the largest Y.
func thinned(points []Point, most int) []Point {
	points = slices.DeleteFunc(slices.Clone(points), func(p Point) bool { return math.IsNaN(p.X+p.Y) || math.IsInf(p.X+p.Y, 0) })
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

// histogram is how many times lie in each of some equal parts of an axis that begins at 0.
func histogram(title, label string, times []time.Duration) figure {
	if len(times) == 0 {
		return figure{Title: title, Summary: "Nothing was measured."}
	}
	const mostBars = 40
	u := unitFor(slices.Max(times))
	largest := u.time(slices.Max(times))
	width := roundWidth(largest / mostBars)
	counts := make([]int, min(int(largest/width)+1, mostBars+1))
	for _, d := range times {
		counts[min(max(int(u.time(d)/width), 0), len(counts)-1)]++
	}
	x := u.axis(label)
	x.Max = width * float64(len(counts))
	tallest := slices.Index(counts, slices.Max(counts))
	f := figure{
		Title: title, data: barsData{Kind: "bars", X: x, Y: axisData{Label: "requests"}, Width: width, Counts: counts},
		Summary: fmt.Sprintf("Each bar is %s wide. The tallest holds %d of %d requests: %s to %s.", withUnit(width, u.name),
			counts[tallest], len(times), decimal(float64(tallest)*width), withUnit(float64(tallest+1)*width, u.name)),
		Table: Table{Title: "values", Columns: []Column{{Name: x.Label + ", from – to", Left: true}, {Name: "requests"}}},
	}
	for i, count := range counts {
		if count > 0 {
			f.Table.Rows = append(f.Table.Rows, []Value{Text(decimal(float64(i)*width) + " – " + decimal(float64(i+1)*width)), Count(count)})
		}
	}
	return f
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
