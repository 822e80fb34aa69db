package main

import (
	"bytes"
	"io"
	"math/rand/v2"
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
	"github.com/ratelight/ratelight/ratelimits"
)

const (
	channel = 900_000_000_000_000_000
	path    = "/api/v10/channels/900000000000000000/messages"
)

// newTestDiscord returns a simulated Discord that is closed in the end.
func newTestDiscord(t *testing.T, config discordsim.Config) *simulated {
	t.Helper()
	config.Latency = discordsim.RoundTrip(50 * time.Millisecond)
	d, err := newSimulated(config)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, d.server.Close()) })
	return d
}

// open opens a hook for the length of a test.
func open(t *testing.T, h contender, base http.RoundTripper) client {
	t.Helper()
	with, end, err := h.open(base, scenario{})
	require.NoError(t, err)
	t.Cleanup(end)
	return with
}

// eachHook runs f in virtual time, for each library as it is and then with Ratelight under it. One call at a time: with two,
// some would wait in a mutex for ever.
func eachHook(t *testing.T, f func(t *testing.T, h contender)) {
	own := limiters()
	for _, h := range append(hooks(), own[len(own)-1], own[0]) {
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

// witness notes what comes by and is not refused by a limit.
type witness struct {
	next http.RoundTripper
	seen []seen
}

func (w *witness) RoundTrip(r *http.Request) (*http.Response, error) {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")) // none with no body
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

// answered is what a call has returned.
type answered struct {
	Message message
	Failed  bool
	Error   apiError
}

func answer(t *testing.T, m message, err error) answered {
	t.Helper()
	if err == nil {
		return answered{Message: m}
	}
	e, ok := explain(err)
	require.True(t, ok, "%v", err)
	return answered{Failed: true, Error: e}
}

func TestTheSameCallsGiveTheSameResults(t *testing.T) {
	t.Parallel()
	file := make([]byte, 300_000)
	for i := range file {
		file[i] = byte(rand.IntN(256))
	}
	refuses := func(id string, status int, body string) discordsim.Rule {
		return discordsim.Rule{Path: "/channels/" + id + "/**", Quota: discordsim.Fixed(5, time.Second), Status: status, Body: body}
	}
	config := discordsim.Config{Rules: []discordsim.Rule{
		refuses("400", 400, `{"code":50035,"errors":{"content":{"_errors":[{"code":"BASE_TYPE_REQUIRED","message":"This field is required"}]}},"message":"Invalid Form Body"}`),
		refuses("403", 403, `{"message":"Missing Access","code":50001}`),
		refuses("404", 404, `{"message":"Unknown Channel","code":10003}`),
	}}
	plain := make(map[string][]answered)
	sent := make(map[string][]seen)
	eachHook(t, func(t *testing.T, h contender) {
		d := newTestDiscord(t, config)
		by := &witness{next: d}
		c := open(t, h, by)
		var got []answered
		note := func(m message, err error) { got = append(got, answer(t, m, err)) }
		only := func(err error) { note(message{}, err) }

		for range 7 { // more than a window
			note(c.Send(channel, "hello, \u2764 \"<&>\""))
		}
		note(c.Edit(channel, firstMessage+1, "changed"))
		only(c.Delete(channel, firstMessage+1))
		only(c.React(channel, firstMessage+1, "🔥"))
		only(c.React(channel, firstMessage+1, "thonk:123123"))
		note(c.Upload(channel, "noise.bin", file))
		only(c.Reply(1, interactionToken, "pong"))
		note(c.Webhook(2, webhookToken, "from a webhook"))
		for _, id := range []uint64{400, 403, 404} {
			note(c.Send(id, "refused"))
			only(c.Delete(id, firstMessage))
			note(c.Upload(id, "noise.bin", file))
		}

		assert.Equal(t, message{firstMessage + 1, channel, "hello, \u2764 \"<&>\"", "", 0}, got[0].Message)
		assert.Equal(t, message{firstMessage + 9, channel, "", "noise.bin", len(file)}, got[11].Message)
		assert.Equal(t, 50035, got[14].Error.Code)
		require.Len(t, d.uploads(), 1)
		assert.True(t, bytes.Equal(file, d.uploads()[0]), "the file has changed on its way")
		if !h.ratelight {
			plain[h.library], sent[h.library] = got, by.seen
			return
		}
		assert.Zero(t, d.server.Report().Refused.Total())
		assert.Equal(t, plain[h.library], got)
		want := slices.Clone(sent[h.library])
		for i, s := range want { // the one difference: no Authorization where the path has a token
			if strings.Contains(s.URL, interactionToken) || strings.Contains(s.URL, webhookToken) {
				want[i].Authorization = ""
			}
		}
		assert.Equal(t, want, by.seen)
	})
}

// Somebody else has used the channel up, which nobody could know. Without us the outcome is the library's affair.
func TestAnUploadSurvivesARefusal(t *testing.T) {
	t.Parallel()
	file := bytes.Repeat([]byte("0123456789abcdef"), 10_000)
	eachHook(t, func(t *testing.T, h contender) {
		d := newTestDiscord(t, discordsim.Config{})
		bot := discordsim.Request{Method: http.MethodPost, Path: path, Authorization: "Bot " + token}
		require.Equal(t, 5, d.server.Consume(bot, 5))
		m, err := open(t, h, d).Upload(channel, "file.bin", file)
		report := d.server.Report()
		if !h.ratelight {
			t.Logf("429s: %s; error: %v; bytes that arrived: %d of %d", listed(byClass(report.Refused)), err, m.Size, len(file))
			return
		}
		require.NoError(t, err)
		assert.Equal(t, len(file), m.Size)
		require.Len(t, d.uploads(), 1)
		assert.True(t, bytes.Equal(file, d.uploads()[0]), "the file has changed on its way")
		assert.Equal(t, discordsim.ByClass{User: 1}, report.Refused)
		assert.Zero(t, report.Avoidable.Total())
	})
}

func TestAWaitThatIsTooLongIsSaidThroughTheLibrary(t *testing.T) {
	t.Parallel()
	eachHook(t, func(t *testing.T, h contender) {
		if !h.ratelight {
			t.Skip("it would wait for an hour")
		}
		d := newTestDiscord(t, discordsim.Config{Default: &discordsim.Rule{Path: "**", Quota: discordsim.Fixed(1, time.Hour)}})
		c := open(t, h, d)
		_, err := c.Send(channel, "goes")
		require.NoError(t, err)
		start := time.Now()
		_, err = c.Send(channel, "would have to wait")
		var tooLong *ratelimits.TooLongError
		require.ErrorAs(t, err, &tooLong)
		assert.InDelta(t, time.Hour, tooLong.Wait, float64(time.Second))
		assert.Zero(t, time.Since(start), "it does not wait to say so")
		assert.Equal(t, 1, d.server.Report().Requests)
	})
}

// The same work side by side. What is asserted is our part; the rest is reported.
func TestNoAvoidable429WithRatelight(t *testing.T) {
	t.Parallel()
	for _, s := range scenarios(true) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			everybody, err := findContenders("all")
			require.NoError(t, err)
			for _, c := range everybody {
				t.Run(c.name, func(t *testing.T) {
					if c.racy && raceDetector {
						t.Skip("it has a data race of its own")
					}
					if leavesBehind(c, s) {
						t.Skip("what never ends, a test would wait for")
					}
					if !c.mutex {
						synctest.Test(t, func(t *testing.T) { judge(t, c, s, 0) })
						return
					}
					if testing.Short() || s.name != "mixed" {
						t.Skip("waits in a mutex, and so needs real time")
					}
					t.Parallel()
					judge(t, c, s, realTime)
				})
			}
		})
	}
}

// leavesBehind: of calls that are given up arikawa keeps goroutines that wait for somebody to read the body.
func leavesBehind(c contender, s scenario) bool {
	return s.name == "given-up" && c.name == "arikawa"
}

func judge(t *testing.T, c contender, s scenario, tolerance time.Duration) {
	r, err := measure(t.Context(), c, s, settings{seed: 1, tolerance: tolerance})
	require.NoError(t, err)
	t.Logf("%d of %d ok, %.3f of the ideal, 429s: %s, avoidable: %s %s", r.OK, r.Calls-r.GivenUp, r.Efficiency,
		listed(r.Refused), listed(r.Avoidable), remarks(r))
	assert.Equal(t, r.Calls-r.GivenUp, r.OK+r.Failed, "every call has one outcome")
	if !c.ratelight {
		return
	}
	assert.Zero(t, r.Failed, r.Error)
	assert.Empty(t, r.Avoidable)
	assert.Empty(t, r.Refused, "nobody else is there")
	if !c.mutex {
		assert.Greater(t, r.Efficiency, 0.8)
	}
}
