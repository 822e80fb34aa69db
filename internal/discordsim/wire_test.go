package discordsim

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// limitNames are the five headers that describe a bucket, as documented.
var limitNames = []string{
	"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "X-RateLimit-Reset-After", "X-RateLimit-Bucket",
}

// allNames lists the headers in limitNames, Via, and the headers of refusals.
var allNames = append(limitNames[:5:5], "Via", "Retry-After", "X-RateLimit-Scope", "X-RateLimit-Global")

func headers(response *Response, names ...string) map[string]string {
	found := make(map[string]string)
	for _, name := range names {
		if values := response.Header.Values(name); len(values) > 0 {
			found[name] = values[0]
		}
	}
	return found
}

func body(t *testing.T, response *Response) (object map[string]any) {
	t.Helper()
	require.NoError(t, json.Unmarshal(response.Body, &object))
	return object
}

func TestSuccessDescribesItsBucket(t *testing.T) {
	t.Parallel()
	w := messages(t, Rule{Hash: "abc", Quota: Fixed(5, time.Second)})
	send(w, 100*ms, 1, post)
	response := w.Handle(at(359*ms), post)
	assert.Equal(t, 200, response.Status)
	assert.Equal(t, map[string]string{
		"X-RateLimit-Limit": "5", "X-RateLimit-Remaining": "3", "X-RateLimit-Bucket": "abc",
		"X-RateLimit-Reset": "1893456001.100", "X-RateLimit-Reset-After": "0.741", "Via": "1.1 google",
	}, headers(response, allNames...))
	assert.Equal(t, "application/json", response.Header.Get("Content-Type"))
	assert.True(t, json.Valid(response.Body))
}

func TestFormsOfRefusals(t *testing.T) {
	t.Parallel()
	type fields = map[string]string
	bucket := func(limit, remaining, reset, after, retry, scope string) fields {
		return fields{
			"X-RateLimit-Limit": limit, "X-RateLimit-Remaining": remaining, "X-RateLimit-Bucket": "h",
			"X-RateLimit-Reset": reset, "X-RateLimit-Reset-After": after,
			"Retry-After": retry, "X-RateLimit-Scope": scope, "Via": "1.1 google",
		}
	}
	limited := func(message string, after float64, global bool) map[string]any {
		return map[string]any{"message": message, "retry_after": after, "global": global}
	}
	const own, resource = "You are being rate limited.", "The resource is being rate limited."
	withCode := limited(own, 599.661, false)
	withCode["code"] = 20028.0
	five := Fixed(5, second)
	tests := []struct {
		name    string
		rule    Rule
		config  func(*Config)
		before  int // requests accepted at 0
		class   Class
		headers fields
		body    map[string]any
	}{
		{"user", rule(Sliding(2, 1500*ms)), globalOf(Quota{}), 2, ClassUser,
			bucket("2", "0", "1893456001.500", "1.161", "2", "user"), limited(own, 1.161, false)},
		{"sub-limit", Rule{Quota: five, SubLimits: []SubLimit{{Quota: Fixed(1, 600*second), Code: 20028}}},
			globalOf(Quota{}), 1, ClassSubLimit, bucket("5", "3", "1893456001.000", "0.661", "600", "user"), withCode},
		{"shared", Rule{Quota: five, Shared: &SharedLimit{Quota: Fixed(1, 60*second)}}, globalOf(Quota{}), 1, ClassShared,
			bucket("5", "3", "1893456001.000", "0.661", "60", "shared"), limited(resource, 59.661, false)},
		{"global", rule(five), globalOf(Aligned(3, second, 0)), 3, ClassGlobal,
			fields{"Retry-After": "1", "X-RateLimit-Global": "true", "X-RateLimit-Scope": "global", "Via": "1.1 google"},
			limited(own, 0.661, true)},
		{"edge, JSON", rule(five), func(c *Config) { c.Edge = []EdgeBan{{Until: 10 * second, Page: PageJSON}} }, 0, ClassEdge,
			fields{"Retry-After": "10"}, map[string]any{"code": 0.0,
				"message": "This address has been blocked from the API for a while: too many rate limit violations."}},
	}
	for _, test := range tests {
		test.rule.Hash = "h"
		w := messages(t, test.rule, test.config)
		for _, status := range statuses(send(w, 0, test.before, post)) {
			require.Equal(t, 200, status, test.name)
		}
		response := w.Handle(at(339*ms), post)
		assert.Equal(t, 429, response.Status, test.name)
		assert.Equal(t, test.class, response.Class, test.name)
		assert.Equal(t, test.headers, headers(response, allNames...), test.name)
		assert.Equal(t, test.body, body(t, response), test.name)
	}
}

