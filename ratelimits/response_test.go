package ratelimits

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// header makes a header from names and values, as net/http would have stored them.
func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

func limited(limit, remaining, resetAfter string, more ...string) http.Header {
	return header(append([]string{
		"X-RateLimit-Bucket", "abcd1234", "X-RateLimit-Limit", limit, "X-RateLimit-Remaining", remaining,
		"X-RateLimit-Reset-After", resetAfter, "Via", "1.1 google",
	}, more...)...)
}

func TestSuccessIsReadFromItsHeadersAlone(t *testing.T) {
	t.Parallel()
	r := ParseResponse(200, limited("5", "3", "1.234"), []byte(`{"retry_after": 9}`))
	assert.Equal(t, Response{
		Status: 200, Bucket: "abcd1234", Limited: true, Limit: 5, Remaining: 3, ResetAfter: 1234 * ms,
	}, r)
}

func TestNumbersThatMakeNoSenseAreAbsent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		header http.Header
		want   Response
	}{
		"no headers":                {nil, Response{}},
		"nine digits and more":      {limited("1000000000", "00000000000000000009", "1"), Response{Limited: true, Limit: 1_000_000_000, Remaining: 9, ResetAfter: time.Second}},
		"beyond 31 bits":            {limited("5", "2147483648", "1"), Response{}},
		"signs":                     {limited("+5", "-0", "1"), Response{Limited: true, Limit: 5, ResetAfter: time.Second}},
		"decimal counts":            {limited("5.0", "3.0", "60.0"), Response{Limited: true, Limit: 5, Remaining: 3, ResetAfter: time.Minute}},
		"spaces":                    {limited(" 5 ", " 3", "1 "), Response{Limited: true, Limit: 5, Remaining: 3, ResetAfter: time.Second}},
		"beyond 16 bits of seconds": {limited("5", "0", "82721.5"), Response{Limited: true, Limit: 5, ResetAfter: 82721*time.Second + 500*ms}},
		"more remaining than limit": {limited("5", "9", "1"), Response{Limited: true, Limit: 5, Remaining: 5, ResetAfter: time.Second}},
		"a week":                    {limited("5", "0", "604800"), Response{Limited: true, Limit: 5, ResetAfter: 7 * 24 * time.Hour}},
		"more than a week":          {limited("5", "0", "604800.001"), Response{}},
		"ten thousand years":        {limited("5", "0", "315576000000"), Response{}},
		"blank reset-after":         {limited("5", "3", ""), Response{}},
		"NaN":                       {limited("5", "3", "NaN"), Response{}},
		"infinite":                  {limited("5", "3", "Inf"), Response{}},
		"beyond a float":            {limited("5", "3", "1e400"), Response{}},
		"negative reset-after":      {limited("5", "3", "-1"), Response{}},
		"negative remaining":        {limited("5", "-3", "1"), Response{}},
		"limit of zero":             {limited("0", "0", "1"), Response{}},
		"limit beyond all measure":  {limited("1e30", "0", "1"), Response{}},
		"error text":                {limited("5", "3", "invalid precision"), Response{}},
		"no remaining":              {header("X-RateLimit-Bucket", "abcd1234", "X-RateLimit-Limit", "5", "X-RateLimit-Reset-After", "1"), Response{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.want.Status = 200
			if c.header != nil {
				c.want.Bucket = "abcd1234"
			}
			assert.Equal(t, c.want, ParseResponse(200, c.header, nil))
		})
	}
}

func TestHeaderNamesAreComparedWithoutCase(t *testing.T) {
	t.Parallel()
	asDiscordWritesThem := http.Header{
		"X-RateLimit-Bucket": {"abcd"}, "x-ratelimit-limit": {"5"}, "X-RATELIMIT-REMAINING": {"4"},
		"X-RateLimit-Reset-After": {"1.5"}, "retry-after": {"2"},
	}
	r := ParseResponse(503, asDiscordWritesThem, nil)
	assert.Equal(t, Response{
		Status: 503, Bucket: "abcd", Limited: true, Limit: 5, Remaining: 4, ResetAfter: 1500 * ms,
		HasRetryAfter: true, RetryAfter: 2 * time.Second,
	}, r)
}

