package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/metrics"
	"github.com/ratelight/ratelight/internal/redistest"
)

const messages = "https://discord.com/api/v10/channels/900000000000000001/messages"

// script answers requests one after the other; the last answer is for all that follow.
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
	return []string{"X-RateLimit-Bucket: a", "X-RateLimit-Limit: 1", "X-RateLimit-Remaining: " + remaining, "X-RateLimit-Reset-After: " + after}
}

// measured returns a transport above a script, and the registry with its metrics.
func measured(t *testing.T, below *script, options ...httpclient.Option) (*httpclient.Transport, *prometheus.Registry) {
	t.Helper()
	transport := httpclient.NewTransport(append([]httpclient.Option{httpclient.WithBase(below), httpclient.WithLogger(nil)}, options...)...)
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

// series returns the value of every series: of a histogram the count, and below the name with _sum the sum.
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

func TestEverythingIsThereFromTheStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, registry := measured(t, &script{})
		all := series(t, registry)
		for name, value := range all {
			if name == "ratelight_invalid_responses_limit{}" {
				assert.InDelta(t, 9500, value, 0)
				continue
			}
			assert.Zero(t, value, name)
		}
		for name, labels := range map[string][]string{
			"ratelight_responses_total{class=%s}":     {"ok", "user", "shared", "sub-limit", "global", "edge"},
			"ratelight_holds{class=%s}":               {"user", "shared", "sub-limit", "global", "edge"},
			"ratelight_refusals_total{reason=%s}":     {"too_long", "queue_full", "invalid_budget", "cancelled", "credential", "closed"},
			"ratelight_retries_total{reason=%s}":      {"rate_limited", "server_error", "timeout", "connection"},
			"ratelight_queue_wait_seconds{reason=%s}": {"none", "window", "sub-limit", "shared", "global", "edge", "probe", "ordered", "outage"},
			"http_client_request_duration_seconds{error_type=,http_request_method=%s,http_response_status_code=200}": {"GET", "POST", "PATCH", "PUT", "DELETE"},
			"http_client_request_duration_seconds{error_type=%[1]s,http_request_method=GET,http_response_status_code=%[1]s}": {
				"400", "401", "403", "404", "429", "500", "502", "503",
			},
			"http_client_request_duration_seconds{error_type=%s,http_request_method=GET,http_response_status_code=}": {"timeout", "canceled", "_OTHER"},
			"ratelight_overhead_seconds{%s}":       {""},
			"ratelight_requests_granted_total{%s}": {""},
		} {
			for _, label := range labels {
				assert.Contains(t, all, fmt.Sprintf(name, label))
			}
		}
		for name := range all {
			assert.NotContains(t, name, "shared_", "nothing is shared")
		}
	})
}

func TestMetricsAreNamedAsPrometheusWants(t *testing.T) {
	t.Parallel()
	store, err := shared.NewStore(redistest.NewMemory(t).Runner(), shared.WithApplication("test"))
	require.NoError(t, err)
	defer store.Close()
	manager := buckets.NewRESTBucketManager(buckets.WithShared(store))
	transport := httpclient.NewTransport(httpclient.WithManager(manager))
	defer transport.Close()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(metrics.New(manager, transport, nil))
	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	assert.Empty(t, problems)
	all := series(t, registry)
	for _, script := range []string{"swap", "beat", "part", "discover", "invalid"} {
		assert.Contains(t, all, "ratelight_shared_calls_total{script="+script+"}")
	}
}
