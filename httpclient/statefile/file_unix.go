//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package statefile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/google/renameio/v2"
)

// lock creates the file if necessary, and locks it. The lock lasts until the result is closed or the process ends in
// any way.
func lock(path string) (io.Closer, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, ErrLocked
		}
		return nil, os.NewSyscallError("flock", err)
	}
	return unlocker{file}, nil
}

// unlocker unlocks the file before it closes the file. Closing alone might not end the lock, because a child process
// that is just being started may still have the file open.
type unlocker struct{ *os.File }

func (u unlocker) Close() error {
	return errors.Join(os.NewSyscallError("flock", syscall.Flock(int(u.Fd()), syscall.LOCK_UN)), u.File.Close())
}

// save replaces the file atomically. The names of temporary files contain newSuffix and a number. By these names, the
// function tidy finds the temporary files of this state file, and no other files.
func save(path string, data []byte) error {
	file, err := renameio.NewPendingFile(path+newSuffix,
		renameio.WithStaticPermissions(0o600), renameio.WithTempDir(filepath.Dir(path)))
	if err != nil {
		return err
	}
	defer file.Cleanup()
	if _, err := file.Write(data); err != nil {
		return err
	}
	if err := file.CloseAtomicallyReplace(); err != nil {
		return err
	}
	return os.Rename(path+newSuffix, path)
}

const newSuffix = ".new"

// tidy removes the temporary files that killed processes have left behind. The file lock must be held.
func tidy(path string) {
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+newSuffix+"[0-9]*"))
	for _, name := range left {
		_ = os.Remove(name)
	}
}
