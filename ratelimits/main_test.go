package ratelimits

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
