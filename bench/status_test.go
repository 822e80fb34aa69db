package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient/status"
	"github.com/ratelight/ratelight/ratelimits"
)

// BenchmarkStatus takes the status of a manager with a million buckets: when requests wait in a thousand of them, and
// when they wait in a hundred thousand.
func BenchmarkStatus(b *testing.B) {
	b.Run("waiting=1000", func(b *testing.B) { benchmarkStatus(b, 1000) })
	b.Run("waiting=100000", func(b *testing.B) { benchmarkStatus(b, crowd) })
}

func benchmarkStatus(b *testing.B, waiting int) {
	manager := buckets.NewRESTBucketManager(buckets.WithLogger(nil), buckets.WithMaxRateLimit(24*time.Hour))
	require.NoError(b, manager.Start())
	defer manager.Close()
	response := ratelimits.Response{Status: 200, Limited: true, Bucket: "80c17d2f203122d936070c88c8d10f33", Limit: 1, ResetAfter: time.Hour}
	for channel := range million {
		manager.UpdateRateLimits(messageTo(b, channel), authorization, response)
	}
	for channel := range waiting {
		go func() { _, _ = manager.Acquire(context.Background(), messageTo(b, channel), authorization) }()
	}
	for manager.Stats().Waiting < waiting {
		runtime.Gosched()
	}
	require.GreaterOrEqual(b, manager.Stats().Buckets, million) // UNKNOWN, too, unless this took so long that it is forgotten
	for b.Loop() {
		s := manager.Status(100)
		if s.BucketsTotal != waiting || len(s.Buckets) != 100 {
			b.Fatalf("%d buckets are busy, %d are shown", s.BucketsTotal, len(s.Buckets))
		}
	}
	b.ReportMetric(b.Elapsed().Seconds()*1000/float64(b.N), "ms/status")
	start, page := time.Now(), 0
	for page < 100 { // what the page asks for, with a sample each time
		w := httptest.NewRecorder()
		status.Handler(manager).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/?format=json", nil))
		require.Equal(b, http.StatusOK, w.Code)
		page++
	}
	b.ReportMetric(time.Since(start).Seconds()*1000/float64(page), "ms/page")
}
