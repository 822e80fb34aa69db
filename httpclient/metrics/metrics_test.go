package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/metrics"
	"github.com/ratelight/ratelight/internal/memoryengine"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

const messages = "https://discord.com/api/v10/channels/900000000000000001/messages"

// script is a base transport that gives its answers in order, and then repeats the last one.
type script struct {
	answers []func(*http.Request) (*http.Response, error)
	sent    int
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := s.answers[min(s.sent, len(s.answers)-1)]
	s.sent++
	time.Sleep(80 * time.Millisecond)
	return answer(r)
}

func answer(status int, header ...string) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		h := make(http.Header)
		for _, line := range header {
			name, value, _ := strings.Cut(line, ": ")
			h.Set(name, value)
		}
		return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader("{}")), Request: r}, nil
	}
}

func limits(remaining, after string) []string {
	return []string{"X-RateLimit-Bucket: a", "X-RateLimit-Limit: 1", "X-RateLimit-Remaining: " + remaining,
		"X-RateLimit-Reset-After: " + after}
}

// measured returns a transport that sends to a script, and a registry with the transport's metrics.
func measured(t *testing.T, below *script, options ...httpclient.Option) (*httpclient.Transport, *prometheus.Registry) {
	t.Helper()
	transport := httpclient.NewTransport(append(
		[]httpclient.Option{httpclient.WithBase(below), httpclient.WithLogger(nil)}, options...)...)
	t.Cleanup(func() { assert.NoError(t, transport.Close()) })
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(metrics.New(transport.Manager(), transport))
	return transport, registry
}

func get(t *testing.T, transport http.RoundTripper, url string) error {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	response, err := transport.RoundTrip(r)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// series returns the value of each series, by its name and labels. For a histogram, the name of the histogram has the
// count, and the name with the suffix _sum has the sum.
func series(t *testing.T, registry prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	all := make(map[string]float64)
	for _, family := range families {
		for _, m := range family.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			of := "{" + strings.Join(labels, ",") + "}"
			if h := m.GetHistogram(); h != nil {
				all[family.GetName()+of] = float64(h.GetSampleCount())
				all[family.GetName()+"_sum"+of] = h.GetSampleSum()
				continue
			}
			all[family.GetName()+of] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return all
}

// All counters must exist from the start: if a counter appears only with its first value, an alert sees no increase.
// Histograms with labels have no series before their first use.
func TestHistogramsHaveNoSeriesBeforeTheirFirstUse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		transport, registry := measured(t, &script{answers: []func(*http.Request) (*http.Response, error){answer(200)}})
		all := series(t, registry)
		for name, value := range all {
			assert.NotContains(t, name, "http_client_request_duration_seconds")
			assert.NotContains(t, name, "ratelight_queue_wait_seconds")
			if name != "ratelight_invalid_responses_limit{}" {
				assert.Zero(t, value, name)
			}
			assert.NotContains(t, name, "shared_", "nothing is shared")
		}
		for name, labels := range map[string][]string{
			"ratelight_responses_total{class=%s}": {"ok", "user", "shared", "sub-limit", "global", "edge"},
			"ratelight_holds{class=%s}":           {"user", "shared", "sub-limit", "global", "edge"},
			"ratelight_refusals_total{reason=%s}": {
				"too_long", "queue_full", "invalid_budget", "cancelled", "superseded", "credential", "closed",
			},
			"ratelight_retries_total{reason=%s}":   {"rate_limited", "server_error", "timeout", "connection"},
			"ratelight_overhead_seconds{%s}":       {""},
			"ratelight_requests_granted_total{%s}": {""},
		} {
			for _, label := range labels {
				assert.Contains(t, all, fmt.Sprintf(name, label))
			}
		}
		for range 80 {
			require.NoError(t, get(t, transport, messages))
		}
		used := make(map[string]bool)
		for name := range series(t, registry) {
			if _, before := all[name]; !before {
				used[name] = true
			}
		}
		const attempt = "{error_type=,http_request_method=GET,http_response_status_code=200}"
		assert.Equal(t, map[string]bool{
			"http_client_request_duration_seconds" + attempt: true, "http_client_request_duration_seconds_sum" + attempt: true,
			"ratelight_queue_wait_seconds{reason=none}": true, "ratelight_queue_wait_seconds_sum{reason=none}": true,
		}, used)
		assert.Less(t, lines(t, registry), 200, "lines of a scrape after 80 requests of one kind")
	})
}

