// Package output shows what the benchmark measured: as text for people, as JSON for programs, and as a progress bar while
// it runs. It writes nothing but what its arguments contain, and those contain no credentials.
package output

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// table is aligned columns. Columns whose names begin with "<" are aligned to the left, all others to the right. A name may
// have several lines.
type table struct {
	columns []string
	rows    [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// write writes the names of the columns, if there are any, and a line for each row.
func (t *table) write(w io.Writer) {
	lines := append(t.head(), t.rows...)
	widths := make([]int, len(t.columns))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, line := range lines {
		var b strings.Builder
		for i, cell := range line {
			padding := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if strings.HasPrefix(t.columns[i], "<") {
				b.WriteString(cell + padding + "  ")
			} else {
				b.WriteString(padding + cell + "  ")
			}
		}
		fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
	}
}

// head returns the lines of the columns' names, and one that sets them apart.
func (t *table) head() (lines [][]string) {
	var names [][]string
	rule := make([]string, len(t.columns))
	height := 0
	for i, column := range t.columns {
		name := strings.Split(strings.TrimPrefix(column, "<"), "\n")
		names = append(names, name)
		height = max(height, len(name))
		width := 0
		for _, row := range append([][]string{name}, t.column(i)) {
			for _, cell := range row {
				width = max(width, utf8.RuneCountInString(cell))
			}
		}
		rule[i] = strings.Repeat("─", width)
	}
	for level := range height {
		line := make([]string, len(names))
		for i, name := range names {
			if above := height - len(name); level >= above {
				line[i] = name[level-above]
			}
		}
		lines = append(lines, line)
	}
	if strings.Join(lines[0], "") == "" && height == 1 {
		return nil
	}
	return append(lines, rule)
}

func (t *table) column(i int) (cells []string) {
	for _, row := range t.rows {
		cells = append(cells, row[i])
	}
	return cells
}

// seconds shows a time that was measured, with three or so digits that mean something.
func seconds(d time.Duration) string {
	switch {
	case d == 0:
		return "0 s"
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Round(time.Millisecond).Milliseconds())
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

// setting shows a time that was asked for.
func setting(d time.Duration) string {
	switch {
	case d%time.Second == 0:
		return fmt.Sprintf("%d s", d/time.Second)
	case d%time.Millisecond == 0 && d < time.Second:
		return fmt.Sprintf("%d ms", d/time.Millisecond)
	}
	return strings.TrimRight(fmt.Sprintf("%.9f", d.Seconds()), "0") + " s"
}

// part shows an efficiency, or that there is none.
func part(x float64) string {
	if x == 0 {
		return "–"
	}
	return fmt.Sprintf("%.3f", x)
}

func number(n int) string { return fmt.Sprint(n) }

// count shows a number of things.
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
