package report

import (
	"encoding/json"
	"io"
	"strings"
)

// WriteJSON writes one object, or an array if the report has parts. Times are in seconds; missing values are null.
func (r *Report) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if len(r.Parts) == 0 {
		return encoder.Encode(r.object())
	}
	objects := make([]object, 0, len(r.Parts))
	for _, part := range r.Parts {
		objects = append(objects, part.object())
	}
	return encoder.Encode(objects)
}

type object map[string]any

// set sets a field. A key such as "outer.inner" sets a field of a nested object.
func (o object) set(key string, data any) {
	if outer, inner, nested := strings.Cut(key, "."); nested {
		within, _ := o[outer].(object)
		if within == nil {
			within = object{}
			o[outer] = within
		}
		within.set(inner, data)
		return
	}
	if key != "" {
		o[key] = data
	}
}

func (r *Report) object() object {
	o := object{}
	if r.Name != "" {
		o["scenario"], o["about"] = r.Name, strings.Join(r.About, "\n")
	}
	for _, fact := range r.Facts {
		o.set(fact.Key, fact.Value.Data)
	}
	for _, table := range r.Tables {
		rows := []object{}
		for _, row := range table.Rows {
			fields := object{}
			for i, value := range row {
				fields.set(table.Columns[i].Key, value.Data)
			}
			rows = append(rows, fields)
		}
		o.set(table.Key, rows)
	}
	if r.Verdict.Status != "" {
		o["verdict"] = r.Verdict.object()
	}
	return o
}

// object returns the verdict for JSON. If the verdict is not passed and has no reasons, its line is the reason.
func (v Verdict) object() object {
	if len(v.Reasons) == 0 && v.Status != Passed && v.Line != "" {
		v.Reasons = []string{v.Line}
	}
	return object{"passed": v.Good(), "status": v.Status, "reasons": append([]string{}, v.Reasons...)}
}
