package report

import (
	"io"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// WriteText writes the report as text. The verdict is the last line.
func (r *Report) WriteText(w io.Writer) error {
	explained := make(map[string]bool)
	paragraphs := []string{strings.Join(r.About, "\n"), factsText(r.Facts)}
	switch len(r.Parts) {
	case 0:
	case 1:
		part := r.Parts[0]
		paragraphs = append(paragraphs, part.Name+": "+strings.Join(part.About, "\n"), factsText(part.Facts))
	default:
		paragraphs = append(paragraphs, r.overview().text(explained))
	}
	for _, table := range r.Tables {
		paragraphs = append(paragraphs, table.text(explained))
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

// overview returns a table with a row for each part: its verdict and the facts that have a column. All parts have the
// same columns.
func (r *Report) overview() Table {
	overview := Table{Title: "overview"}
	for _, part := range r.Parts {
		facts := []Fact{{Column: "scenario", Value: Text(part.Name)}}
		if part.Verdict.Status != "" {
			facts = append(facts, Fact{Column: "verdict", Value: part.Verdict.cell()})
		}
		facts = slices.DeleteFunc(append(facts, part.Facts...), func(f Fact) bool { return f.Column == "" })
		columns, row := []Column(nil), []Value(nil)
		for i, fact := range facts {
			text, isText := fact.Value.Data.(string)
			isLeft := i == 0 || fact.Column == "verdict" || isText && strings.Contains(text, " ")
			columns, row = append(columns, Column{Name: fact.Column, Note: fact.Note, Left: isLeft}), append(row, fact.Value)
		}
		overview.Columns, overview.Rows = columns, append(overview.Rows, row)
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
	return strings.TrimRight(t.Title+"\n\n"+trimmed(writer)+"\n\n"+trimmed(notes), "\n")
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