// lines returns the number of lines of a scrape.
func lines(t *testing.T, registry prometheus.Gatherer) int {
	t.Helper()
	recorder := httptest.NewRecorder()
	handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/", nil))
	n := strings.Count(recorder.Body.String(), "\n")
	t.Logf("a scrape has %d lines", n)
	return n
}

func TestMetricsAreNamedAsPrometheusWants(t *testing.T) {
	t.Parallel()
	engine := memoryengine.New()
	defer engine.Close()
	store, err := shared.New(engine)
	require.NoError(t, err)
	manager := buckets.NewRESTBucketManager(buckets.WithShared(store))
	transport := httpclient.NewTransport(httpclient.WithLimiter(manager))
	defer transport.Close()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(metrics.New(manager, transport, nil))
	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	assert.Empty(t, problems)
	all := series(t, registry)
	for _, purpose := range []string{"swap", "beat", "part", "discover", "invalid"} {
		assert.Contains(t, all, "ratelight_shared_calls_total{purpose="+purpose+"}")
	}
}

func TestWhatHappensIsCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		below := &script{answers: []func(*http.Request) (*http.Response, error){
			answer(200, limits("0", "4")...),
			answer(429, "X-RateLimit-Scope: shared", "Retry-After: 7", "Via: 1.1 google", "X-RateLimit-Bucket: a",
				"X-RateLimit-Limit: 9", "X-RateLimit-Remaining: 8", "X-RateLimit-Reset-After: 7"),
			answer(503),
			func(*http.Request) (*http.Response, error) { return nil, errors.New("broken") },
			answer(200, limits("0", "100")...),
		}}
		transport, registry := measured(t, below, httpclient.WithMaxRateLimit(time.Minute))
		var held map[string]float64
		transport.AddHooks(httpclient.Hooks{Response: func(_ context.Context, e httpclient.ResponseEvent) {
			if e.Status == 429 {
				held = series(t, registry)
			}
		}})
		require.NoError(t, get(t, transport, messages))
		require.NoError(t, get(t, transport, messages))
		require.Error(t, get(t, transport, messages), "the request would have to wait for 100 s")
		all := series(t, registry)
		const labels = "{error_type=%s,http_request_method=GET,http_response_status_code=%s}"
		const attempt = "http_client_request_duration_seconds" + labels
		for name, want := range map[string]float64{
			fmt.Sprintf(attempt, "", "200"):                                              2,
			fmt.Sprintf(attempt, "429", "429"):                                           1,
			fmt.Sprintf(attempt, "503", "503"):                                           1,
			fmt.Sprintf(attempt, "_OTHER", ""):                                           1,
			fmt.Sprintf("http_client_request_duration_seconds_sum"+labels, "429", "429"): .08,
			"ratelight_queue_wait_seconds{reason=none}":                                  1, // the first attempt
			"ratelight_queue_wait_seconds{reason=window}":                                2,
			"ratelight_queue_wait_seconds{reason=shared}":                                2,
			"ratelight_overhead_seconds{}":                                               3,
			"ratelight_overhead_seconds_sum{}":                                           0, // work takes no virtual time
			"ratelight_requests_granted_total{}":                                         5,
			"ratelight_responses_total{class=ok}":                                        3,
			"ratelight_responses_total{class=shared}":                                    1,
			"ratelight_requests_lost_total{}":                                            1,
			"ratelight_retries_total{reason=rate_limited}":                               1,
			"ratelight_retries_total{reason=server_error}":                               1,
			"ratelight_retries_total{reason=connection}":                                 1,
			"ratelight_refusals_total{reason=too_long}":                                  1,
			"ratelight_holds{class=shared}":                                              0,
			"ratelight_hold_remaining_seconds{class=shared}":                             0,
		} {
			assert.Contains(t, all, name)
			assert.InDelta(t, want, all[name], 1e-9, name)
		}
		waited := all["ratelight_queue_wait_seconds_sum{reason=window}"] +
			all["ratelight_queue_wait_seconds_sum{reason=shared}"]
		assert.InDelta(t, transport.Manager().Stats().WaitTime.Seconds(), waited, 1e-6)
		assert.Greater(t, waited, 4.+7)
		assert.InDelta(t, 1, held["ratelight_holds{class=shared}"], 0)
		assert.InDelta(t, 7, held["ratelight_hold_remaining_seconds{class=shared}"], .1)
	})
}

