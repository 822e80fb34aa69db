package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// WriteText writes the report as text. The verdict is the last line.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	paragraph := func(text string) {
		if text != "" {
			fmt.Fprintf(&b, "%s\n\n", strings.TrimRight(text, "\n"))
		}
	}
	explained := make(map[string]bool)
	paragraph(strings.Join(r.About, "\n"))
	paragraph(factsText(r.Facts))
	switch len(r.Parts) {
	case 0:
	case 1:
		part := r.Parts[0]
		paragraph(part.Name + ": " + strings.Join(part.About, "\n"))
		paragraph(factsText(part.Facts))
	default:
		paragraph(r.overview().text(explained))
	}
	for _, part := range append([]*Report{r}, r.Parts...) {
		for _, table := range part.Tables {
			if part.Name != "" && len(r.Parts) > 1 && table.Title != "" {
				table.Title = part.Name + ": " + table.Title
			}
			paragraph(table.text(explained))
		}
	}
	b.WriteString(r.Verdict.lines())
	_, err := io.WriteString(w, strings.TrimRight(b.String(), "\n")+"\n")
	return err
}

// lines returns the verdict, after its reasons if it has a line as well.
func (v Verdict) lines() string {
	if v.Status == "" {
		return ""
	}
	reasons := ""
	if v.Line != "" && len(v.Reasons) > 0 {
		reasons = strings.Join(v.Reasons, "\n") + "\n\n"
	}
	end := "."
	if strings.HasSuffix(v.text(), ".") || v.text() == "" {
		end = ""
	}
	return fmt.Sprintf("%s%s: %s%s\n", reasons, strings.ToUpper(v.word()), v.text(), end)
}

// word returns the status in the words of a badge.
func (v Verdict) word() string {
	if v.Status == Passed {
		return "OK"
	}
	return strings.ReplaceAll(string(v.Status), "-", " ")
}

// longestValue bounds the width of the column of values, in bytes. Longer values stand in the column of remarks.
const longestValue = 24

func factsText(facts []Fact) string {
	t := newTable()
	t.SetColumnConfigs([]table.ColumnConfig{{Number: 1, Align: text.AlignLeft}, {Number: 2, Align: text.AlignRight}})
	for _, fact := range facts {
		value, remark := fact.Value.String(), fact.Remark
		if len(value) > longestValue {
			value, remark = "", strings.TrimSpace(value+" "+remark)
		}
		if fact.Name != "" {
			t.AppendRow(table.Row{fact.Name, value, remark})
		}
	}
	return trimmed(t)
}

// overview returns a table with a row for each part: its verdict and the facts that have a column.
func (r *Report) overview() Table {
	overview := Table{Title: "Overview", Columns: []Column{{Name: "scenario", Left: true}}}
	for _, part := range r.Parts {
		row := make([]Value, len(overview.Columns))
		row[0] = Text(part.Name)
		facts := part.Facts
		if part.Verdict.Status != "" {
			facts = slices.Concat([]Fact{{Column: "verdict", Value: part.Verdict.Value()}}, facts)
		}
		for _, fact := range facts {
			if fact.Column == "" {
				continue
			}
			at := slices.IndexFunc(overview.Columns, func(c Column) bool { return c.Name == fact.Column })
			if at < 0 {
				at = len(row)
				text, _ := fact.Value.Data.(string)
				left := fact.Column == "verdict" || strings.Contains(text, " ")
				overview.Columns, row = append(overview.Columns, Column{Name: fact.Column, Note: fact.Note, Left: left}), append(row, Value{})
			}
			row[at] = fact.Value
		}
		overview.Rows = append(overview.Rows, row)
	}
	for i, row := range overview.Rows {
		overview.Rows[i] = append(row, make([]Value, len(overview.Columns)-len(row))...)
	}
	return overview
}

// text returns the table with the notes on its columns that are not yet in explained.
func (t Table) text(explained map[string]bool) string {
	if t.Title == "" || len(t.Rows) == 0 {
		return ""
	}
	writer, notes := newTable(), newTable()
	var head table.Row
	var configs []table.ColumnConfig
	for _, column := range t.Columns {
		if column.Name == "" {
			continue
		}
		head = append(head, column.Name)
		align := text.AlignRight
		if column.Left {
			align = text.AlignLeft
		}
		configs = append(configs, table.ColumnConfig{Number: len(head), Align: align, AlignHeader: align, VAlignHeader: text.VAlignBottom})
		if column.Note != "" && !explained[column.Note] {
			explained[column.Note] = true
			notes.AppendRow(table.Row{oneLine(column.Name), column.Note})
		}
	}
	writer.AppendHeader(head)
	writer.SetColumnConfigs(configs)
	for i, values := range t.Rows {
		var row table.Row
		for j, column := range t.Columns {
			if column.Name != "" {
				row = append(row, values[j])
			}
		}
		if i+1 == t.Marked {
			row = append(row, "← "+t.Mark)
		}
		writer.AppendRow(row)
	}
	text := trimmed(writer)
	if t.Title != "Overview" {
		text = t.Title + "\n\n" + text
	}
	if legend := trimmed(notes); legend != "" {
		text += "\n\n" + legend
	}
	return text
}

func oneLine(name string) string {
	return strings.TrimSpace(strings.ReplaceAll(strings.ReplaceAll(name, "-\n", ""), "\n", " "))
}

// newTable returns a table writer that draws no lines but one below the header.
func newTable() table.Writer {
	t := table.NewWriter()
	style := table.StyleLight
	style.Options = table.Options{SeparateHeader: true}
	style.Format.Header = text.FormatDefault
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	t.SetStyle(style)
	return t
}

// trimmed renders a table without spaces at the ends of lines.
func trimmed(t table.Writer) string {
	lines := strings.Split(t.Render(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}
