package ratelimits

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// header makes a header from names and values, in the form in which net/http stores them.
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
	withoutRemaining := limited("5", "3", "1")
	withoutRemaining.Del("X-RateLimit-Remaining")
	for name, c := range map[string]struct {
		header http.Header
		want   Response
	}{
		"no headers":                {nil, Response{}},
		"nine digits and more":      {limited("1000000000", "00000000000000000009", "1"), says(1e9, 9, time.Second)},
		"beyond 31 bits":            {limited("5", "2147483648", "1"), Response{}},
		"signs":                     {limited("+5", "-0", "1"), says(5, 0, time.Second)},
		"decimal counts":            {limited("5.0", "3.0", "60.0"), says(5, 3, time.Minute)},
		"spaces":                    {limited(" 5 ", " 3", "1 "), says(5, 3, time.Second)},
		"beyond 16 bits of seconds": {limited("5", "0", "82721.5"), says(5, 0, 82721*time.Second+500*ms)},
		"more remaining than limit": {limited("5", "9", "1"), says(5, 5, time.Second)},
		"a week":                    {limited("5", "0", "604800"), says(5, 0, 7*24*time.Hour)},
		"more than a week":          {limited("5", "0", "604800.001"), Response{}},
		"ten thousand years":        {limited("5", "0", "315576000000"), Response{}},
		"blank reset-after":         {limited("5", "3", ""), Response{}},
		"NaN":                       {limited("5", "3", "NaN"), Response{}},
		"infinite":                  {limited("5", "3", "Inf"), Response{}},
		"beyond a float":            {limited("5", "3", "1e400"), Response{}},
		"negative reset-after":      {limited("5", "3", "-1"), Response{}},
		"negative remaining":        {limited("5", "-3", "1"), Response{}},
		"limit of zero":             {limited("0", "0", "1"), Response{}},
		"limit is much too large":   {limited("1e30", "0", "1"), Response{}},
		"error text":                {limited("5", "3", "invalid precision"), Response{}},
		"no remaining":              {withoutRemaining, Response{}},
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

func TestNoPlainSuccessAsksToWait(t *testing.T) {
	t.Parallel()
	for status, asks := range map[int]bool{
		200: false, 201: false, 202: true, 204: false, 304: true, 404: true, 429: true, 502: true, 503: true,
	} {
		for name, h := range map[string]http.Header{
			"canonical": header("Retry-After", "2"), "lower case": {"retry-after": {"2"}},
		} {
			r := ParseResponse(status, h, nil)
			assert.Equal(t, asks, r.HasRetryAfter, "%d, %s", status, name)
			assert.Equal(t, asks, r.RetryAfter == 2*time.Second, "%d, %s", status, name)
		}
	}
}

func TestRefusalWaitsForWhatHeaderAndBodySayTogether(t *testing.T) {
	t.Parallel()
	const far = `{"retry_after": 1163.5}`
	for name, c := range map[string]struct {
		header, body string
		scopeless    bool
		want         time.Duration
		absent       bool
	}{
		"header is the body rounded up":      {header: "1", body: `{"retry_after": 0.661}`, want: 661 * ms},
		"body is a whole second":             {header: "2", body: `{"retry_after": 2}`, want: 2 * time.Second},
		"body far beyond the header":         {header: "1", body: far, want: 1163*time.Second + 500*ms},
		"the same from another server":       {header: "1", body: far, scopeless: true, want: time.Second},
		"a little beyond the header":         {header: "1", body: `{"retry_after": 1.9}`, want: 1900 * ms},
		"the same in milliseconds":           {header: "0.002", body: `{"retry_after": 1.9}`, want: 2 * ms},
		"a little beyond, no scope":          {header: "1", body: `{"retry_after": 1.3}`, scopeless: true, want: 1300 * ms},
		"body in milliseconds":               {header: "0.91", body: `{"retry_after": 910}`, want: 910 * ms},
		"in milliseconds, no scope":          {header: "0.91", body: `{"retry_after": 910}`, scopeless: true, want: 910 * ms},
		"in milliseconds, header rounded up": {header: "1", body: `{"retry_after": 910}`, want: time.Second},
		"many milliseconds":                  {header: "62", body: `{"retry_after": 61500}`, want: 62 * time.Second},
		"header is when the bucket is full":  {header: "5", body: `{"retry_after": 0.5}`, want: 500 * ms}, // reset: 4.2 s
		"the same without a scope":           {header: "5", body: `{"retry_after": 0.5}`, scopeless: true, want: 500 * ms},
		"header far beyond both":             {header: "30", body: `{"retry_after": 0.5}`, want: 30 * time.Second},
		"header alone":                       {header: "7", body: `{}`, want: 7 * time.Second},
		"body alone":                         {body: `{"retry_after": 0.25}`, want: 250 * ms},
		"body alone, no scope":               {body: `{"retry_after": 90}`, scopeless: true, want: 90 * time.Second},
		"body as text":                       {header: "1", body: `{"retry_after": "0.002"}`, want: 2 * ms},
		"a billion seconds":                  {header: "1000000000", body: `{"retry_after": 1e9}`, want: 1e9 * time.Second},
		"body is much too large":             {header: "3", body: `{"retry_after": 1e9}`, want: 3 * time.Second},
		"header is much too large":           {header: "1e9", body: `{"retry_after": 3}`, want: 3 * time.Second},
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
	const long = `{"retry_after": 600}`
	threeSeconds := func(reset string) http.Header {
		return limited("5", "0", reset, "X-RateLimit-Scope", "user", "Retry-After", "3")
	}
	typed := func(t string, more ...string) http.Header { return header(append(more, "Content-Type", t)...) }
	scope := func(s string, more ...string) http.Header {
		return limited("5", "0", "1", append(more, "X-RateLimit-Scope", s)...)
	}
	for name, c := range map[string]struct {
		header http.Header
		body   string
		want   Class
	}{
		"user":                              {scope("user"), api, ClassUser},
		"shared":                            {limited("5", "4", "1", "X-RateLimit-Scope", "shared"), api, ClassShared},
		"sub-limit: the bucket has room":    {limited("5", "4", "1", "X-RateLimit-Scope", "user"), api, ClassSubLimit},
		"sub-limit: the wait is longer":     {scope("user", "Retry-After", "600"), long, ClassSubLimit},
		"user: the header is rounded up":    {threeSeconds("2.001"), "{}", ClassUser},
		"user: reset-after is rounded down": {threeSeconds("1.999"), "{}", ClassUser},
		"sub-limit: not due to rounding":    {threeSeconds("1.998"), "{}", ClassSubLimit},
		"room without scope":                {limited("5", "4", "1"), api, ClassUser},
		"a longer wait without scope":       {limited("5", "0", "1", "Retry-After", "600"), long, ClassUser},
		"global by header":                  {header("X-RateLimit-Global", "true"), api, ClassGlobal},
		"global by scope":                   {header("X-RateLimit-Scope", "global"), api, ClassGlobal},
		"global by body":                    {header("Via", "1.1 google"), `{"retry_after": 1, "global": true}`, ClassGlobal},
		"user without scope":                {limited("5", "0", "1"), api, ClassUser},
		"no headers, Discord's body":        {nil, api, ClassUser},
		"no headers, no body":               {nil, "", ClassEdge},
		"no body, through Discord's proxy":  {header("Via", "1.1 google", "Retry-After", "1"), "", ClassUser},
		"no body, no proxy":                 {header("Retry-After", "1"), "", ClassEdge},
		"page of HTML":                      {typed("text/html; charset=UTF-8"), "<!DOCTYPE html>error 1015", ClassEdge},
		"HTML of the wrong type with a Via": {typed("text/plain", "Via", "1.1 google"), " <html>", ClassEdge},
		"static JSON":                       {typed("application/json"), `{"message": "blocked", "code": 0}`, ClassEdge},
		"broken JSON with a scope":          {scope("user"), `{"retry_af`, ClassUser},
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

func TestEveryClassHasAName(t *testing.T) {
	t.Parallel()
	for class := range Class(NumClasses) {
		assert.NotContains(t, class.String(), "class(")
	}
	assert.Equal(t, "class(77)", Class(77).String())
}

// date is a time of the server's clock, and soon is three seconds later.
const date, soon = "Tue, 02 Aug 2016 21:23:43 GMT", "Tue, 02 Aug 2016 21:23:46 GMT"

// retryDate returns a header whose Retry-After is a date of the server's clock.
func retryDate(until string, more ...string) http.Header {
	return header(append([]string{"Retry-After", until, "Date", date}, more...)...)
}

// Both dates have whole seconds, so the wait may be up to a second longer than the difference between them.
func TestRetryAfterAsADateIsComparedWithTheDateOfTheSameResponse(t *testing.T) {
	t.Parallel()
	const s, absent, later = time.Second, -1, "Tue, 02 Aug 2016 21:24:03 GMT"
	full := limited("5", "0", "2.1", "X-RateLimit-Scope", "user", "Retry-After", soon, "Date", date)
	for name, c := range map[string]struct {
		status int
		header http.Header
		body   string
		wait   time.Duration
		class  Class
	}{
		"429":            {429, retryDate(soon), "{}", 4 * s, ClassEdge},
		"edge":           {429, retryDate(later, "Content-Type", "text/html"), "<html>", 21 * s, ClassEdge},
		"older form":     {429, retryDate("Tuesday, 02-Aug-16 21:23:46 GMT"), "", 4 * s, ClassEdge},
		"oldest form":    {429, retryDate("Tue Aug  2 21:23:46 2016"), "", 4 * s, ClassEdge},
		"error":          {503, retryDate(soon), "", 4 * s, ClassOK},
		"this second":    {429, retryDate(date), "", s, ClassEdge},
		"over":           {429, retryDate("Tue, 02 Aug 2016 21:00:00 GMT"), "", 0, ClassEdge},
		"far":            {429, retryDate("Tue, 02 Aug 2416 21:00:00 GMT"), "", longest, ClassEdge},
		"long over":      {429, retryDate("Tue, 02 Aug 1016 21:00:00 GMT"), "", 0, ClassEdge},
		"other case":     {429, http.Header{"retry-after": {soon}, "date": {date}}, "", 4 * s, ClassEdge},
		"precise body":   {429, retryDate(soon), `{"retry_after":2.25}`, 2250 * ms, ClassUser},
		"shorter body":   {429, retryDate(soon), `{"retry_after":1}`, 4 * s, ClassUser},
		"bucket is full": {429, full, `{"retry_after":2.1}`, 2100 * ms, ClassUser},
		"full, no body":  {429, full, "", 4 * s, ClassUser},
		"without Date":   {429, header("Retry-After", soon), "", absent, ClassEdge},
		"bad Date":       {429, header("Retry-After", soon, "Date", "now"), "", absent, ClassEdge},
		"garbage":        {429, retryDate("soon"), "", absent, ClassEdge},
		"negative":       {429, retryDate("-3"), "", absent, ClassEdge},
		"success":        {200, retryDate(soon), "", absent, ClassOK},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := ParseResponse(c.status, c.header, []byte(c.body))
			assert.Equal(t, max(c.wait, 0), r.RetryAfter)
			assert.Equal(t, c.wait != absent, r.HasRetryAfter)
			assert.Equal(t, c.class, r.Class)
		})
	}
}

// resetAlone returns a header with X-RateLimit-Reset and, unless more contains it, without X-RateLimit-Reset-After.
func resetAlone(reset string, more ...string) http.Header {
	limit := []string{"X-RateLimit-Limit", "5", "X-RateLimit-Remaining", "3", "X-RateLimit-Reset", reset}
	return header(append(limit, more...)...)
}

// The constant date is 1470173023 s after the beginning of 1970.
func TestResetAloneIsComparedWithTheDateOfTheSameResponse(t *testing.T) {
	t.Parallel()
	const s, resetAfter = time.Second, "X-RateLimit-Reset-After"
	lower := http.Header{
		"x-ratelimit-limit": {"5"}, "x-ratelimit-remaining": {"3"}, "x-ratelimit-reset": {"1470173028.25"}, "date": {date},
	}
	for name, c := range map[string]struct {
		header          http.Header
		after, rounding time.Duration
		absent          bool
	}{
		"decimals":         {header: resetAlone("1470173028.250", "Date", date), after: 5250 * ms, rounding: s},
		"whole seconds":    {header: resetAlone("1470173028", "Date", date), after: 6 * s, rounding: 3 * s},
		"an hour":          {header: resetAlone("1470176623", "Date", date), after: time.Hour + s, rounding: 3 * s},
		"over":             {header: resetAlone("1470173020.5", "Date", date), rounding: s},
		"Reset-After":      {header: resetAlone("1470173028.250", "Date", date, resetAfter, "2.5"), after: 2500 * ms},
		"other case":       {header: lower, after: 5250 * ms, rounding: s},
		"without Date":     {header: resetAlone("1470173028.250"), absent: true},
		"Date is garbage":  {header: resetAlone("1470173028.250", "Date", "now"), absent: true},
		"Reset is garbage": {header: resetAlone("soon", "Date", date), absent: true},
		"seconds to wait":  {header: resetAlone("5", "Date", date), absent: true},
		"milliseconds":     {header: resetAlone("1470173028250", "Date", date), absent: true},
		"beyond a week":    {header: resetAlone("1470777824.5", "Date", date), absent: true},
		"bad Reset-After":  {header: resetAlone("1470173028.250", "Date", date, resetAfter, "NaN"), absent: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := Response{Status: 200, Limited: true, Limit: 5, Remaining: 3, ResetAfter: c.after, ResetRounding: c.rounding}
			if c.absent {
				want = Response{Status: 200}
			}
			assert.Equal(t, want, ParseResponse(200, c.header, nil))
		})
	}
}

func TestComparingResetWithDateDoesNotAllocate(t *testing.T) {
	h := resetAlone("1470173028.250", "Date", date)
	require.True(t, ParseResponse(200, h, nil).Limited)
	require.Zero(t, testing.AllocsPerRun(100, func() { ParseResponse(200, h, nil) }))
}
