package pages

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Setting is a setting of which several values were tried. In a chart they stand side by side at equal distances.
type Setting struct {
	Name   string
	Values []string // in their order
	// Marked is the index of the value that stands out, and Mark says why. -1: none does.
	Marked int
	Mark   string
}

// Outcome is a line: a number for each value of a setting. What is not finite is left out.
type Outcome struct {
	Name   string
	Values []float64
}

// Outcomes is a chart of up to four lines over the values of a setting, and a table of them.
func Outcomes(title string, setting Setting, y Axis, outcomes ...Outcome) Chart {
	outcomes = outcomes[:min(len(outcomes), mostSeries)]
	data := curvesData{
		Kind: "curves", X: axisData{Label: setting.Name, Names: setting.Values}, Y: axisData{Label: y.String(), Unit: y.Unit},
	}
	chart := Chart{Title: title, Table: outcomesTable(setting, y, outcomes)}
	if len(setting.Values) == 0 || len(outcomes) == 0 {
		return Chart{Title: title, Summary: "Nothing was measured."}
	}
	var words []string
	for i, o := range outcomes {
		drawn := seriesData{Name: o.Name, X: []float64{}, Y: []float64{}}
		for at := range setting.Values {
			if value := o.at(at); !math.IsNaN(value) {
				drawn.X, drawn.Y = append(drawn.X, float64(at)), append(drawn.Y, significant(value))
			}
		}
		data.Series = append(data.Series, drawn)
		words = append(words, o.words(setting, y))
		chart.Legend = append(chart.Legend, Legend{fmt.Sprintf("line series-%d", i), o.Name})
	}
	if setting.marks() {
		data.Marked = &setting.Marked
		chart.Legend = append(chart.Legend, Legend{"marked", setting.Mark + ": " + setting.Values[setting.Marked]})
	}
	chart.Summary = strings.Join(words, " ")
	chart.data = data
	return chart
}

func (s Setting) marks() bool { return s.Marked >= 0 && s.Marked < len(s.Values) }

// at is the number for a value of the setting. NaN: there is none.
func (o Outcome) at(i int) float64 {
	if i >= len(o.Values) || math.IsInf(o.Values[i], 0) {
		return math.NaN()
	}
	return o.Values[i]
}

// words says what the first value, the one that stands out and the last one lead to.
func (o Outcome) words(setting Setting, y Axis) string {
	if len(o.Values) > 1 && slices.Min(o.Values) == slices.Max(o.Values) { // neither is so if there is a NaN
		return fmt.Sprintf("%s: always %s.", capital(o.Name), withUnit(o.Values[0], y.Unit))
	}
	var words []string
	for i, name := range setting.Values {
		marked := setting.marks() && i == setting.Marked
		if value := o.at(i); !math.IsNaN(value) && (marked || i == 0 || i == len(setting.Values)-1) {
			text := withUnit(value, y.Unit) + " with " + name
			if marked {
				text += " (" + setting.Mark + ")"
			}
			words = append(words, text)
		}
	}
	if len(words) == 0 {
		return capital(o.Name) + ": nothing was measured."
	}
	return capital(o.Name) + ": " + strings.Join(words, ", ") + "."
}

func outcomesTable(setting Setting, y Axis, outcomes []Outcome) Table {
	table := Table{Columns: []string{setting.Name}}
	for _, o := range outcomes {
		table.Columns = append(table.Columns, Axis{o.Name, y.Unit}.String())
	}
	for i, name := range setting.Values {
		row := Texts(name)
		for _, o := range outcomes {
			text := "–"
			if value := o.at(i); !math.IsNaN(value) {
				text = decimal(value)
			}
			row = append(row, Cell{Text: text})
		}
		table.Rows = append(table.Rows, row)
	}
	return table
}
