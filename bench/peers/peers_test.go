package main

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// eachHook runs f in virtual time, for each library with its own limiter and then with Ratelight. f must make one call
// at a time, because with two, some libraries would wait in a mutex for ever.
func eachHook(t *testing.T, f func(t *testing.T, h contender)) {
	own := limiters()
	for _, h := range append(hooks(), own[len(own)-1], own[0]) { // each library before its variants
		t.Run(h.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, h) })
		})
	}
}

// seen is a request as Discord sees it.
type seen struct {
	Method, URL   string
	Authorization string
	UserAgent     string
	ContentType   string // without the boundary
	Body          string // unless it has a boundary, which is random
}

// witness records the requests that no limit refuses.
type witness struct {
	next http.RoundTripper
	seen []seen
}

func (w *witness) RoundTrip(r *http.Request) (*http.Response, error) {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")) // empty if there is no body
	s := seen{r.Method, r.URL.String(), r.Header.Get("Authorization"), r.UserAgent(), kind, ""}
	if r.Body != nil && kind != "multipart/form-data" {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		s.Body = string(body)
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	response, err := w.next.RoundTrip(r)
	if err == nil && response.StatusCode != http.StatusTooManyRequests {
		w.seen = append(w.seen, s)
	}
	return response, err
}

// library names the library that makes a contender's calls.
func (c contender) library() string {
	name, _, _ := strings.Cut(c.name, "+")
	if name == "ratelight" {
		return "no-limiter"
	}
	return name
}

func TestTheSameCallsGiveTheSameResults(t *testing.T) {
	t.Parallel()
	refuses := func(id uint64, status int, body string) discordsim.Rule {
		path := "/channels/" + text(id) + "/**"
		return discordsim.Rule{Path: path, Quota: discordsim.Fixed(5, time.Second), Status: status, Body: body}
	}
	s := scenario{limits: usual}
	config := s.config(0, 0)
	config.Rules = append([]discordsim.Rule{
		refuses(400, 400, `{"code":50035,"message":"Invalid Form Body",`+
			`"errors":{"content":{"_errors":[{"code":"BASE_TYPE_REQUIRED","message":"…"}]}}}`),
		refuses(403, 403, `{"message":"Missing Access","code":50001}`),
		refuses(404, 404, `{"message":"Unknown Channel","code":10003}`),
	}, config.Rules...)
	results := make(map[string][]string)
	sent := make(map[string][]seen)
	eachHook(t, func(t *testing.T, h contender) {
		d := newDiscord(t, config)
		by := &witness{next: d.RoundTripper()}
		with, end := h.start(by, s)
		defer end()
		var got []string
		calls := append(repeated(1, 7, send), // more than a window
			repeated(1, 1, edit, remove, react, upload, reply, execute)...)
		for _, id := range []uint64{400, 403, 404} {
			calls = append(calls,
				call{kind: send, channel: id}, call{kind: remove, channel: id}, call{kind: upload, channel: id})
		}
		for _, c := range calls {
			err := with(t.Context(), c)
			got = append(got, fmt.Sprint(err))
			assert.Equal(t, c.channel < firstChannel, err != nil, "%v: %v", c, err)
		}
		if !h.ratelight {
			results[h.library()], sent[h.library()] = got, by.seen
			return
		}
		assert.Zero(t, d.Report().Refused.Total())
		assert.Equal(t, results[h.library()], got)
		want := slices.Clone(sent[h.library()])
		for i, s := range want { // the one difference: no Authorization where the path has a token
			if strings.Contains(s.URL, interactionToken) || strings.Contains(s.URL, webhookToken) {
				want[i].Authorization = ""
			}
		}
		assert.Equal(t, want, by.seen)
	})
}

// Another client has used up the channel, and the contender could not know this. The upload must be repeated with its
// whole body.
func TestAnUploadSurvivesARefusal(t *testing.T) {
	t.Parallel()
	s := scenario{limits: usual}
	eachHook(t, func(t *testing.T, h contender) {
		if !h.ratelight {
			t.Skip("only Ratelight promises this")
		}
		config := s.config(0, 0)
		var uploads []string
		config.Enter = func(_ *http.Request, body []byte) any {
			uploads = append(uploads, string(body))
			return nil
		}
		d := newDiscord(t, config)
		bot := discordsim.Request{Method: http.MethodPost, Path: path, Authorization: "Bot " + token}
		require.Equal(t, 5, d.Consume(bot, 5))
		with, end := h.start(d.RoundTripper(), s)
		defer end()
		require.NoError(t, with(t.Context(), call{kind: upload, channel: firstChannel, n: 1}))
		require.Len(t, uploads, 2)
		assert.Contains(t, uploads[0], "message 1")
		assert.Equal(t, uploads[0], uploads[1])
		assert.Equal(t, discordsim.ByClass{User: 1}, d.Report().Refused)
		assert.Zero(t, d.Report().Avoidable.Total())
	})
}

// All contenders get the same work. The test asserts only Ratelight's results, and logs the results of the others.
func TestNoAvoidable429WithRatelight(t *testing.T) {
	t.Parallel()
	for _, s := range scenarios(true) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			for _, c := range contenders() {
				t.Run(c.name, func(t *testing.T) {
					if c.racy && raceDetector {
						t.Skip("the library has a data race")
					}
					if leavesBehind(c, s) {
						t.Skip("the test would wait for goroutines that never end")
					}
					if !c.mutex {
						synctest.Test(t, func(t *testing.T) { judge(t, c, s, 0) })
						return
					}
					if testing.Short() || s.name != "mixed" {
						t.Skip("calls wait in a mutex, which needs real time")
					}
					t.Parallel()
					judge(t, c, s, realTime)
				})
			}
		})
	}
}

// leavesBehind reports whether the contender leaks goroutines: after cancelled calls, arikawa's goroutines wait for a
// reader of the body.
func leavesBehind(c contender, s scenario) bool {
	return s.name == "given-up" && c.name == "arikawa"
}

func judge(t *testing.T, c contender, s scenario, tolerance time.Duration) {
	r, err := measure(t.Context(), c, s, 1, tolerance)
	require.NoError(t, err)
	t.Logf("%d of %d ok, %.3f of the ideal, 429s: %v, avoidable: %v %s",
		r.OK, r.wanted(), r.efficiency(), r.Refused, r.Avoidable, r.remarks())
	assert.Zero(t, r.NeverEnded, "every call has an outcome")
	if !c.ratelight {
		return
	}
	assert.Zero(t, r.Failed, r.Error)
	assert.Zero(t, r.Refused.Total(), "no other client sends requests")
	if !c.mutex {
		assert.Greater(t, r.efficiency(), 0.8)
	}
}