func TestEdgePages(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{Edge: []EdgeBan{{Until: second}, {From: second, Until: 2 * second, Silent: true}}})
	page := w.Handle(start, post)
	assert.Contains(t, page.Header.Get("Content-Type"), "text/html")
	assert.Contains(t, string(page.Body), "1015")
	assert.Equal(t, "1", page.Header.Get("Retry-After"))
	assert.Empty(t, headers(page, append(limitNames, "Via", "X-RateLimit-Scope")...))
	assert.Equal(t, "cloudflare", page.Header.Get("Server"))

	assert.NotContains(t, w.Handle(at(1500*ms), post).Header, "Retry-After")
	assert.Equal(t, 200, w.Handle(at(2*time.Second), post).Status)
}

func TestUnlimitedOperationsHaveNoHeaders(t *testing.T) {
	t.Parallel()
	for _, quota := range []Quota{{}, Unlimited()} {
		w := messages(t, Rule{Quota: quota, Status: 204}, func(c *Config) { c.Global = Unlimited() })
		for _, response := range send(w, 0, 200, post) {
			require.Equal(t, 204, response.Status)
			require.Empty(t, headers(response, limitNames...))
			require.Empty(t, response.Body)
		}
	}
}

func TestRounding(t *testing.T) {
	t.Parallel()
	tests := []struct {
		rounding Rounding
		d        time.Duration
		want     string
	}{
		{RoundUp, 0, "0.000"},
		{RoundUp, 1, "0.001"},
		{RoundUp, ms, "0.001"},
		{RoundUp, 999*ms + 1, "1.000"},
		{RoundNearest, 1499 * time.Microsecond, "0.001"},
		{RoundNearest, 1500 * time.Microsecond, "0.002"},
		{RoundDown, 1999 * time.Microsecond, "0.001"},
		{RoundDown, 65_536*time.Second + 12*ms, "65536.012"},
		{RoundDown, -1500 * time.Microsecond, "-0.002"},
		{RoundUp, -1500 * time.Microsecond, "-0.001"},
		{RoundNearest, -2 * time.Second, "-2.000"},
	}
	for _, test := range tests {
		assert.Equal(t, test.want, seconds(test.rounding.milliseconds(test.d)), "%d of %v", test.rounding, test.d)
	}
	assert.Equal(t, "0", wholeSeconds(0))
	assert.Equal(t, "1", wholeSeconds(1))
	assert.Equal(t, "1", wholeSeconds(1000))
	assert.Equal(t, "2", wholeSeconds(1001))
}

func TestClockSkewMovesDatesAndNoWaits(t *testing.T) {
	t.Parallel()
	for _, skew := range []time.Duration{-3 * time.Second, 3 * time.Second} {
		w := messages(t, Rule{Quota: Fixed(1, 2*time.Second)}, func(c *Config) { c.ClockSkew = skew })
		response := w.Handle(start, post)
		date, err := http.ParseTime(response.Header.Get("Date"))
		require.NoError(t, err)
		assert.True(t, date.Equal(start.Add(skew)))
		reset := start.Add(skew + 2*time.Second).UnixMilli()
		assert.Equal(t, seconds(reset), response.Header.Get("X-RateLimit-Reset"))
		assert.Equal(t, "2.000", response.Header.Get("X-RateLimit-Reset-After"))
		assert.Equal(t, 429, w.Handle(at(1999*ms), post).Status)
		assert.Equal(t, 200, w.Handle(at(2000*ms), post).Status)
	}
}
