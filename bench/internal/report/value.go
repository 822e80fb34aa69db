package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// Value is something measured or chosen: how people read it, and what it is in JSON. The zero value says that there is none: – and null.
type Value struct {
	Text   string
	Data   any
	Bar    float64 // on the page, a part of 1; 0: none
	Target float64 // a mark on the bar
	Status Status  // colours it on the page
}

// String is the value as people read it.
func (v Value) String() string {
	if v.Text == "" && v.Data == nil {
		return "–"
	}
	return v.Text
}

// Bad is the same value, made to stand out if it should have been otherwise.
func (v Value) Bad(bad bool) Value {
	if bad {
		v.Status = Failed
	}
	return v
}

// As is the same value with another text.
func (v Value) As(text string) Value {
	v.Text = text
	return v
}

// Text is a text.
func Text(text string) Value { return Value{Text: text, Data: text} }

// List is some texts, an array in JSON.
func List(texts []string) Value {
	return Value{Text: strings.Join(texts, ", "), Data: append([]string{}, texts...)}
}

// Data is only for JSON.
func Data(data any) Value { return Value{Data: data} }

// Count is a number of things.
func Count(n int) Value { return Value{Text: fmt.Sprint(n), Data: n} }

// Number has so many decimals, and a unit unless that is empty.
func Number(x float64, decimals int, unit string) Value {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return Value{}
	}
	return Value{Text: fmt.Sprintf("%.*f%s", decimals, x, unit), Data: rounded(x)}
}

// Time is a time that was measured, in three or so digits that mean something; seconds in JSON.
func Time(d time.Duration) Value {
	text := ""
	switch {
	case d == 0:
		text = "0 s"
	case d < 100*time.Microsecond:
		text = fmt.Sprintf("%d µs", d.Round(time.Microsecond).Microseconds())
	case d < 10*time.Millisecond:
		text = fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
	case d < time.Second:
		text = fmt.Sprintf("%d ms", d.Round(time.Millisecond).Milliseconds())
	case d < time.Minute:
		text = fmt.Sprintf("%.2f s", d.Seconds())
	default:
		text = strings.Replace(d.Round(time.Second).String(), "m0s", "m", 1)
		text = strings.Replace(text, "h0m", "h", 1)
	}
	return Value{Text: text, Data: inSeconds(d)}
}

// Setting is a time that was asked for; seconds in JSON.
func Setting(d time.Duration) Value {
	text := strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + " s"
	if 0 < d && d < time.Second {
		text = strconv.FormatFloat(1000*d.Seconds(), 'f', -1, 64) + " ms"
	}
	return Value{Text: text, Data: inSeconds(d)}
}

// Share is a part of the whole, from 0 to 1, in as many digits as it takes to tell it from nothing, from all, and from the others.
func Share(x float64, others ...float64) Value {
	decimals := 2
	if x >= 0.1 {
		decimals = 1
	}
	text := func(x float64) string { return strconv.FormatFloat(100*x, 'f', decimals, 64) }
	for _, other := range append([]float64{0, 1}, others...) {
		for x != other && text(x) == text(other) && decimals < 12 {
			decimals++
		}
	}
	return Value{Text: strings.TrimSuffix(text(x), ".00") + " %", Data: rounded(x)}
}

// Efficiency is a part of an ideal, with the least that is wanted, if anything is. 0 is not stated.
func Efficiency(x, target float64) Value {
	if x == 0 {
		return Value{}
	}
	v := Value{Text: fmt.Sprintf("%.3f", x), Data: rounded(x), Bar: x, Target: target}
	return v.Bad(x < target)
}

// Stated is a time, or nothing if it is zero.
func Stated(d time.Duration) Value {
	if d == 0 {
		return Value{}
	}
	return Time(d)
}

// ByClass counts 429s. It leaves out the classes that did not occur.
func ByClass(c discordsim.ByClass) Value {
	var parts []string
	data := map[string]int{"all": c.Total()}
	for _, class := range []struct {
		n         int
		name, key string
	}{
		{c.User, "user", "user"}, {c.SubLimit, "sub-limit", "sub_limit"}, {c.Shared, "shared", "shared"},
		{c.Global, "global", "global"}, {c.Edge, "edge", "edge"},
	} {
		data[class.key] = class.n
		if class.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", class.n, class.name))
		}
	}
	if len(parts) == 0 {
		parts = []string{"0"}
	}
	return Value{Text: strings.Join(parts, ", "), Data: data}
}

// Bytes is an amount of memory.
func Bytes(n uint64) Value {
	return Value{Text: fmt.Sprintf("%.2f MB", float64(n)/(1<<20)), Data: n}
}

// Value is the verdict in a cell of a table, and what JSON has of it.
func (v Verdict) Value() Value {
	word := map[Status]string{Passed: "ok", Failed: "MISSED", NotJudged: "not judged", Stalled: "stalled", Interrupted: "cut off"}[v.Status]
	return Value{Text: word, Data: v.object(), Status: v.Status}
}

// inSeconds leaves out digits that mean nothing.
func inSeconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e6 }

func rounded(x float64) float64 { return math.Round(x*1e6) / 1e6 }
