//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package statefile

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// When a process is started, it has all files of its parent open until it runs its own program. When the parent closes
// the state file, the lock must end even if a process that is being started still has the file open.
func TestLockEndsWithItsFileAlsoWhileAProcessIsBeingStarted(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "limits.lock")
	first, err := lock(path)
	require.NoError(t, err)
	inherited, err := syscall.Dup(int(first.(unlocker).Fd()))
	require.NoError(t, err)
	defer syscall.Close(inherited)
	require.NoError(t, first.Close())
	second, err := lock(path)
	require.NoError(t, err)
	require.NoError(t, second.Close())
}