// A declared limit must have exactly one series under its name, however many windows the limit has, and even while no
// request waits.
func TestWhoWaitsForADeclaredLimitIsCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		manager := buckets.NewRESTBucketManager(buckets.WithMaxRateLimit(time.Hour),
			buckets.WithKnownLimits(buckets.Crossposts),
			buckets.WithLimit(buckets.ForAll(), 1, time.Minute, buckets.Named("one \xff"), buckets.PerMajor()))
		require.NoError(t, manager.Start())
		defer manager.Close()
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(metrics.New(manager))
		for i := range 6 {
			route, err := routes.CreateMessage.Compile(strconv.Itoa(1 + i%2))
			require.NoError(t, err)
			go func() {
				lease, _ := manager.Acquire(t.Context(), route, "")
				lease.Update(ratelimits.Response{Status: 200})
			}()
		}
		synctest.Wait()
		all := series(t, registry)
		assert.InDelta(t, 4, all["ratelight_declared_limit_waiting{limit=one ?}"], 0)
		assert.InDelta(t, 0, all["ratelight_declared_limit_waiting{limit=crossposts}"], 0)
		assert.Contains(t, all, "ratelight_declared_limit_waiting{limit=crossposts}")
		time.Sleep(time.Hour)
		all = series(t, registry)
		assert.InDelta(t, 0, all["ratelight_declared_limit_waiting{limit=one ?}"], 0)
		assert.InDelta(t, 4, all["ratelight_queue_wait_seconds{reason=declared}"], 0)
	})
}

func TestRefusalsThatNoManagerKnowsAreCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const webhook = "https://discord.com/api/v10/webhooks/900000000000000001/canary-5f0c2e"
		body := `{"message": "Unknown Webhook", "code": 10015}`
		gone := func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 404, Header: http.Header{"Via": {"1.1 google"}},
				Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
		}
		transport := httpclient.NewTransport(httpclient.WithBase(&script{
			answers: []func(*http.Request) (*http.Response, error){gone},
		}), httpclient.WithLimiter(buckets.Unlimited{}))
		defer transport.Close()
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(metrics.New(nil, transport))
		require.NoError(t, get(t, transport, webhook))
		var refused *httpclient.CredentialError
		require.ErrorAs(t, get(t, transport, webhook), &refused)
		ended, end := context.WithCancel(t.Context())
		end()
		r, err := http.NewRequestWithContext(ended, http.MethodGet, messages, nil)
		require.NoError(t, err)
		_, err = transport.RoundTrip(r)
		require.ErrorIs(t, err, context.Canceled)
		all := series(t, registry)
		assert.InDelta(t, 1, all["ratelight_refusals_total{reason=credential}"], 0)
		assert.InDelta(t, 1, all["ratelight_refusals_total{reason=cancelled}"], 0, "counted by the transport")
		assert.NotContains(t, all, "ratelight_buckets{}")
		for name := range all {
			assert.NotContains(t, name, "canary")
		}
	})
}