func TestNoPlainSuccessAsksToWait(t *testing.T) {
	t.Parallel()
	for status, asks := range map[int]bool{200: false, 201: false, 202: true, 204: false, 304: true, 404: true, 429: true, 502: true, 503: true} {
		for name, h := range map[string]http.Header{"canonical": header("Retry-After", "2"), "lower case": {"retry-after": {"2"}}} {
			r := ParseResponse(status, h, nil)
			assert.Equal(t, asks, r.HasRetryAfter, "%d, %s", status, name)
			assert.Equal(t, asks, r.RetryAfter == 2*time.Second, "%d, %s", status, name)
		}
	}
}

func TestRefusalWaitsForWhatHeaderAndBodySayTogether(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		header, body string
		scopeless    bool
		want         time.Duration
		absent       bool
	}{
		"header is the body rounded up":      {header: "1", body: `{"retry_after": 0.661}`, want: 661 * ms},
		"body is a whole second":             {header: "2", body: `{"retry_after": 2}`, want: 2 * time.Second},
		"body far beyond the header":         {header: "1", body: `{"retry_after": 1163.5}`, want: 1163*time.Second + 500*ms},
		"the same from another server":       {header: "1", body: `{"retry_after": 1163.5}`, scopeless: true, want: time.Second},
		"a little beyond the header":         {header: "1", body: `{"retry_after": 1.9}`, want: 1900 * ms},
		"the same in milliseconds":           {header: "0.002", body: `{"retry_after": 1.9}`, want: 2 * ms},
		"a little beyond, no scope":          {header: "1", body: `{"retry_after": 1.3}`, scopeless: true, want: 1300 * ms},
		"body in milliseconds":               {header: "0.91", body: `{"retry_after": 910}`, want: 910 * ms},
		"in milliseconds, no scope":          {header: "0.91", body: `{"retry_after": 910}`, scopeless: true, want: 910 * ms},
		"in milliseconds, header rounded up": {header: "1", body: `{"retry_after": 910}`, want: time.Second},
		"many milliseconds":                  {header: "62", body: `{"retry_after": 61500}`, want: 62 * time.Second},
		"header is when the bucket is full":  {header: "5", body: `{"retry_after": 0.5}`, want: 500 * ms}, // reset-after is 4.2 s
		"the same without a scope":           {header: "5", body: `{"retry_after": 0.5}`, scopeless: true, want: 500 * ms},
		"header far beyond both":             {header: "30", body: `{"retry_after": 0.5}`, want: 30 * time.Second},
		"header alone":                       {header: "7", body: `{}`, want: 7 * time.Second},
		"body alone":                         {body: `{"retry_after": 0.25}`, want: 250 * ms},
		"body alone, no scope":               {body: `{"retry_after": 90}`, scopeless: true, want: 90 * time.Second},
		"body as text":                       {header: "1", body: `{"retry_after": "0.002"}`, want: 2 * ms},
		"a billion seconds":                  {header: "1000000000", body: `{"retry_after": 1e9}`, want: 1e9 * time.Second},
		"body beyond all measure":            {header: "3", body: `{"retry_after": 1e9}`, want: 3 * time.Second},
		"header beyond all measure":          {header: "1e9", body: `{"retry_after": 3}`, want: 3 * time.Second},
		"body of the wrong type":             {header: "3", body: `{"retry_after": {}}`, want: 3 * time.Second},
		"negative body":                      {header: "3", body: `{"retry_after": -1}`, want: 3 * time.Second},
		"header more than rounded up":        {header: "12", body: `{"retry_after": 11}`, want: 12 * time.Second},
		"neither":                            {body: `{}`, absent: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := limited("5", "0", "4.2")
			if !c.scopeless {
				h.Set("X-RateLimit-Scope", "user")
			}
			if c.header != "" {
				h.Set("Retry-After", c.header)
			}
			r := ParseResponse(429, h, []byte(c.body))
			assert.Equal(t, !c.absent, r.HasRetryAfter)
			assert.Equal(t, c.want, r.RetryAfter)
		})
	}
}

