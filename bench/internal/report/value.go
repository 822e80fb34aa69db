package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// Value is a measurement or a setting, as text for people and data for JSON. The zero value is shown as – and null.
type Value struct {
	Text   string
	Data   any
	Status Status // colours the value on the page
}

// String returns the text, or – if there is no value.
func (v Value) String() string {
	if v.Text == "" && v.Data == nil {
		return "–"
	}
	return v.Text
}

// Bad returns the value, highlighted as failed if bad is true.
func (v Value) Bad(bad bool) Value {
	if bad {
		v.Status = Failed
	}
	return v
}

// As returns the value with another text.
func (v Value) As(text string) Value {
	v.Text = text
	return v
}

// Text returns a text as a value.
func Text(text string) Value { return Value{Text: text, Data: text} }

// Data returns a value that is only in JSON, unless it gets a text.
func Data(data any) Value { return Value{Data: data} }

// Count returns a count as a value.
func Count(n int) Value { return Value{Text: fmt.Sprint(n), Data: n} }

// Time returns a measured time with about three significant digits; in JSON it is in seconds.
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

// Setting returns a configured time; in JSON it is in seconds.
func Setting(d time.Duration) Value {
	text := strconv.FormatFloat(inSeconds(d), 'f', -1, 64) + " s"
	if 0 < d && d < time.Second {
		text = strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', -1, 64) + " ms"
	}
	return Value{Text: text, Data: inSeconds(d)}
}

// Efficiency returns an efficiency with its target; 0: no target. There is no value if the efficiency is 0.
func Efficiency(x, target float64) Value {
	if x == 0 {
		return Value{}
	}
	return Value{Text: fmt.Sprintf("%.3f", x), Data: rounded(x)}.Bad(x < target)
}

// Stated returns a time, or no value if it is zero.
func Stated(d time.Duration) Value {
	if d == 0 {
		return Value{}
	}
	return Time(d)
}

// ByClass returns the number of 429s by class. Its text leaves out the classes that did not occur.
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

// Bytes returns an amount of memory.
func Bytes(n uint64) Value {
	return Value{Text: fmt.Sprintf("%.2f MB", float64(n)/(1<<20)), Data: n}
}

// inSeconds returns a time in seconds, cut to whole microseconds.
func inSeconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e6 }

func rounded(x float64) float64 { return math.Round(x*1e6) / 1e6 }
