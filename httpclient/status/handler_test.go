package status_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/status"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

const credential = "Bot MTk4NjIyNDgzNDcxOTI1MjQ4.secret"

// bubble runs a test in virtual time with a manager and its status handler.
func bubble(t *testing.T, test func(t *testing.T, m *buckets.RESTBucketManager, h http.Handler)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := buckets.NewRESTBucketManager(buckets.WithMaxRateLimit(time.Hour))
		require.NoError(t, m.Start())
		defer m.Close()
		test(t, m, status.Handler(m))
	})
}

// get sends a request to the handler and returns the response.
func get(h http.Handler, method, target string) *http.Response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, target, nil))
	return w.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return string(text)
}

// answer is the JSON that a script gets.
type answer struct {
	AgeSeconds float64 `json:"age_seconds"`
	Status     struct {
		Time         time.Time
		State        string
		Stats        map[string]any
		Buckets      []map[string]any
		BucketsTotal int `json:"buckets_total"`
		Globals      []map[string]any
		Declared     []map[string]any
		Edges        []map[string]any
	}
	History struct {
		Time     []int64
		Waiting  []int
		InFlight []int `json:"in_flight"`
		Granted  []uint64
		Refused  map[string][]uint64
	}
}

func look(t *testing.T, h http.Handler) (a answer) {
	t.Helper()
	r := get(h, http.MethodGet, "/?format=json")
	require.Equal(t, http.StatusOK, r.StatusCode)
	require.Equal(t, "application/json", r.Header.Get("Content-Type"))
	text := body(t, r)
	require.Equal(t, fmt.Sprint(len(text)), r.Header.Get("Content-Length"))
	require.NoError(t, json.Unmarshal([]byte(text), &a))
	return a
}

func message(t *testing.T, channel string) routes.CompiledRoute {
	t.Helper()
	route, err := routes.CreateMessage.Compile(channel)
	require.NoError(t, err)
	return route
}

// use sends a request that gets the response r at once.
func use(t *testing.T, m *buckets.RESTBucketManager, route routes.CompiledRoute, r ratelimits.Response) {
	t.Helper()
	lease, err := m.Acquire(t.Context(), route, credential)
	require.NoError(t, err)
	lease.Update(r)
}

// queue starts n requests, which wait for their permits.
func queue(m *buckets.RESTBucketManager, route routes.CompiledRoute, n int) {
	for range n {
		go func() {
			lease, _ := m.Acquire(context.Background(), route, credential)
			lease.Release()
		}()
	}
	synctest.Wait()
}

func usedUp(hash string, after time.Duration) ratelimits.Response {
	return ratelimits.Response{Status: 200, Limited: true, Bucket: hash, Limit: 1, ResetAfter: after}
}

func TestJSONSaysWhatWaitsWhyAndUntilWhen(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, m *buckets.RESTBucketManager, h http.Handler) {
		use(t, m, message(t, "1"), usedUp("h", 10*time.Second))
		queue(m, message(t, "1"), 3)
		a := look(t, h)
		assert.Zero(t, a.AgeSeconds)
		assert.Equal(t, "running", a.Status.State)
		assert.EqualValues(t, 3, a.Status.Stats["waiting"])
		require.Len(t, a.Status.Buckets, 1)
		b := a.Status.Buckets[0]
		assert.Equal(t, []any{"POST /channels/{channel_id}/messages"}, b["routes"])
		assert.Equal(t, "window", b["waits_for"])
		assert.InDelta(t, 10, b["wait_seconds"], .01)
		assert.InDelta(t, 40, b["predicted_wait_seconds"], .1)
		assert.Len(t, a.Status.Globals, 1)
		assert.Len(t, a.Status.Edges, 1)
	})
}

func TestJSONSaysWhichDeclaredLimitRequestsWaitFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := buckets.NewRESTBucketManager(buckets.WithMaxRateLimit(time.Hour),
			buckets.WithLimit(buckets.ForRoute(routes.CreateMessage), 1, 10*time.Minute, buckets.PerMajor(),
				buckets.Named("slow <b>")))
		require.NoError(t, m.Start())
		defer m.Close()
		use(t, m, message(t, "1"), ratelimits.Response{Status: 200})
		queue(m, message(t, "1"), 3)
		h := status.Handler(m)
		assert.NotContains(t, body(t, get(h, http.MethodGet, "/?format=json")), "<b>")
		a := look(t, h)
		require.Len(t, a.Status.Declared, 1)
		limit := a.Status.Declared[0]
		assert.Equal(t, "slow <b>", limit["name"])
		assert.Equal(t, "1", limit["major"])
		assert.EqualValues(t, 3, limit["waiting"])
		assert.InDelta(t, 600, limit["wait_seconds"], .1)
		assert.Equal(t, "declared", a.Status.Buckets[0]["waits_for"])
		assert.Equal(t, "slow <b>", a.Status.Buckets[0]["declared"])
	})
}

