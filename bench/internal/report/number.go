package report

import (
	"math"
	"strconv"
	"strings"
)

func round(x float64, decimals int) float64 {
	scale := math.Pow(10, float64(decimals))
	return math.Round(x*scale) / scale
}

// significant leaves out digits that no picture shows.
func significant(x float64) float64 {
	if x == 0 || math.IsNaN(x) {
		return 0
	}
	return round(x, max(6-int(math.Floor(math.Log10(math.Abs(x)))), 0))
}

// decimal shows a number with about four digits.
func decimal(x float64) string {
	digits := 3
	switch size := math.Abs(x); {
	case size >= 1000:
		digits = 0
	case size >= 100:
		digits = 1
	case size >= 10:
		digits = 2
	case size < 0.1 && size > 1e-9:
		digits = 2 - int(math.Floor(math.Log10(size)))
	}
	text := strconv.FormatFloat(x, 'f', digits, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
	}
	return text
}

func withUnit(x float64, unit string) string { return strings.TrimSpace(decimal(x) + " " + unit) }

func capital(text string) string {
	if text == "" {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
