package report

import (
	"fmt"
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
	Table   Table // the picture in numbers, or what there is in its place
	Open    bool  // the table is shown
	Wide    bool  // as wide as the page, not half of it
	Lanes   int
	Data    any // what the script draws; nil: there is nothing to draw
}

// legend says what a mark means. The styles know the marks.
type legend struct{ Mark, Name string }

const (
	mostPoints = 2000 // of a line
	mostSeries = 4    // there are as many colours
)

// unit is what the numbers of an axis are shown in.
type unit struct {
	name string
	in   time.Duration // one of it; 0: it is none of time
}

// unitFor suits times up to the longest.
func unitFor(longest time.Duration) unit {
	switch {
	case longest < time.Second:
		return unit{"ms", time.Millisecond}
	case longest < 3*time.Minute:
		return unit{"s", time.Second}
	case longest < 3*time.Hour:
		return unit{"min", time.Minute}
	}
	return unit{"h", time.Hour}
}

// time is a time in the unit, with digits for less than a pixel even after zooming in.
func (u unit) time(d time.Duration) float64 { return u.of(d.Seconds()) }

// of is a number of an axis, which is in seconds if it is a time.
func (u unit) of(x float64) float64 {
	if u.in > 0 {
		x /= u.in.Seconds()
	}
	return significant(x)
}

// What the script draws as curves.
type (
	curvesData struct {
		Kind   string       `json:"kind"`
		Sync   string       `json:"sync,omitempty"` // charts with one name share cursor and zoom
		X      axisData     `json:"x"`
		Y      axisData     `json:"y"`
		Series []seriesData `json:"series"`
		Marked *int         `json:"marked,omitempty"` // the number of a name of the X axis
		Events []Event      `json:"events,omitempty"`
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
)

func newAxis(a Axis) axisData {
	if a.Unit == "" {
		return axisData{Label: a.Label}
	}
	return axisData{Label: a.Label + " (" + a.Unit + ")", Unit: a.Unit}
}

// curves draws a chart. Of a long line it shows the largest value in each of many equal parts. Lasted is the length of the run.
func curves(c Chart, lasted time.Duration, sync string) figure {
	x, y := c.unit(c.X, func(p Point) float64 { return p.X }), c.unit(c.Y, func(p Point) float64 { return p.Y })
	if c.Run {
		x = unitFor(lasted)
	}
	data := curvesData{Kind: "curves", X: newAxis(Axis{c.X.Label, x.name}), Y: newAxis(Axis{c.Y.Label, y.name})}
	if c.Run {
		data.Sync, data.X.Max = sync, x.time(lasted)
	}
	data.X.Names = c.Names
	f := figure{Title: c.Title, Summary: c.Summary, Wide: c.Run && len(c.Series) > 1}
	for i, s := range c.Series[:min(len(c.Series), mostSeries)] {
		d := seriesData{Name: s.Name, Step: s.Step, X: []float64{}, Y: []float64{}}
		for _, p := range thinned(s.Points, mostPoints) {
			d.X, d.Y = append(d.X, x.of(p.X)), append(d.Y, y.of(p.Y))
		}
		data.Series = append(data.Series, d)
		if len(c.Series) > 1 {
			f.Legend = append(f.Legend, legend{fmt.Sprintf("line series-%d", i), s.Name})
		}
		if len(d.X) > 0 {
			f.Data = &data
		}
	}
	if c.Marked > 0 && c.Marked <= len(c.Names) {
		at := c.Marked - 1
		data.Marked = &at
		f.Legend = append(f.Legend, legend{"marked", "recommended"})
	}
	for _, e := range c.Events {
		name, _, _ := strings.Cut(e.Name, ":")
		data.Events = append(data.Events, Event{x.of(e.From), x.of(e.To), name})
		f.Legend = append(f.Legend, legend{"event", e.Name})
	}
	if f.Summary == "" {
		f.Summary = data.words()
	}
	return f
}

// unit is what an axis is shown in.
func (c Chart) unit(a Axis, value func(Point) float64) unit {
	if a.Unit != "s" {
		return unit{name: a.Unit}
	}
	longest := 0.0
	for _, s := range c.Series {
		for _, p := range s.Points {
			longest = max(longest, value(p))
		}
	}
	return unitFor(time.Duration(longest * float64(time.Second)))
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

// thinned returns at most twice so many points, of those that are finite: in each equal part of the X axis the first, and the highest.
func thinned(points []Point, most int) (result []Point) {
	points = slices.DeleteFunc(slices.Clone(points), func(p Point) bool { return math.IsNaN(p.X+p.Y) || math.IsInf(p.X+p.Y, 0) })
	if len(points) <= most {
		return points
	}
	width := max(points[len(points)-1].X-points[0].X, math.SmallestNonzeroFloat64) / float64(most)
	current := -1
	for _, p := range points {
		if part := int((p.X - points[0].X) / width); part != current {
			result = append(result, p, p)
			current = part
		} else if p.Y > result[len(result)-1].Y {
			result[len(result)-1] = p
		}
	}
	return append(result, points[len(points)-1])
}