// The page must explain every reason for a wait.
func TestPageExplainsAllReasons(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, _ *buckets.RESTBucketManager, h http.Handler) {
		page := body(t, get(h, http.MethodGet, "/"))
		for _, reason := range []buckets.WaitsFor{
			buckets.WaitsForWindow, buckets.WaitsForSubLimit, buckets.WaitsForShared, buckets.WaitsForDeclared,
			buckets.WaitsForGlobal,
			buckets.WaitsForEdge, buckets.WaitsForProbe, buckets.WaitsForOrdered, buckets.WaitsForOutage,
		} {
			assert.Contains(t, page, "<dt>"+string(reason)+"</dt>")
		}
	})
}

// A library's own limiter has queues that the manager cannot see. The page must say so.
func TestThePageSaysWhatItCannotSee(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, _ *buckets.RESTBucketManager, h http.Handler) {
		page := strings.Join(strings.Fields(body(t, get(h, http.MethodGet, "/"))), " ")
		assert.Contains(t, page, "This page does not show those")
		assert.Contains(t, page, "--hide-limits")
	})
}

// The page must work at any path, so its script must request the path of the page.
func TestPageIsServedBehindAnyPath(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, _ *buckets.RESTBucketManager, h http.Handler) {
		for _, target := range []string{"/", "/status", "/a/b/c/", "/a?x=1&format=html"} {
			r := get(h, http.MethodGet, target)
			require.Equal(t, http.StatusOK, r.StatusCode)
			assert.Equal(t, "text/html; charset=utf-8", r.Header.Get("Content-Type"))
			page := body(t, r)
			assert.Contains(t, page, `fetch("?format=json"`, "the script must request the page's own path")
			assert.Equal(t, http.StatusOK, get(h, http.MethodGet, strings.Split(target, "?")[0]+"?format=json").StatusCode)
		}
	})
}

func TestOnlyGETAndHEADAreAnswered(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, _ *buckets.RESTBucketManager, h http.Handler) {
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "get", "X"} {
			for _, target := range []string{"/", "/?format=json"} {
				r := get(h, method, target)
				assert.Equal(t, http.StatusMethodNotAllowed, r.StatusCode, method)
				assert.Equal(t, "GET, HEAD", r.Header.Get("Allow"))
			}
		}
		for _, target := range []string{"/", "/?format=json"} {
			assert.Equal(t, get(h, http.MethodGet, target).Header, get(h, http.MethodHead, target).Header)
		}
	})
}

// The page may run only its own script, may load nothing from elsewhere, and must not be shown in another site's frame.
func TestPolicyAllowsThePagesOwnScriptAndStyleOnly(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, _ *buckets.RESTBucketManager, h http.Handler) {
		r := get(h, http.MethodGet, "/")
		page := body(t, r)
		directives := make(map[string]string)
		for _, d := range strings.Split(r.Header.Get("Content-Security-Policy"), "; ") {
			name, value, _ := strings.Cut(d, " ")
			directives[name] = value
		}
		for element, directive := range map[string]string{"script": "script-src", "style": "style-src"} {
			found := regexp.MustCompile(`(?s)<`+element+`[^>]*>(.*?)</`+element+`>`).FindAllStringSubmatch(page, -1)
			require.Len(t, found, 1, element)
			sum := sha256.Sum256([]byte(found[0][1]))
			assert.Equal(t, "'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'", directives[directive])
		}
		assert.Equal(t, "'none'", directives["default-src"])
		assert.Equal(t, "'self'", directives["connect-src"])
		assert.Equal(t, "'none'", directives["frame-ancestors"])
		assert.Equal(t, "'none'", directives["base-uri"])
		assert.Equal(t, "nosniff", r.Header.Get("X-Content-Type-Options"))
		assert.Equal(t, "no-store", r.Header.Get("Cache-Control"))
		assert.NotContains(t, r.Header, "Access-Control-Allow-Origin")

		outside := strings.ReplaceAll(page, "http://www.w3.org/2000/svg", "") // a namespace, not an address
		assert.NotRegexp(t, `https?://|src=|@import|url\(`, outside)
		assert.NotRegexp(t, `\son[a-z]+=|\sstyle=`, page, "the policy would forbid it")
	})
}

