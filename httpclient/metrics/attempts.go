package metrics

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ratelight/ratelight/httpclient"
)

// other stands for what is not known, in the words of OpenTelemetry's conventions.
const other = "_OTHER"

// The methods of Discord's API, and how attempts mostly end.
var (
	methods  = [...]string{http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodPut, http.MethodDelete}
	statuses = [...]int{200, 204, 400, 401, 403, 404, 429, 500, 502, 503}
)

// attempts are how long attempts take, by method and outcome.
type attempts struct {
	durations *prometheus.HistogramVec
	usual     [len(methods)][len(statuses)]atomic.Pointer[observer] // so that most need no look at a map
}

// observer is a series of the histogram.
type observer struct{ prometheus.Observer }

func newHistogram() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "http_client_request_duration_seconds", Help: "Time of each attempt, until the headers of its response.",
		Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}, // of those that OpenTelemetry recommends
	}, []string{"http_request_method", "http_response_status_code", "error_type"})
}

func (a *attempts) observe(e *httpclient.ResponseEvent) {
	seconds := inSeconds(e.Took)
	if j := slices.Index(statuses[:], e.Status); j >= 0 {
		for i, method := range methods {
			if n := len(method); len(e.Route) > n && e.Route[n] == ' ' && e.Route[:n] == method {
				a.ofUsual(i, j).Observe(seconds)
				return
			}
		}
	}
	method, _, _ := strings.Cut(e.Route, " ")
	a.of(method, e.Status, e.Err).Observe(seconds)
}

// ofUsual returns the series of a usual method and status, which begins when it is asked for.
func (a *attempts) ofUsual(method, status int) *observer {
	series := a.usual[method][status].Load()
	if series == nil {
		series = &observer{a.of(methods[method], statuses[status], nil)}
		a.usual[method][status].Store(series)
	}
	return series
}

// inSeconds is Duration.Seconds without its divisions, which take longer than the rest.
func inSeconds(d time.Duration) float64 { return float64(d) / float64(time.Second) }

// of returns what counts attempts with such an end. There is a bounded number of them, whatever is requested and answered.
func (a *attempts) of(method string, status int, err error) prometheus.Observer {
	if !slices.Contains(methods[:], method) {
		method = other
	}
	code, failure := "", ""
	switch {
	case status == 0:
		failure = failureOf(err)
	case http.StatusText(status) == "" && (status < 520 || status > 530): // those are Cloudflare's
		code, failure = other, other
	default:
		code = strconv.Itoa(status)
		if status >= http.StatusBadRequest {
			failure = code
		}
	}
	return a.durations.WithLabelValues(method, code, failure)
}

// failureOf returns why there was no response.
func failureOf(err error) string {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	}
	return other
}
