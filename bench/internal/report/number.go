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

// digits rounds a number to so many digits, but no digit before the point away.
func digits(x float64, n int) float64 {
	if x == 0 || math.IsNaN(x) {
		return 0
	}
	return round(x, max(n-1-int(math.Floor(math.Log10(math.Abs(x)))), 0))
}

// significant leaves out digits that no picture shows.
func significant(x float64) float64 { return digits(x, 7) }

func withUnit(x float64, unit string) string {
	return strings.TrimSpace(strconv.FormatFloat(digits(x, 4), 'f', -1, 64) + " " + unit)
}

func capital(text string) string {
	if text == "" {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