// instant is a base transport that answers each request at once with a random status.
type instant struct{}

func (instant) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200 + rand.IntN(400), Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

func TestRandomRequestsMakeABoundedNumberOfSeries(t *testing.T) {
	t.Parallel()
	n := 1_000_000
	if testing.Short() || raceEnabled {
		n = 30_000
	}
	limiters := map[string]httpclient.Option{
		"manager": httpclient.WithBuckets(buckets.WithGlobalLimit(0), buckets.WithInvalidBudget(0, 0, 0),
			buckets.WithEviction(0, 0)),
		"none": httpclient.WithLimiter(buckets.Unlimited{}),
	}
	for name, limiter := range limiters {
		if name == "manager" {
			n = min(n, 30_000) // the manager makes a bucket for each request and keeps it for a while
		}
		transport := httpclient.NewTransport(httpclient.WithBase(instant{}), limiter, httpclient.WithLogger(nil),
			httpclient.WithAttempts(httpclient.Attempts{Retries: httpclient.NoRetries}))
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(metrics.New(transport.Manager(), transport))
		chance := rand.New(rand.NewPCG(1, 2))
		verbs := []string{"GET", "POST", "PATCH", "PUT", "DELETE", "HEAD", "OPTIONS", "PROPFIND"}
		for range n {
			id := chance.Uint64()
			path := fmt.Sprintf([]string{"/channels/%d/messages", "/webhooks/%d/canary%[1]d", "/canary%d",
				"/guilds/%d/canary/%[1]d", "/interactions/%d/canary/callback"}[chance.IntN(5)], id)
			verb := verbs[chance.IntN(len(verbs))]
			if chance.IntN(100) == 0 {
				verb = fmt.Sprintf("CANARY%d", id)
			}
			r, err := http.NewRequestWithContext(buckets.ContextWithMaxWait(t.Context(), 0), verb,
				"https://discord.com/api/v10"+path, nil)
			require.NoError(t, err)
			if response, err := transport.RoundTrip(r); err == nil {
				_ = response.Body.Close()
			}
		}
		all := series(t, registry)
		assert.Less(t, len(all), 2000, name)
		for name := range all {
			assert.NotContains(t, strings.ToLower(name), "canary")
			assert.NotRegexp(t, `[0-9]{4}`, name)
		}
		require.NoError(t, transport.Close())
	}
}

// The exported number must never become smaller, because Prometheus takes a smaller value of a counter for a restart.
func TestRequestsThatDidNotWaitNeverBecomeFewer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		manager := buckets.NewRESTBucketManager()
		require.NoError(t, manager.Start())
		defer manager.Close()
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(metrics.New(manager))
		const none = "ratelight_queue_wait_seconds{reason=none}"
		latest := 0.0
		look := func() {
			now := series(t, registry)[none]
			assert.GreaterOrEqual(t, now, latest)
			latest = now
		}
		manager.AddHooks(buckets.Hooks{Waited: func(context.Context, buckets.Waited) { look() }})
		transport := httpclient.NewTransport(httpclient.WithBase(&script{
			answers: []func(*http.Request) (*http.Response, error){answer(200, limits("0", "1")...)},
		}),
			httpclient.WithLimiter(manager))
		defer transport.Close()
		for range 3 {
			require.NoError(t, get(t, transport, messages))
			look()
		}
		assert.InDelta(t, 1, latest, 0)
	})
}

func TestMetricsAllocateNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools drop objects")
	}
	measure := func(withMetrics bool) float64 {
		transport := httpclient.NewTransport(httpclient.WithBase(ok{}), httpclient.WithBuckets(buckets.WithGlobalLimit(0)))
		defer transport.Close()
		if withMetrics {
			metrics.New(transport.Manager(), transport)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, messages, nil)
		require.NoError(t, err)
		return testing.AllocsPerRun(1000, func() { _, _ = transport.RoundTrip(r) })
	}
	assert.InDelta(t, measure(false), measure(true), .5)
}

