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
	// SVG returns the picture. When the pointer is on a mark, browsers show the mark's title element.
	SVG() template.HTML
}

// svg is a picture that is being drawn, in units of about a pixel.
type svg struct{ strings.Builder }

const svgWidth = 1000

// add adds an element. Texts among the values must be escaped.
func (s *svg) add(format string, values ...any) { fmt.Fprintf(s, format+"\n", values...) }

// text adds a text. anchor is start, middle or end.
func (s *svg) text(x, y float64, class, anchor, text string) {
	s.add(`<text x="%.1f" y="%.1f" class="%s" text-anchor="%s">%s</text>`,
		x, y, class, anchor, template.HTMLEscapeString(text))
}

// finish returns the picture with the given height, and with a name for screen readers.
func (s *svg) finish(height float64, name string) template.HTML {
	return template.HTML(fmt.Sprintf("<svg viewBox=\"0 0 %d %.0f\" role=\"img\" aria-label=\"%s\">\n%s</svg>",
		svgWidth, height, template.HTMLEscapeString(name), s.String()))
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

// SVG draws the groups below each other. The count of a bar stands to the right of the bar.
func (b Bars) SVG() template.HTML {
	const left, width, height, gap = 120, 760, 14, 12
	s, y, most := &svg{}, 24.0, 1
	for _, group := range b.Groups {
		most = max(most, slices.Max(group.Counts))
	}
	bar := func(i int, x, y float64, length float64, text string) {
		s.add(`<rect x="%.0f" y="%.0f" width="%.0f" height="%d" class="bar%d"/>`, x, y, length, height-2, i)
		s.text(x+length+6, y+height-4, "soft", "start", text)
	}
	for i, name := range b.Names {
		bar(i, left+220*float64(i), 4, height, name)
	}
	for _, group := range b.Groups {
		name := group.Name
		if group.Marked {
			name = "→ " + name
		}
		s.text(left-10, y+height+4, "strong", "end", name)
		for i, count := range group.Counts {
			bar(i, left, y, 1+float64(count)/float64(most)*width, fmt.Sprint(count))
			y += height
		}
		y += gap
	}
	return s.finish(y, b.Title)
}
