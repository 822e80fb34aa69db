package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// WriteText writes the report as text. The verdict is the last line.
func (r *Report) WriteText(w io.Writer) error {
	paragraphs := []string{strings.Join(r.About, "\n"), factsText(r.Facts)}
	switch len(r.Parts) {
	case 0:
	case 1:
		part := r.Parts[0]
		paragraphs = append(paragraphs, part.Name+": "+strings.Join(part.About, "\n"), factsText(part.Facts))
	default:
		paragraphs = append(paragraphs, r.overview().text())
	}
	for _, table := range r.Tables {
		paragraphs = append(paragraphs, table.text())
	}
	if r.Verdict.Status != "" {
		if r.Verdict.Line != "" {
			paragraphs = append(paragraphs, strings.Join(r.Verdict.Reasons, "\n"))
		}
		paragraphs = append(paragraphs, strings.TrimSuffix(r.Verdict.Word()+": "+r.Verdict.text(), ".")+".")
	}
	paragraphs = slices.DeleteFunc(paragraphs, func(paragraph string) bool { return paragraph == "" })
	_, err := io.WriteString(w, strings.Join(paragraphs, "\n\n")+"\n")
	return err
}

// longestValue bounds the width of the column of values, in bytes. Longer values are written in the column of remarks.
const longestValue = 24

func factsText(facts []Fact) string {
	var rows [][]string
	for _, fact := range facts {
		value, remark := fact.Value.String(), fact.Remark
		if len(value) > longestValue {
			value, remark = "", strings.TrimSpace(value+" "+remark)
		}
		if fact.Name != "" {
			rows = append(rows, []string{fact.Name, value, remark})
		}
	}
	return aligned(rows, []bool{true, false, true})
}

// overview returns a table with a row for each part: its verdict and the facts that have a column. All parts have the
// same columns.
func (r *Report) overview() Table {
	overview := Table{Title: "overview"}
	for _, part := range r.Parts {
		facts := []Fact{{Column: "scenario", Value: Text(part.Name)}, {Column: "verdict", Value: part.Verdict.cell()}}
		facts = append(facts, part.Facts...)
		facts = slices.DeleteFunc(facts, func(f Fact) bool { return f.Column == "" })
		columns, row := []Column(nil), []Value(nil)
		for i, fact := range facts {
			columns, row = append(columns, Column{Name: fact.Column, Note: fact.Note, Left: i < 2}), append(row, fact.Value)
		}
		overview.Columns, overview.Rows = columns, append(overview.Rows, row)
	}
	return overview
}

// text returns the table with the notes on its columns.
func (t Table) text() string {
	if t.Title == "" || len(t.Rows) == 0 {
		return ""
	}
	var notes [][]string
	var isLeft []bool
	rows, height := make([][]string, 2), 2 // a column's name has two lines at most
	for _, column := range t.Columns {
		if column.Name == "" {
			continue
		}
		isLeft = append(isLeft, column.Left)
		lines := strings.Split("\n"+column.Name, "\n")
		for i := range height {
			rows[i] = append(rows[i], lines[len(lines)-height+i])
		}
		if column.Note != "" {
			notes = append(notes, []string{oneLine(column.Name), column.Note})
		}
	}
	for i, values := range t.Rows {
		var row []string
		for j, column := range t.Columns {
			if column.Name != "" {
				row = append(row, values[j].String())
			}
		}
		if i+1 == t.Marked {
			row = append(row, "← "+t.Mark)
		}
		rows = append(rows, row)
	}
	lines := strings.Split(aligned(rows, append(isLeft, true)), "\n")
	ruler := 0
	for _, line := range lines {
		ruler = max(ruler, utf8.RuneCountInString(line))
	}
	lines = slices.Insert(lines, height, strings.Repeat("─", ruler))
	if lines[0] == "" {
		lines = lines[1:]
	}
	text := t.Title + "\n\n" + strings.Join(lines, "\n")
	if len(notes) > 0 {
		text += "\n\n" + aligned(notes, []bool{true, true})
	}
	return text
}

func oneLine(name string) string {
	return strings.TrimSpace(strings.ReplaceAll(strings.ReplaceAll(name, "-\n", ""), "\n", " "))
}

// aligned returns rows in columns, which are aligned to the left or to the right.
func aligned(rows [][]string, isLeft []bool) string {
	widths := make([]int, len(isLeft))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var lines []string
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			if isLeft[i] {
				line += fmt.Sprintf("%-*s  ", widths[i], cell)
			} else {
				line += fmt.Sprintf("%*s  ", widths[i], cell)
			}
		}
		lines = append(lines, strings.TrimRight(line, " "))
	}
	return strings.Join(lines, "\n")
}
