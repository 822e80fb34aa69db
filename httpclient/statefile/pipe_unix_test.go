//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package statefile_test

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient/statefile"
)

// Open must reject a pipe without opening it, because the call that opens it would block until another process opens
// the pipe for writing.
func TestAPipeIsNoStateFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	_, err := statefile.Open(path, nil)
	require.ErrorContains(t, err, "regular file")
}
