package pages

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"time"
)

// Page is a report.
type Page struct {
	Title string
	About string // what was done, in a sentence or two
	Made  time.Time
	Verdict
	Sections []Section
}

// Status is how a run ended.
type Status string

// The ways in which a run may end.
const (
	Passed      Status = "passed"
	Failed      Status = "failed"
	Interrupted Status = "interrupted"
)

// Verdict is the outcome in a line, with the reasons why it is not better.
type Verdict struct {
	Status  Status
	Line    string
	Reasons []string
}

// Section is one part of a page. Everything in it but the title may be left out.
type Section struct {
	ID      string // for links within the page: letters, digits and dashes
	Title   string
	About   string
	Verdict Verdict // shown if it has a status
	Tiles   []Tile  // the few numbers that matter most
	Facts   []Facts
	Tables  []Table
	Charts  []Chart
	Notes   []string // what a reader has to know to judge the charts, above all what they leave out
	// Foldable sections can be closed, and are unless Open.
	Foldable, Open bool
}

// Tile is a number in large letters.
type Tile struct {
	Name, Value, Remark string
	Bad                 bool // it is the number that somebody should look at
}

// Facts are names with values under one heading.
type Facts struct {
	Title string
	Facts []Fact
}

// Fact is a name with a value, and a remark where it needs one.
type Fact struct{ Name, Value, Remark string }

// Table is shown as it is. Columns whose names begin with "<" are aligned to the left, all others to the right.
type Table struct {
	Title   string
	Columns []string
	Rows    [][]Cell
}

// Cell is what stands in one place of a table.
type Cell struct {
	Text string
	Link string // ID of a section; "": no link
	// Bar is drawn below the text up to this part of the width, from 0 to 1, with a mark at Target. 0: no bar.
	Bar, Target float64
	Status      Status // colours the text; "": does not
}

// Texts are cells without anything special.
func Texts(texts ...string) (cells []Cell) {
	for _, text := range texts {
		cells = append(cells, Cell{Text: text})
	}
	return cells
}

// Head is the column's name without its alignment.
func (t Table) Head() (heads []head) {
	for _, column := range t.Columns {
		if column != "" && column[0] == '<' {
			heads = append(heads, head{column[1:], true})
		} else {
			heads = append(heads, head{column, false})
		}
	}
	return heads
}

type head struct {
	Name string
	Left bool
}

// Left reports whether a column is aligned to the left.
func (t Table) Left(column int) bool {
	return column < len(t.Columns) && t.Columns[column] != "" && t.Columns[column][0] == '<'
}

// HasBar reports whether the cell has a bar.
func (c Cell) HasBar() bool { return c.Bar > 0 }

// BarPercent and TargetPercent are widths.
func (c Cell) BarPercent() float64    { return percent(c.Bar) }
func (c Cell) TargetPercent() float64 { return percent(c.Target) }

func percent(part float64) float64 { return round(100*min(max(part, 0), 1), 2) }

//go:embed page.html report.css report.js uplot
var files embed.FS

var page = template.Must(template.New("page.html").Funcs(template.FuncMap{
	"style": func() (template.CSS, error) {
		text, err := concat("uplot/uPlot.min.css", "report.css")
		return template.CSS(text), err
	},
	"script": func() (template.JS, error) {
		text, err := concat("uplot/uPlot.iife.min.js", "report.js")
		return template.JS(text), err
	},
	"licence": func() (string, error) { return concat("uplot/LICENSE") },
}).ParseFS(files, "page.html"))

// concat returns the text of embedded files.
func concat(names ...string) (text string, err error) {
	for _, name := range names {
		content, err := files.ReadFile(name)
		if err != nil {
			return "", err
		}
		text += string(content) + "\n"
	}
	return text, nil
}

// Write writes the page as one HTML document.
func (p Page) Write(w io.Writer) error {
	if err := page.Execute(w, p); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}
