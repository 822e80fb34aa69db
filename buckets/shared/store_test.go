package shared_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/redissim"
)

func TestStoreNeedsAnEngine(t *testing.T) {
	t.Parallel()
	var none *redissim.Server
	for _, engine := range []shared.Engine{nil, shared.OnScripts(nil), shared.OnScripts(none)} {
		_, err := shared.New(engine)
		assert.ErrorContains(t, err, "engine is nil")
	}
}

func TestNilOptionsAreIgnored(t *testing.T) {
	t.Parallel()
	_, err := shared.New(shared.OnScripts(&redissim.Server{}), nil, shared.WithApplication("my-bot"), nil)
	require.NoError(t, err)
	_, err = shared.New(shared.OnScripts(&redissim.Server{}), nil, shared.WithApplication(""))
	require.Error(t, err, "options after a nil option must count")
}

type classed struct{ error }

func (classed) Class() string { return "read-only" }

func TestErrorClass(t *testing.T) {
	t.Parallel()
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	for want, err := range map[string]error{
		"read-only":   fmt.Errorf("call: %w", classed{io.EOF}),
		"foreign-key": &shared.KeyError{Key: "k", Problem: "is a list"},
		"closed":      fmt.Errorf("call: %w", shared.ErrClosed),
		"timeout":     &shared.OutageError{Cause: context.DeadlineExceeded},
		"unreachable": &shared.OutageError{Cause: refused},
		"other":       errors.New("password is hunter2"),
	} {
		assert.Equal(t, want, shared.ErrorClass(err))
	}
	assert.Equal(t, "timeout", shared.ErrorClass(&net.DNSError{IsTimeout: true}))
	assert.Equal(t, "unreachable", shared.ErrorClass(io.EOF))
}
