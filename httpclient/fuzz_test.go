package httpclient_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/ratelight/ratelight/httpclient"
)

// These are the bits of the fuzz argument named choice. They say how the server answers, and which request is sent.
const (
	bodyBreaksOff = 1 << iota
	bodyNeverEnds
	namesAsWritten // the names of headers are not canonical
	sentOnce       // the request's body can be sent only once
	toWebhook
	toInteraction
	noAttemptTimeout
	hideAndAuthorize
)

// FuzzTransportResponse looks for a response after which a request panics, never ends, or leaves a body open or a lease
// unreleased. The first attempts get that response, later attempts succeed.
func FuzzTransportResponse(f *testing.F) {
	for _, status := range []int{0, -1, 101, 200, 202, 204, 304, 401, 403, 404, 429, 500, 503, 529, 999} {
		f.Add(status, "", []byte(nil), uint8(1), uint8(0))
		f.Add(status, "Retry-After: 1\nX-RateLimit-Bucket: a\nX-RateLimit-Limit: 5\nX-RateLimit-Remaining: 0\n"+
			"X-RateLimit-Reset-After: 1.5", []byte(`{"code":10015,"retry_after":0.5}`), uint8(3), uint8(toWebhook))
	}
	for _, seed := range []struct {
		header, body string
		choice       uint8
	}{
		{"Retry-After: 0\nX-RateLimit-Scope: user", `{"retry_after":0}`, 0},
		{"Retry-After: 1e300\nX-RateLimit-Scope: shared", `{"retry_after":1e300}`, 0},
		{"Retry-After: NaN\nX-RateLimit-Scope: global\nVia: 1.1 google", `{"retry_after":null,"global":true}`, toInteraction},
		{"Content-Type: text/html", "<!DOCTYPE html>error 1015", sentOnce},
		{"x-ratelimit-limit: -1\nx-ratelimit-remaining: 99\nx-ratelimit-reset-after: Inf",
			`{"retry_after":-1}`, namesAsWritten | bodyBreaksOff},
		{"Content-Length: 5\nTransfer-Encoding: chunked\n: \nno colon", "\x00\xff", bodyNeverEnds | hideAndAuthorize},
	} {
		f.Add(429, seed.header, []byte(seed.body), uint8(200), seed.choice)
		f.Add(503, seed.header, []byte(seed.body), uint8(200), seed.choice|noAttemptTimeout)
	}
	f.Fuzz(func(t *testing.T, status int, header string, body []byte, times, choice uint8) {
		synctest.Test(t, func(t *testing.T) {
			fuzzed := &fuzzedAnswer{status: status, header: header, body: body, times: int(times), choice: choice}
			fuzzed.check(t)
		})
	})
}

// fuzzedAnswer is a base transport that gives the same response to the first attempts.
type fuzzedAnswer struct {
	status    int
	header    string
	body      []byte
	times     int
	choice    uint8
	sent      int
	responses ledger
}

func (a *fuzzedAnswer) has(choice uint8) bool { return a.choice&choice != 0 }

func (a *fuzzedAnswer) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		r.Body.Close()
	}
	a.sent++
	response := &http.Response{StatusCode: a.status, Header: make(http.Header), ContentLength: -1, Request: r}
	if a.sent > a.times {
		response.StatusCode, response.Body = http.StatusOK, a.responses.open(strings.NewReader("served"))
		return response, nil
	}
	for line := range strings.Lines(a.header) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if !a.has(namesAsWritten) {
			name = http.CanonicalHeaderKey(name)
		}
		response.Header[name] = append(response.Header[name], value)
	}
	parts := []io.Reader{bytes.NewReader(a.body)}
	if a.has(bodyBreaksOff) {
		parts = append(parts, iotest.ErrReader(io.ErrUnexpectedEOF))
	}
	closers := closers{a.responses.open(nil)}
	if a.has(bodyNeverEnds) {
		endless := stall(24*time.Hour, strings.NewReader(""))
		endless.context = r.Context()
		parts, closers = append(parts, endless), append(closers, endless)
	}
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(parts...), closers}
	return response, nil
}

// check sends a request, and then another one.
func (a *fuzzedAnswer) check(t *testing.T) {
	var options []httpclient.Option
	if a.has(noAttemptTimeout) {
		options = append(options, noTimeout)
	}
	if a.has(hideAndAuthorize) {
		options = append(options, httpclient.WithoutRateLimitHeaders())
	}
	transport := newTransport(t, a, options...)
	for range 2 {
		a.send(t, transport)
		assertNothingHeld(t, transport)
	}
	if opened, closed := a.responses.opened.Load(), a.responses.closed.Load(); opened != closed {
		t.Errorf("%d responses, of which %d were closed", opened, closed)
	}
	if most := 2 * (a.times + 2); a.sent > most {
		t.Errorf("sent %d times, although only the first %d attempts fail", a.sent, a.times)
	}
}

func (a *fuzzedAnswer) send(t *testing.T, transport *httpclient.Transport) {
	const patience = 30 * time.Minute
	ctx := within(t, patience)
	path := messages
	switch {
	case a.has(toWebhook):
		path = webhook
	case a.has(toInteraction):
		path = followUp
	}
	var requests ledger
	r := newRequest(t, http.MethodPut, path, `{"content":"hello"}`).WithContext(ctx)
	r.Header.Set("Authorization", "Bot "+botSecret)
	r.Body = requests.open(r.Body)
	if a.has(sentOnce) {
		r.GetBody, r.ContentLength = nil, httpclient.DefaultMaxBufferedBody+1
	}
	start := time.Now()
	response, err := transport.RoundTrip(r)
	if took := time.Since(start); took > patience {
		t.Errorf("it took %v", took)
	}
	requests.assertClosed(t)
	if (response == nil) == (err == nil) {
		t.Fatalf("response %v and error %v", response, err)
	}
	if err != nil {
		assertNoSecretIn(t, err)
		return
	}
	a.look(t, response)
}

// look asserts that a response is complete.
func (a *fuzzedAnswer) look(t *testing.T, response *http.Response) {
	content, err := io.ReadAll(response.Body)
	response.Body.Close()
	served := response.StatusCode == http.StatusOK && string(content) == "served"
	if served {
		return
	}
	if response.StatusCode != a.status {
		t.Errorf("status %d became %d", a.status, response.StatusCode)
	}
	if err == nil && a.has(bodyBreaksOff|bodyNeverEnds) {
		t.Error("a body that breaks off ended without an error")
	}
	if err != nil && !a.has(bodyBreaksOff|bodyNeverEnds) {
		t.Errorf("a whole body broke off: %v", err)
	}
	if !bytes.HasPrefix(content, a.body) || len(content) > len(a.body) {
		t.Errorf("%d bytes became %d", len(a.body), len(content))
	}
}
