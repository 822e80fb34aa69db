package ratelimits

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// readSimply is fields.read as it would be, did its speed not matter.
func readSimply(header http.Header) fields {
	lower := func(name string) string { return "" }
	if header.Get(headerBucket) == "" && header.Get(headerLimit) == "" {
		lower = func(name string) string {
			for other, values := range header {
				if other != name && strings.EqualFold(other, name) && len(values) > 0 {
					return values[0]
				}
			}
			return ""
		}
	}
	value := func(name string) string {
		if canonical := header.Get(name); canonical != "" {
			return canonical
		}
		return lower(name)
	}
	f := fields{
		bucket: value(headerBucket), limit: value(headerLimit), remaining: value(headerRemaining),
		resetAfter: value(headerResetAfter), retryAfter: value(headerRetryAfter), global: value(headerGlobal),
		scope: value(headerScope), via: value(headerVia), contentType: value(headerType),
	}
	if f.limit != "" && f.resetAfter == "" {
		f.reset = value(headerReset)
	}
	if f.reset != "" || f.retryAfter != "" {
		f.date = value(headerDate)
	}
	return f
}

func TestFieldsAreReadLikeTheSimpleVersionDoes(t *testing.T) {
	t.Parallel()
	names := []string{
		headerBucket, headerLimit, headerRemaining, headerResetAfter, headerRetryAfter, headerGlobal, headerScope, headerVia, headerType,
		headerReset, headerDate, "X-Ratelimit-Globes",
	}
	rapid.Check(t, func(t *rapid.T) {
		header := http.Header{}
		for _, name := range names {
			switch rapid.IntRange(0, 3).Draw(t, name) { // in one case only, as the order of a map decides otherwise
			case 1:
				name = strings.ToLower(name)
			case 2:
				name = strings.ToUpper(name)
			case 3:
				continue
			}
			header[name] = rapid.SampledFrom([][]string{{"1"}, {"1.250"}, {"user", "shared"}, {""}, {}, nil}).Draw(t, "values")
		}
		var got fields
		got.read(header, http.StatusTooManyRequests)
		assert.Equal(t, readSimply(header), got, "%v", header)
		got = fields{}
		got.read(header, http.StatusOK)
		want := readSimply(header)
		for _, f := range []*fields{&want, &got} { // they are not looked at then
			f.retryAfter, f.global, f.scope, f.via, f.contentType = "", "", "", "", ""
			if f.reset == "" {
				f.date = ""
			}
		}
		assert.Equal(t, want, got, "%v", header)
	})
}

func TestFixedPointSecondsAreThoseOfFloatingPoint(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.StringMatching(`[0-9]{0,12}\.?[0-9]{0,12}`), rapid.StringMatching(`[-+]?[0-9.eE_x]{0,6}`)).Draw(t, "text")
		d, ok := parseFixed(text)
		f, sensible := parseDecimal(text)
		if ok {
			require.True(t, sensible)
			require.InDelta(t, float64(seconds(f)), float64(d), 1+float64(d)*1e-15)
		}
	})
	for text, want := range map[string]time.Duration{
		"0": 0, "1": time.Second, "0.994": 994 * time.Millisecond, "12.5": 12500 * time.Millisecond, "0.000000001": 1, "86400": 24 * time.Hour,
		"999999999.999999999": 999999999*time.Second + 999999999,
	} {
		d, ok := parseFixed(text)
		require.True(t, ok, text)
		require.Equal(t, want, d, text)
	}
	for _, text := range []string{"", ".", ".5", "1.0000000001", "1234567890", "1.2.3", "-1", "1e3", " 1"} {
		_, ok := parseFixed(text)
		require.False(t, ok, "%q is left to ParseFloat", text)
	}
}