// A server can put any text into a bucket hash, and a client any text into a path. Markup must stay text.
func TestMarkupInWhatServersSayStaysText(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, m *buckets.RESTBucketManager, h http.Handler) {
		const hostile = `"><script>alert(1)</script><img src=x onerror=alert(1)>`
		use(t, m, message(t, "1"), usedUp(hostile, time.Minute))
		queue(m, message(t, "1"), 1)
		path, err := routes.Match("GET", "/<script>/%3Cscript%3E/"+hostile)
		if err == nil {
			use(t, m, path, usedUp("h", time.Minute))
			queue(m, path, 1)
		}
		text := body(t, get(h, http.MethodGet, "/?format=json"))
		assert.NotRegexp(t, `[<>]`, text, "the JSON must have no markup, even if a browser takes it for HTML")
		assert.Contains(t, text, `\u003cscript\u003e`)
		a := look(t, h)
		assert.Equal(t, hostile, a.Status.Buckets[0]["hash"], "a script must get the hash unchanged")

		page := body(t, get(h, http.MethodGet, "/"))
		assert.NotContains(t, page, "alert", "the page itself must have no data")
		for _, parser := range []string{
			"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", "setAttribute(\"on",
			"createContextualFragment", "DOMParser", "srcdoc",
		} {
			assert.NotContains(t, page, parser, "the page must not parse data as markup")
		}
	})
}

func TestPageAndJSONTellNoToken(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, m *buckets.RESTBucketManager, h http.Handler) {
		const token = "aW50ZXJhY3Rpb246webhook-secret"
		route, err := routes.ExecuteWebhook.Compile("5", token)
		require.NoError(t, err)
		use(t, m, route, usedUp("webhook:"+token, time.Minute))
		queue(m, route, 2)
		text := body(t, get(h, http.MethodGet, "/?format=json")) + body(t, get(h, http.MethodGet, "/"))
		assert.NotContains(t, text, token)
		assert.NotContains(t, text, "secret")
		assert.NotContains(t, text, "MTk4NjIyNDgzNDcxOTI1MjQ4")
		assert.Len(t, look(t, h).Status.Buckets, 1)
	})
}

func TestViewersShareASample(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, m *buckets.RESTBucketManager, h http.Handler) {
		first := look(t, h)
		use(t, m, message(t, "1"), usedUp("h", time.Minute))
		queue(m, message(t, "1"), 1)
		time.Sleep(500 * time.Millisecond)
		second := look(t, h)
		assert.Equal(t, first.Status, second.Status)
		assert.Equal(t, first.History, second.History)
		assert.InDelta(t, .5, second.AgeSeconds, .001, "the page needs the sample's age for its countdowns")
		time.Sleep(500 * time.Millisecond)
		third := look(t, h)
		assert.Zero(t, third.AgeSeconds)
		assert.EqualValues(t, 1, third.Status.Stats["waiting"])
		assert.Len(t, third.History.Time, 2)
	})
}

func TestHistoryHasTheSamplesOfTheLastFiveMinutes(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, m *buckets.RESTBucketManager, h http.Handler) {
		use(t, m, message(t, "1"), usedUp("h", time.Hour))
		for n := range 400 {
			if n == 395 {
				queue(m, message(t, "1"), 1)
				m.UpdateRateLimits(message(t, "1"), credential,
					ratelimits.Response{Status: 429, Class: ratelimits.ClassUser, HasRetryAfter: true, RetryAfter: time.Second})
			}
			look(t, h)
			time.Sleep(time.Second)
		}
		history := look(t, h).History
		require.Len(t, history.Time, 301)
		for i := range 300 {
			require.EqualValues(t, 1000, history.Time[i+1]-history.Time[i])
		}
		assert.Equal(t, []int{0, 1}, history.Waiting[294:296])
		assert.Equal(t, []uint64{0, 1}, history.Refused["user"][294:296])
		assert.Equal(t, uint64(1), history.Granted[300])
		assert.Len(t, history.InFlight, 301)
		assert.Len(t, history.Refused, 5)
		time.Sleep(10 * time.Minute)
		assert.Len(t, look(t, h).History.Time, 1, "no samples while nobody looks")
	})
}

// A page that is still open after the manager was closed must show that the manager is closed.
func TestPageShowsAManagerThatIsClosed(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, m *buckets.RESTBucketManager, h http.Handler) {
		require.NoError(t, m.Close())
		assert.Equal(t, "closed", look(t, h).Status.State)
	})
}

