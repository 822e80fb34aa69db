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

// readSimply is a simple and slow version of fields.read.
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
		headerBucket, headerLimit, headerRemaining, headerResetAfter, headerRetryAfter, headerGlobal, headerScope,
		headerVia, headerType, headerReset, headerDate, "X-Ratelimit-Globes",
	}
	rapid.Check(t, func(t *rapid.T) {
		header := http.Header{}
		for _, name := range names {
			switch rapid.IntRange(0, 3).Draw(t, name) { // only one spelling of a name, because the order of a map is random
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
		for _, f := range []*fields{&want, &got} { // for a success, read does not fill these fields
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
		digits, others := rapid.StringMatching(`[0-9]{0,12}\.?[0-9]{0,12}`), rapid.StringMatching(`[-+]?[0-9.eE_x]{0,6}`)
		text := rapid.OneOf(digits, others).Draw(t, "text")
		d, ok := parseFixed(text)
		f, sensible := parseDecimal(text)
		if ok {
			require.True(t, sensible)
			require.InDelta(t, float64(seconds(f)), float64(d), 1+float64(d)*1e-15)
		}
	})
	for text, want := range map[string]time.Duration{
		"0": 0, "1": time.Second, "0.994": 994 * time.Millisecond, "12.5": 12500 * time.Millisecond, "0.000000001": 1,
		"86400": 24 * time.Hour, "999999999.999999999": 999999999*time.Second + 999999999,
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

// FuzzParseResponse looks for input with which parsing panics or returns impossible numbers.
func FuzzParseResponse(f *testing.F) {
	f.Add(429, "5", "3", "1.5", "2", "user", []byte(`{"retry_after": 1.5, "global": false}`))
	f.Add(200, "NaN", "-1", "1e400", "", "", []byte(nil))
	f.Add(429, "0", "0", "Inf", "99999999999999999999", "shared", []byte("<html>"))
	f.Fuzz(func(t *testing.T, status int, limit, remaining, reset, retry, scope string, body []byte) {
		h := http.Header{}
		h.Set("X-RateLimit-Bucket", "b")
		h.Set("X-RateLimit-Limit", limit)
		h.Set("X-RateLimit-Remaining", remaining)
		h.Set("X-RateLimit-Reset-After", reset)
		h.Set("X-RateLimit-Scope", scope)
		h.Set("Retry-After", retry)
		r := ParseResponse(status, h, body)
		if r.Limited {
			require.Positive(t, r.Limit)
			require.True(t, 0 <= r.Remaining && r.Remaining <= r.Limit)
		} else {
			require.Zero(t, r.Limit)
		}
		require.True(t, 0 <= r.ResetAfter && r.ResetAfter <= longest)
		require.True(t, 0 <= r.RetryAfter && r.RetryAfter <= longest)
		require.Equal(t, status == 429, r.Class != ClassOK)
	})
}

// FuzzRefusalClass looks for a response with an impossible class or impossible numbers. The input has the header as
// lines of names and values.
func FuzzRefusalClass(f *testing.F) {
	for _, seed := range []struct{ header, body string }{
		{"", ""},
		{"Via: 1.1 google\nRetry-After: 1", ""},
		{"X-RateLimit-Scope: user\nX-RateLimit-Limit: 5\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset-After: 1",
			`{"retry_after":0.5,"code":20028}`},
		{"X-RateLimit-Scope: shared\nX-RateLimit-Remaining: 4", `{"retry_after":1163}`},
		{"X-RateLimit-Scope: global\nX-RateLimit-Global: true", `{"global":true,"retry_after":"0.3"}`},
		{"Content-Type: text/html", "<html>error 1015"},
		{"content-type: application/json\nserver: cloudflare", `{"message":"You are being blocked","code":0}`},
		{"x-ratelimit-bucket: a\nX-RATELIMIT-LIMIT: 1e9\nx-Ratelimit-Remaining: 1e10\nX-Ratelimit-Reset-After: 604800",
			`{"retry_after":[],"global":"true"}`},
		{"Retry-After: 0x1p-2\nRetry-After: 9", `{"retry_after":1e400}`},
		{"X-RateLimit-Limit: 3\nX-RateLimit-Remaining: 2\nX-RateLimit-Reset-After: 1e-9\nRetry-After: Inf",
			`{"RETRY_AFTER":5}`},
	} {
		for _, status := range []int{200, 401, 429, 503} {
			f.Add(status, seed.header, []byte(seed.body))
		}
	}
	f.Fuzz(func(t *testing.T, status int, lines string, body []byte) {
		canonical, written := http.Header{}, http.Header{}
		for line := range strings.Lines(lines) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
			name = http.CanonicalHeaderKey(name)
			canonical.Add(name, value)
			written[strings.ToLower(name)] = canonical[name]
		}
		for _, header := range []http.Header{canonical, written} {
			var got fields
			if got.read(header, http.StatusTooManyRequests); got != readSimply(header) {
				t.Fatalf("%v is read as %+v", header, got)
			}
		}
		before := string(body)
		r := ParseResponse(status, canonical, body)
		if string(body) != before {
			t.Fatal("the body was changed")
		}
		if other := ParseResponse(status, written, body); other != r {
			t.Fatalf("in lower case it is %+v instead of %+v", other, r)
		}
		if r.Status != status || r.Bucket != canonical.Get("X-RateLimit-Bucket") {
			t.Fatalf("status %d, bucket %q", r.Status, r.Bucket)
		}
		assertSensible(t, r)
		if status != http.StatusTooManyRequests {
			if other := ParseResponse(status, canonical, nil); other != r || r.Class != ClassOK || r.Code != 0 {
				t.Fatalf("the body of a %d was read: %+v", status, r)
			}
			return
		}
		assertClass(t, r, canonical)
	})
}

func assertSensible(t *testing.T, r Response) {
	t.Helper()
	switch {
	case !r.Limited && (r.Limit != 0 || r.Remaining != 0 || r.ResetAfter != 0):
		t.Fatalf("numbers without a limit: %+v", r)
	case r.Limited && (r.Limit < 1 || r.Limit > 1e9 || r.Remaining < 0 || r.Remaining > r.Limit):
		t.Fatalf("%d of %d requests", r.Remaining, r.Limit)
	case r.ResetAfter < 0 || r.ResetAfter > 7*24*time.Hour:
		t.Fatalf("a reset after %v", r.ResetAfter)
	case r.RetryAfter < 0 || r.RetryAfter > longest || !r.HasRetryAfter && r.RetryAfter != 0:
		t.Fatalf("a wait of %v", r.RetryAfter)
	case r.Code < 0:
		t.Fatalf("code %d", r.Code)
	case r.Class >= NumClasses:
		t.Fatalf("class %d", r.Class)
	}
}

// assertClass asserts that the class of a 429 does not contradict the header.
func assertClass(t *testing.T, r Response, header http.Header) {
	t.Helper()
	scope := strings.ToLower(strings.TrimSpace(header.Get("X-RateLimit-Scope")))
	flag := strings.EqualFold(strings.TrimSpace(header.Get("X-RateLimit-Global")), "true")
	switch {
	case r.Class == ClassOK:
		t.Fatal("a 429 of no class")
	case (flag || scope == "global") && r.Class != ClassGlobal:
		t.Fatalf("%v instead of global", r.Class)
	case r.Class == ClassShared && scope != "shared":
		t.Fatalf("shared with the scope %q", scope)
	case r.Class == ClassEdge && (scope != "" || r.Bucket != ""):
		t.Fatalf("edge with the scope %q and bucket %q", scope, r.Bucket)
	case scope == "shared" && !flag && r.Class != ClassShared && r.Class != ClassGlobal: // the body may say global
		t.Fatalf("%v instead of shared", r.Class)
	case r.Class == ClassSubLimit && (!r.Limited || r.Remaining == 0 && r.RetryAfter <= r.ResetAfter):
		t.Fatalf("a sub-limit of a bucket without room: %+v", r)
	case r.Invalid() != (r.Class != ClassShared):
		t.Fatalf("%v counts as %v", r.Class, r.Invalid())
	}
}
