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

// DefaultInterval is how often the file is written unless WithInterval says otherwise.
const DefaultInterval = 10 * time.Second

// ErrLocked is wrapped by the error of Open while another process, or another File, keeps its state in the file.
var ErrLocked = errors.New("state file is in use")

// Keeper has a state: an *httpclient.Transport, or a *buckets.RESTBucketManager that is started.
type Keeper interface {
	WriteState(io.Writer) error
	RestoreState(io.Reader) error
	Close() error
}

// Option configures a File.
type Option func(*File)

// WithInterval sets how often the file is written. Zero or less means the default, DefaultInterval; less than a tenth of a second is
// raised to that.
func WithInterval(d time.Duration) Option {
	return func(f *File) {
		if d > 0 {
			f.interval = max(d, 100*time.Millisecond)
		}
	}
}

// WithLogger sets where it is logged that a file could not be used, or not be written. Without it that goes to slog.Default(). Nil turns
// it off.
func WithLogger(logger *slog.Logger) Option {
	return func(f *File) {
		f.log = nil
		if logger != nil {
			f.log = sparselog.New(logger)
		}
	}
}

// File is a file in which a state is kept. It is safe for concurrent use.
type File struct {
	path     string
	keeper   Keeper
	interval time.Duration
	log      *sparselog.Log // nil: nothing is logged
	setAside error
	lock     io.Closer
	start    time.Time
	stop     chan struct{}
	gone     chan struct{}
	close    sync.Once
	err      error // of Close
}

// Open restores the state that the file has, if there is one, and writes the file from then on: at once, every ten seconds, and at Close.
// Call it before the first request. Each time there is a new file in the place of the old one, so a process that is killed leaves one or
// the other.
//
// A file that is damaged, of another version or of another key is renamed to path + ".corrupt", which replaces an older one, and the
// program begins without a state: see SetAside.
//
// The errors are ErrLocked if somebody else has the file, which is told by a lock on path + ".lock" that ends with its
// process; those of the file system, and that it is no regular file; errors.ErrUnsupported on systems without such
// locks (Windows); and those of RestoreState and WriteState. Close the keeper then and send nothing with it: the file
// may still be what the process before has left at its end, and the next process would go on there, as if nothing had
// been sent since.
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
		err = f.write() // what was left by Close must not be found again after this process was killed
	}
	if err != nil {
		_ = f.lock.Close()
		return nil, err
	}
	go f.run()
	return f, nil
}

// SetAside returns why the file that Open has found could not be used, an error that wraps buckets.ErrState; nil if it could, or there was
// none.
func (f *File) SetAside() error { return f.setAside }

func (f *File) restore() error {
	info, err := os.Stat(f.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err == nil && !info.Mode().IsRegular() { // to open a pipe waits for its other end
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

// Close closes the transport or the manager, which does nothing if that was done before, after Shutdown for instance; writes the file for
// the last time, and gives it free. Closing again returns the same error.
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
	f.log.Write(context.Background(), time.Since(f.start), sparselog.Line{Level: slog.LevelWarn, Message: message, Attributes: attributes})
}
