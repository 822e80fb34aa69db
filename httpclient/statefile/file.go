package statefile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/sparselog"
)

// DefaultInterval is the time between two writes of the file, unless WithInterval sets another time.
const DefaultInterval = 10 * time.Second

// ErrLocked is wrapped by the error of Open while another process, or another File, uses the file.
var ErrLocked = errors.New("state file is in use by another process, perhaps one that is still shutting down")

// Keeper has the state that a File stores: an *httpclient.Transport, or a started *buckets.RESTBucketManager.
type Keeper interface {
	WriteState(io.Writer) error
	RestoreState(io.Reader) error
	Close() error
}

// Option configures a File.
type Option func(*File)

// WithInterval sets the time between two writes of the file. Zero or less means DefaultInterval. The minimum is a tenth
// of a second.
func WithInterval(d time.Duration) Option {
	return func(f *File) {
		if d > 0 {
			f.interval = max(d, 100*time.Millisecond)
		}
	}
}

// WithLogger sets the logger. A File logs a warning when the file cannot be used or cannot be written. The default is
// slog.Default(). Nil turns logging off.
func WithLogger(logger *slog.Logger) Option {
	return func(f *File) {
		f.log = nil
		if logger != nil {
			f.log = sparselog.New(logger)
		}
	}
}

// File stores a state in a file. It is safe for concurrent use.
type File struct {
	path     string
	keeper   Keeper
	interval time.Duration
	log      *sparselog.Log // nil means that nothing is logged
	setAside error
	lock     io.Closer
	start    time.Time
	stop     chan struct{}
	gone     chan struct{}
	close    sync.Once
	err      error // returned by Close
}

// If the file exists, Open restores the state from it. Then Open writes the file at once. After that, the File writes
// the state every ten seconds (see WithInterval) and at Close. Call Open before the first request. Each write
// atomically replaces the file, so a process that is killed leaves a complete file.
//
// If the file is damaged, or was written by another version or with another key, Open renames the file to path +
// ".corrupt". The renamed file replaces an older file of that name. The program then begins without a state, see
// SetAside.
//
// The errors are ErrLocked if another process or File uses the file, and errors.ErrUnsupported on systems without file
// locks (Windows). Other errors are those of the file system, an error if the file is not a regular file, and those of
// RestoreState and WriteState. The lock is on the file path + ".lock", and ends when the process ends. After an error,
// close the keeper and send nothing with it. The file may still contain the state from the end of the previous process,
// and the next process would then continue from that state as if nothing had been sent since.
func Open(path string, keeper Keeper, options ...Option) (*File, error) {
	f := &File{
		path: path, keeper: keeper, interval: DefaultInterval, log: sparselog.New(nil), start: time.Now(),
		stop: make(chan struct{}), gone: make(chan struct{}),
	}
	for _, option := range options {
		if option != nil {
			option(f)
		}
	}
	var err error
	if f.lock, err = lock(path + ".lock"); err != nil {
		return nil, fmt.Errorf("locking the state file %s: %w", path, err)
	}
	tidy(path)
	if err = f.restore(); err == nil {
		err = f.write() // so that, after a kill, the file does not look like that of a clean end
	}
	if err != nil {
		_ = f.lock.Close()
		return nil, err
	}
	go f.run()
	return f, nil
}

// SetAside returns the error because of which Open renamed the existing file. The error wraps buckets.ErrState. It is
// nil if Open could use the file, or if there was no file.
func (f *File) SetAside() error { return f.setAside }

func (f *File) restore() error {
	info, err := os.Stat(f.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err == nil && !info.Mode().IsRegular() { // opening a pipe would block
		return fmt.Errorf("the state file %s is no regular file", f.path)
	}
	file, err := os.Open(f.path)
	if err != nil {
		return fmt.Errorf("opening the state file: %w", err)
	}
	defer file.Close()
	err = f.keeper.RestoreState(file)
	if !errors.Is(err, buckets.ErrState) {
		return err
	}
	f.setAside = fmt.Errorf("state file %s: %w", f.path, err)
	f.warn("state file cannot be used, beginning without it", err, slog.String("renamed_to", f.path+".corrupt"))
	return os.Rename(f.path, f.path+".corrupt")
}

func (f *File) run() {
	defer close(f.gone)
	ticker := time.NewTicker(f.interval)
	defer ticker.Stop()
	for {
		select {
		case <-f.stop:
			return
		case <-ticker.C:
			if err := f.write(); err != nil && !errors.Is(err, buckets.ErrClosed) {
				f.warn("state file cannot be written", err)
			}
		}
	}
}

func (f *File) write() error {
	var b bytes.Buffer
	if err := f.keeper.WriteState(&b); err != nil {
		return err
	}
	if err := save(f.path, b.Bytes()); err != nil {
		return fmt.Errorf("writing the state file: %w", err)
	}
	return nil
}

// Close closes the transport or the manager, which may already be closed (for example by Shutdown). Then Close writes
// the file for the last time, and unlocks it. A second call returns the same error.
func (f *File) Close() error {
	f.close.Do(func() {
		close(f.stop)
		<-f.gone
		f.err = errors.Join(f.keeper.Close(), f.write(), f.lock.Close())
		f.log.Flush(time.Since(f.start), true)
	})
	return f.err
}

func (f *File) warn(message string, err error, more ...slog.Attr) {
	attributes := append(more, slog.String("path", f.path), slog.String("error", err.Error()))
	line := sparselog.Line{Level: slog.LevelWarn, Message: message, Attributes: attributes}
	f.log.Write(context.Background(), time.Since(f.start), line)
}
