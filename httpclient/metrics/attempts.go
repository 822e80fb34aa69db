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

// other is the label value for unusual methods, statuses and errors. OpenTelemetry's conventions prescribe this value.
const other = "_OTHER"

// An attempt with one of these methods and one of these statuses needs a map look-up only if it is the first attempt
// with both.
var (
	methods  = [...]string{http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodPut, http.MethodDelete}
	statuses = [...]int{200, 204, 400, 401, 403, 404, 429, 500, 502, 503}
)

// attempts measures how long attempts take, by method and outcome.
type attempts struct {
	durations *prometheus.HistogramVec
	usual     [len(methods)][len(statuses)]atomic.Pointer[observer] // saves most map look-ups; nil: not used yet
}

// observer is the series of the histogram for one set of labels.
type observer struct{ prometheus.Observer }

func newHistogram() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "http_client_request_duration_seconds", Help: "Time of each attempt, until the headers of its response.",
		Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}, // some of OpenTelemetry's bounds
	}, []string{"http_request_method", "http_response_status_code", "error_type"})
}

func (a *attempts) observe(e *httpclient.ResponseEvent) {
	seconds := inSeconds(e.Took)
	if j := slices.Index(statuses[:], e.Status); j >= 0 {
		for i, method := range methods {
			if n := len(method); len(e.Route) > n && e.Route[n] == ' ' && e.Route[:n] == method {
				a.usualSeries(i, j).Observe(seconds)
				return
			}
		}
	}
	method, _, _ := strings.Cut(e.Route, " ")
	a.seriesOf(method, e.Status, e.Err).Observe(seconds)
}

// usualSeries returns the series of a usual method and status. It creates the series at its first use.
func (a *attempts) usualSeries(method, status int) *observer {
	series := a.usual[method][status].Load()
	if series == nil {
		series = &observer{a.seriesOf(methods[method], statuses[status], nil)}
		a.usual[method][status].Store(series)
	}
	return series
}

// inSeconds is a faster Duration.Seconds. The divisions of Duration.Seconds would take longer than all other work for
// an attempt.
func inSeconds(d time.Duration) float64 { return float64(d) / float64(time.Second) }

// seriesOf returns the series of attempts with the given method that ended with the given status or error. The number
// of series is bounded, whatever clients send and whatever servers respond.
func (a *attempts) seriesOf(method string, status int, err error) prometheus.Observer {
	if !slices.Contains(methods[:], method) {
		method = other
	}
	code, failure := "", ""
	switch {
	case status == 0:
		failure = failureOf(err)
	case http.StatusText(status) == "" && (status < 520 || status > 530): // 520 to 530 are Cloudflare's
		code, failure = other, other
	default:
		code = strconv.Itoa(status)
		if status >= http.StatusBadRequest {
			failure = code
		}
	}
	return a.durations.WithLabelValues(method, code, failure)
}

// failureOf returns the label error_type of an attempt that got no response.
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
