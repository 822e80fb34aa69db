package trace

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ratelight/ratelight/httpclient"
)

const (
	// buffered bounds the number of recorded requests that are not written yet. Even the fastest client needs about a
	// second to send so many requests.
	buffered = 8192
	// flushAfter bounds how long a line may stay in memory.
	flushAfter = time.Second
)

// ErrClosed is returned by Close if the recorder is closed already.
var ErrClosed = errors.New("the recorder is closed already")

// Recorder writes a line for each request that a transport has finished. Get a Recorder from New, and close it at the
// end. A Recorder is safe for concurrent use, and may record several transports.
type Recorder struct {
	key     [32]byte
	entries chan entry
	stop    chan struct{}
	stopped chan struct{}
	closing sync.Once
	leftOut atomic.Uint64 // number of requests that were not recorded
	out     *bufio.Writer
	err     error // first error of the writer; only run uses this field until stopped is closed
}

// entry is one request.
type entry struct {
	at    time.Time
	event httpclient.DoneEvent
}

// New returns a recorder that writes to w from its own goroutine until Close is called. The recorder writes a request
// at most a second after the request has ended, unless w blocks.
func New(w io.Writer) *Recorder {
	r := &Recorder{
		entries: make(chan entry, buffered),
		stop:    make(chan struct{}),
		stopped: make(chan struct{}),
		out:     bufio.NewWriterSize(w, 1<<16),
	}
	_, _ = rand.Read(r.key[:]) // never fails
	go r.run()
	return r
}

// Hooks returns the hooks to pass to httpclient.Transport.AddHooks.
func (r *Recorder) Hooks() httpclient.Hooks { return httpclient.Hooks{Done: r.record} }

// LeftOut returns how many requests were not recorded because the writer was too slow or failed. It may be called at
// any time.
func (r *Recorder) LeftOut() uint64 { return r.leftOut.Load() }

// Close writes all recorded requests and returns the first error of the writer. Close waits until the writer's Write
// has returned, but does not close the writer. Requests that end after Close are not recorded. A second Close returns
// ErrClosed.
func (r *Recorder) Close() error {
	err := ErrClosed
	r.closing.Do(func() {
		close(r.stop)
		<-r.stopped
		err = r.err
	})
	return err
}

// record queues a request for run, or counts it as left out if the queue is full. It does not block.
func (r *Recorder) record(_ context.Context, e httpclient.DoneEvent) {
	select {
	case <-r.stop:
		return
	default:
	}
	e.Err = nil // an error may hold much memory
	select {
	case r.entries <- entry{time.Now().Add(-e.Took), e}:
	default:
		r.leftOut.Add(1)
	}
}

// run writes the recorded requests until Close is called. Each line is flushed within a second.
func (r *Recorder) run() {
	defer close(r.stopped)
	r.write([]byte("time,method,path\n"))
	flush := time.NewTimer(flushAfter)
	defer flush.Stop()
	for {
		select {
		case e := <-r.entries:
			if r.out.Buffered() == 0 {
				flush.Reset(flushAfter)
			}
			r.add(e)
		case <-flush.C:
			r.fail(r.out.Flush())
		case <-r.stop:
			for {
				select {
				case e := <-r.entries:
					r.add(e)
				default:
					r.fail(r.out.Flush())
					return
				}
			}
		}
	}
}

func (r *Recorder) add(e entry) {
	if r.err != nil {
		r.leftOut.Add(1)
		return
	}
	line := e.at.UTC().AppendFormat(make([]byte, 0, 128), "2006-01-02T15:04:05.000000Z,")
	r.write(append(r.appendRequest(line, &e), '\n'))
}

func (r *Recorder) write(text []byte) {
	_, err := r.out.Write(text)
	r.fail(err)
}

func (r *Recorder) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}
