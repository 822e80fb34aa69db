package report

import (
	"fmt"
	"html/template"
	"slices"
	"strings"
)

// Chart is a picture on the page.
type Chart interface {
	// Caption returns a title, and the chart in words.
	Caption() (title, summary string)
	// SVG returns the picture. Browsers show the title elements of its marks when the pointer is on them.
	SVG() template.HTML
}

// svg is a picture that is being drawn, in units of about a pixel.
type svg struct{ strings.Builder }

const svgWidth = 1000

// add adds an element. Texts among the values must be escaped.
func (s *svg) add(format string, values ...any) { fmt.Fprintf(s, format+"\n", values...) }

// text adds a text. anchor is start, middle or end.
func (s *svg) text(x, y float64, class, anchor, text string) {
	s.add(`<text x="%.1f" y="%.1f" class="%s" text-anchor="%s">%s</text>`, x, y, class, anchor, template.HTMLEscapeString(text))
}

// finish returns the picture of a height, with a name for those who cannot see it.
func (s *svg) finish(height float64, name string) template.HTML {
	return template.HTML(fmt.Sprintf("<svg viewBox=\"0 0 %d %.0f\" role=\"img\" aria-label=\"%s\">\n%s</svg>", svgWidth, height,
		template.HTMLEscapeString(name), s.String()))
}

// Bars is a chart with a group of bars for each of several values.
type Bars struct {
	Title, Summary string
	Names          []string // of the bars of a group, four at most
	Groups         []Group
}

// Group has the bars for one value.
type Group struct {
	Name   string
	Counts []int
	Marked bool
}

// Caption returns the title and the summary.
func (b Bars) Caption() (title, summary string) { return b.Title, b.Summary }

// SVG draws the groups below each other. A bar's count stands behind it.
func (b Bars) SVG() template.HTML {
	const left, right, bar, gap = 120, 880, 14, 12
	most := 1
	for _, group := range b.Groups {
		most = max(most, slices.Max(group.Counts))
	}
	s, y := &svg{}, 24.0
	for i, name := range b.Names {
		x := left + 220*float64(i)
		s.add(`<rect x="%.0f" y="4" width="12" height="12" class="bar%d"/>`, x, i)
		s.text(x+18, 14, "soft", "start", name)
	}
	for _, group := range b.Groups {
		class, height := "", float64(bar*len(group.Counts))
		if group.Marked {
			class = "strong"
			s.add(`<rect x="0" y="%.1f" width="%d" height="%.1f" class="marked"/>`, y-gap/2, svgWidth, height+gap)
		}
		s.text(left-10, y+height/2+4, class, "end", group.Name)
		for i, count := range group.Counts {
			width := float64(count) / float64(most) * (right - left)
			s.add(`<rect x="%d" y="%.1f" width="%.1f" height="%d" class="bar%d"/>`, left, y+1, max(width, 1), bar-2, i)
			s.text(left+width+8, y+bar-3, "soft", "start", fmt.Sprint(count))
			y += bar
		}
		y += gap
	}
	return s.finish(y, b.Title)
}
