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
	}, headers(response, append(limitNames, "Via", "Retry-After", "X-RateLimit-Scope", "X-RateLimit-Global")...))
	assert.Equal(t, "application/json", response.Header.Get("Content-Type"))
	assert.True(t, json.Valid(response.Body))
}

func TestFormsOfRefusals(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		rule    Rule
		config  func(*Config)
		before  int // requests accepted at 0
		class   Class
		headers map[string]string
		body    map[string]any
	}{
		{
			name: "user", rule: Rule{Hash: "h", Quota: Sliding(2, 1500*ms)}, before: 2, class: ClassUser,
			headers: map[string]string{
				"X-RateLimit-Limit": "2", "X-RateLimit-Remaining": "0", "X-RateLimit-Bucket": "h", "Retry-After": "2",
				"X-RateLimit-Reset": "1893456001.500", "X-RateLimit-Reset-After": "1.161",
				"X-RateLimit-Scope": "user", "Via": "1.1 google",
			},
			body: map[string]any{"message": "You are being rate limited.", "retry_after": 1.161, "global": false},
		},
		{
			name: "sub-limit", before: 1, class: ClassSubLimit,
			rule: Rule{
				Hash: "h", Quota: Fixed(5, time.Second),
				SubLimits: []SubLimit{{Quota: Fixed(1, 600*time.Second), Code: 20028}},
			},
			headers: map[string]string{
				"X-RateLimit-Limit": "5", "X-RateLimit-Remaining": "3", "X-RateLimit-Bucket": "h", "Retry-After": "600",
				"X-RateLimit-Reset": "1893456001.000", "X-RateLimit-Reset-After": "0.661",
				"X-RateLimit-Scope": "user", "Via": "1.1 google",
			},
			body: map[string]any{
				"message": "You are being rate limited.", "retry_after": 599.661, "global": false, "code": 20028.0,
			},
		},
		{
			name: "shared", before: 1, class: ClassShared,
			rule: Rule{Hash: "h", Quota: Fixed(5, time.Second), Shared: &SharedLimit{Quota: Fixed(1, 60*time.Second)}},
			headers: map[string]string{
				"X-RateLimit-Limit": "5", "X-RateLimit-Remaining": "3", "X-RateLimit-Bucket": "h", "Retry-After": "60",
				"X-RateLimit-Reset": "1893456001.000", "X-RateLimit-Reset-After": "0.661",
				"X-RateLimit-Scope": "shared", "Via": "1.1 google",
			},
			body: map[string]any{"message": "The resource is being rate limited.", "retry_after": 59.661, "global": false},
		},
		{
			name: "global", before: 3, class: ClassGlobal, rule: Rule{Quota: Fixed(5, time.Second)},
			config: func(c *Config) { c.Global = Aligned(3, time.Second, 0) },
			headers: map[string]string{
				"Retry-After": "1", "X-RateLimit-Global": "true", "X-RateLimit-Scope": "global", "Via": "1.1 google",
			},
			body: map[string]any{"message": "You are being rate limited.", "retry_after": 0.661, "global": true},
		},
		{
			name: "edge, JSON", class: ClassEdge, rule: Rule{Quota: Fixed(5, time.Second)},
			config:  func(c *Config) { c.Edge = []EdgeBan{{Until: 10 * time.Second, Page: PageJSON}} },
			headers: map[string]string{"Retry-After": "10"},
			body:    map[string]any{"message": "This address has been blocked from the API for a while: too many rate limit violations.", "code": 0.0},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			config := func(*Config) {}
			if test.config != nil {
				config = test.config
			}
			w := messages(t, test.rule, config)
			for _, status := range statuses(send(w, 0, test.before, post)) {
				require.Equal(t, 200, status)
			}
			response := w.Handle(at(339*ms), post)
			assert.Equal(t, 429, response.Status)
			assert.Equal(t, test.class, response.Class)
			assert.Equal(t, test.headers,
				headers(response, append(limitNames, "Via", "Retry-After", "X-RateLimit-Scope", "X-RateLimit-Global")...))
			assert.Equal(t, test.body, body(t, response))
		})
	}
}

func TestEdgePages(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{Edge: []EdgeBan{{Until: time.Second}, {From: time.Second, Until: 2 * time.Second, Silent: true}}})
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
