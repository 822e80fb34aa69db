package report

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// figure is a chart on the page. The script draws what is in JSON, lines or lanes, whose size is bounded.
type figure struct {
	Chart
	Legend []legend   `json:"-"`
	Table  Table      `json:"-"`                // the chart in numbers
	Wide   bool       `json:"-"`                // page width instead of half of it
	Sync   string     `json:"sync,omitempty"`   // charts with the same name share cursor and zoom
	Max    number     `json:"max,omitempty"`    // end of the X axis; 0: the last value
	Lanes  []laneData `json:"lanes,omitempty"`  // instead of series
	Blocks []number   `json:"blocks,omitempty"` // across all lanes: from, to, from, to, …
}

// legend explains a mark that the style sheet defines.
type legend struct{ Mark, Name string }

// mostPoints is the number of points above which a line is thinned.
const mostPoints = 2000

// number has as many digits in JSON as a chart shows, even after zooming in.
type number float64

func (n number) MarshalJSON() ([]byte, error) { return fmt.Appendf(nil, "%.7g", float64(n)), nil }

// MarshalJSON writes a point as [x, y].
func (p Point) MarshalJSON() ([]byte, error) { return fmt.Appendf(nil, "[%.7g,%.7g]", p.X, p.Y), nil }

// newFigure returns a figure of bounded size. lasted is the length of the run.
func newFigure(c Chart, lasted time.Duration, sync string) figure {
	f := figure{Chart: c, Wide: c.Run && len(c.Series)+len(c.Events) > 1}
	if c.Run {
		f.Sync, f.Max = sync, number(lasted.Seconds())
	}
	f.Series = slices.Clone(c.Series)
	for i, s := range f.Series {
		f.Series[i].Points = thinned(s.Points, mostPoints)
		if len(c.Series) > 1 {
			f.Legend = append(f.Legend, legend{fmt.Sprintf("line series-%d", i), s.Name})
		}
	}
	if c.Marked > 0 {
		f.Legend = append(f.Legend, legend{"marked", "recommended"})
	}
	for _, e := range c.Events {
		f.Legend = append(f.Legend, legend{"event", e.Name})
	}
	return f
}

// thinned returns the finite points. If there are more than most, it divides the X axis into most equal parts. It
// returns the first and the highest point of each part, and the last point.
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