func TestRefusalsAreSortedIntoClasses(t *testing.T) {
	t.Parallel()
	const api = `{"message": "You are being rate limited.", "retry_after": 0.5, "global": false}`
	scope := func(s string, more ...string) http.Header {
		return limited("5", "0", "1", append(more, "X-RateLimit-Scope", s)...)
	}
	for name, c := range map[string]struct {
		header http.Header
		body   string
		want   Class
	}{
		"user":                               {scope("user"), api, ClassUser},
		"shared":                             {limited("5", "4", "1", "X-RateLimit-Scope", "shared"), api, ClassShared},
		"sub-limit: the bucket has room":     {limited("5", "4", "1", "X-RateLimit-Scope", "user"), api, ClassSubLimit},
		"sub-limit: the wait is longer":      {limited("5", "0", "1", "X-RateLimit-Scope", "user", "Retry-After", "600"), `{"retry_after": 600}`, ClassSubLimit},
		"user: the header is rounded up":     {limited("5", "0", "2.001", "X-RateLimit-Scope", "user", "Retry-After", "3"), "{}", ClassUser},
		"user: and reset-after down":         {limited("5", "0", "1.999", "X-RateLimit-Scope", "user", "Retry-After", "3"), "{}", ClassUser},
		"sub-limit: more than rounding does": {limited("5", "0", "1.998", "X-RateLimit-Scope", "user", "Retry-After", "3"), "{}", ClassSubLimit},
		"room without scope":                 {limited("5", "4", "1"), api, ClassUser},
		"a longer wait without scope":        {limited("5", "0", "1", "Retry-After", "600"), `{"retry_after": 600}`, ClassUser},
		"global by header":                   {header("Retry-After", "1", "X-RateLimit-Global", "true", "X-RateLimit-Scope", "global"), api, ClassGlobal},
		"global by scope":                    {header("X-RateLimit-Scope", "global"), api, ClassGlobal},
		"global by body":                     {header("Via", "1.1 google"), `{"retry_after": 1, "global": true}`, ClassGlobal},
		"user without scope":                 {limited("5", "0", "1"), api, ClassUser},
		"no headers, Discord's body":         {nil, api, ClassUser},
		"no headers, no body":                {nil, "", ClassEdge},
		"no body, through Discord's proxy":   {header("Via", "1.1 google", "Retry-After", "1"), "", ClassUser},
		"no body, not through it":            {header("Retry-After", "1"), "", ClassEdge},
		"page of HTML":                       {header("Content-Type", "text/html; charset=UTF-8"), "<!DOCTYPE html>error 1015", ClassEdge},
		"HTML with the wrong type and a Via": {header("Content-Type", "application/json", "Via", "1.1 google"), " <html>", ClassEdge},
		"static JSON":                        {header("Content-Type", "application/json", "Server", "cloudflare"), `{"message": "You are being blocked", "code": 0}`, ClassEdge},
		"broken JSON with a scope":           {scope("user"), `{"retry_af`, ClassUser},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, c.want, ParseResponse(429, c.header, []byte(c.body)).Class)
			assert.Equal(t, ClassOK, ParseResponse(200, c.header, []byte(c.body)).Class, "only a 429 has another class")
		})
	}
}

func TestCodeOfARefusalIsKept(t *testing.T) {
	t.Parallel()
	r := ParseResponse(429, limited("5", "0", "1"), []byte(`{"retry_after": 1, "code": 20028}`))
	assert.Equal(t, 20028, r.Code)
	assert.Equal(t, 0, ParseResponse(429, nil, []byte(`{"code": null}`)).Code)
}

func TestStampIsInMilliseconds(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"1470173023.123": 1470173023123, "1470173023": 1470173023000, "0": 0, "": 0, "soon": 0, "-1": 0, "NaN": 0, "1e300": 0,
	} {
		assert.Equal(t, want, ParseStamp(header("X-RateLimit-Reset", text)), text)
	}
	assert.Zero(t, ParseStamp(nil))
}

func TestOnlySharedRefusalsAreNotInvalid(t *testing.T) {
	t.Parallel()
	for class := range Class(NumClasses) {
		want := class != ClassOK && class != ClassShared
		assert.Equal(t, want, class.Invalid(), class)
		assert.NotContains(t, class.String(), "class(", "every class has a name")
	}
	assert.Equal(t, "class(77)", Class(77).String())
}

func TestParsingASuccessDoesNotAllocate(t *testing.T) {
	h := limited("5", "3", "1.234")
	require.Zero(t, testing.AllocsPerRun(100, func() { ParseResponse(200, h, nil) }))
	without := header("Date", "now", "Content-Type", "application/json")
	require.Zero(t, testing.AllocsPerRun(100, func() { ParseResponse(204, without, nil) }))
}

// FuzzParseResponse looks for input that makes parsing panic or return numbers that make no sense.
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