// ok is a base transport that answers each request at once with 200 and no limit headers.
type ok struct{}

var okHeader = http.Header{}

func (ok) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: okHeader, Body: http.NoBody, Request: r}, nil
}

func TestHoldsAreThoseThatThereAreNow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		below := &script{answers: []func(*http.Request) (*http.Response, error){
			answer(429, "X-RateLimit-Scope: global", "X-RateLimit-Global: true", "Retry-After: 60", "Via: 1.1 google"),
			answer(200),
		}}
		transport, registry := measured(t, below)
		ended := make(chan error)
		go func() { ended <- get(t, transport, messages) }()
		time.Sleep(time.Second)
		synctest.Wait()
		all := series(t, registry)
		assert.InDelta(t, 1, all["ratelight_holds{class=global}"], 0)
		assert.InDelta(t, 59, all["ratelight_hold_remaining_seconds{class=global}"], .2)
		assert.InDelta(t, 59, all["ratelight_longest_predicted_wait_seconds{}"], .2)
		assert.InDelta(t, 1, all["ratelight_requests_waiting{}"], 0)
		transport.LiftHolds()
		require.NoError(t, <-ended)
		all = series(t, registry)
		assert.Zero(t, all["ratelight_holds{class=global}"], "the hold was lifted")
		assert.Zero(t, all["ratelight_longest_predicted_wait_seconds{}"])
	})
}

// If the headers of a 429 say that the bucket has room, the hold must be counted as that of a sub-limit.
func TestHoldsOfSubLimitsAreCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		below := &script{answers: []func(*http.Request) (*http.Response, error){
			answer(429, append(limits("1", "10"), "X-RateLimit-Scope: user", "Retry-After: 60", "Via: 1.1 google")...),
		}}
		transport, registry := measured(t, below, httpclient.WithMaxRateLimit(time.Second))
		require.Error(t, get(t, transport, messages), "the wait would be too long")
		all := series(t, registry)
		assert.InDelta(t, 1, all["ratelight_holds{class=sub-limit}"], 0)
		assert.InDelta(t, 60, all["ratelight_hold_remaining_seconds{class=sub-limit}"], .2)
	})
}

// superseding is a limiter of another type that rejects every request as superseded.
type superseding struct{}

func (superseding) AcquireRequest(context.Context, *buckets.Request) (buckets.Lease, error) {
	return buckets.Lease{}, &ratelimits.SupersededError{}
}

// A superseded request must count once, whether the limiter is a manager or of another type.
func TestSupersededRequestsAreCounted(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]httpclient.Option{
		"a manager":       httpclient.WithBuckets(),
		"another limiter": httpclient.WithLimiter(superseding{}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				base := &script{answers: []func(*http.Request) (*http.Response, error){answer(200)}}
				transport := httpclient.NewTransport(httpclient.WithBase(base), option)
				defer transport.Close()
				registry := prometheus.NewPedanticRegistry()
				registry.MustRegister(metrics.New(transport.Manager(), transport))
				older := make(chan error, 1)
				start := func() {
					ctx := httpclient.ContextWithLatest(context.Background())
					r, err := http.NewRequestWithContext(ctx, http.MethodGet, messages, nil)
					assert.NoError(t, err)
					_, err = transport.RoundTrip(r)
					older <- err
				}
				if m := transport.Manager(); m != nil {
					m.Throttle(time.Minute)
					go start()
					synctest.Wait()
				}
				go start()
				require.ErrorAs(t, <-older, new(*ratelimits.SupersededError))
				all := series(t, registry)
				assert.InDelta(t, 1, all["ratelight_refusals_total{reason=superseded}"], 0)
				assert.InDelta(t, 0, all["ratelight_refusals_total{reason=cancelled}"], 0)
				if transport.Manager() != nil {
					assert.NoError(t, <-older)
				}
			})
		})
	}
}