func TestManyViewersLookWhileRequestsComeAndGo(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, m *buckets.RESTBucketManager, h http.Handler) {
		var all sync.WaitGroup
		for n := range 4 {
			all.Go(func() {
				for range 50 {
					if lease, err := m.Acquire(context.Background(), message(t, fmt.Sprint(n+1)), credential); err == nil {
						lease.Update(usedUp("h", 100*time.Millisecond))
					}
				}
			})
			all.Go(func() {
				for range 50 {
					assert.Equal(t, http.StatusOK, get(h, http.MethodGet, "/?format=json").StatusCode)
					time.Sleep(time.Duration(100+n) * time.Millisecond)
				}
			})
		}
		all.Wait()
	})
}

func TestHandlerWithoutAManagerPanicsAtOnce(t *testing.T) {
	t.Parallel()
	assert.PanicsWithValue(t, "status: the manager is nil: the limiter of the transport is no manager",
		func() { status.Handler(nil) })
}

// stopping stands for a transport. While rests is true, it has one credential that rests.
type stopping struct {
	lifted []string
	rests  bool
}

func (s *stopping) RestingCredentials() []httpclient.RestingCredential {
	if !s.rests {
		return nil
	}
	resting := httpclient.RestingCredential{Hash: "#12ab", Route: "GET /users/@me", Status: 401}
	resting.RetryAfter = 90 * time.Second
	return []httpclient.RestingCredential{resting}
}

func (s *stopping) LiftHolds() { s.lifted = append(s.lifted, "all") }

func (s *stopping) LiftCredential(hash string) int {
	s.lifted = append(s.lifted, hash)
	if hash != "#12ab" || !s.rests {
		return 0
	}
	s.rests = false
	return 1
}

// post sends a form as a button of the page does, and returns the status of the response.
func post(h http.Handler, form, origin string) int {
	r := httptest.NewRequest("POST", "http://127.0.0.1:8081/any/path", strings.NewReader(form))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if origin != "" {
		r.Header.Set("Origin", origin)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

func TestCredentialsThatRestAreShownAndLifted(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, m *buckets.RESTBucketManager, plain http.Handler) {
		s := &stopping{rests: true}
		h := status.Handler(m, status.WithLift(s), nil)
		const shown = `"credentials":[{"kind":"Authorization","hash":"#12ab","route":"GET /users/@me","status":401,` +
			`"retry_after_seconds":90}]`
		assert.Contains(t, body(t, get(h, "GET", "/?format=json")), shown)
		assert.NotContains(t, body(t, get(plain, "GET", "/?format=json")), `"credentials"`)
		long := strings.Repeat("x", 1<<20)
		for _, form := range []string{"", "what=", "what=x", "what=all&credential=12ab", "credential=", long} {
			assert.Equal(t, 400, post(h, form, ""), form[:min(len(form), 30)])
		}
		assert.Equal(t, 403, post(h, "what=all", "https://evil.example"))
		assert.Equal(t, 403, post(h, "credential=12ab", "null"))
		assert.Empty(t, s.lifted)
		assert.Equal(t, 404, post(h, "credential=ffff", ""))
		assert.Equal(t, 200, post(h, "credential=%2312ab", "http://127.0.0.1:8081"))
		assert.Contains(t, body(t, get(h, "GET", "/?format=json")),
			`"credentials":[]`, "the page must show the change at once")
		assert.Equal(t, 404, post(h, "credential=12ab", ""))
		assert.Equal(t, 200, post(h, "what=all", ""))
		assert.Equal(t, []string{"#ffff", "#12ab", "#12ab", "all"}, s.lifted)
		assert.Equal(t, "GET, HEAD, POST", get(h, "PUT", "/").Header.Get("Allow"))
	})
}

func TestHoldsAndTheBudgetOfTheManagerAreLifted(t *testing.T) {
	t.Parallel()
	for what, lifts := range map[string][2]bool{"holds": {true, false}, "budget": {false, true}, "all": {false, true}} {
		bubble(t, func(t *testing.T, m *buckets.RESTBucketManager, _ http.Handler) {
			h := status.Handler(m, status.WithLift(&stopping{}))
			route, err := routes.GetMyUser.Compile()
			require.NoError(t, err)
			use(t, m, route, ratelimits.Response{Status: 403})
			m.Throttle(time.Minute)
			assert.Equal(t, 200, post(h, "what="+what, ""))
			_, err = m.TryAcquire(route, credential)
			assert.Equal(t, lifts[0], err == nil, "the hold, %s: %v", what, err)
			assert.Equal(t, lifts[1], m.Stats().Invalid == 0, "the budget, %s", what)
		})
	}
}
