package processes

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

const (
	// readyWithin is how long a process may take to open what it needs.
	readyWithin = 20 * time.Second
	// endWithin is how long a process may take to end before it is killed.
	endWithin = 5 * time.Second
)

// worker is a child as its parent sees it.
type worker struct {
	number int
	in     io.Closer
	lines  *lines
	kill   func() // ends the process at once; may be called more than once
	wait   func() error
	lost   func()

	ready  chan struct{} // closed when it is, or never will be
	done   chan struct{} // closed when no more records will come
	exited chan struct{}

	mu     sync.Mutex
	failed error // why it is not ready, or ended early
	killed bool  // on purpose
	isDone bool
}

// launch is how a process is started: its input, its output, and how to end it and wait for that.
type launch func() (in io.WriteCloser, out io.Reader, kill func(), wait func() error, err error)

// start starts a process. record is called for each of its requests, one call at a time, and lost if the process fails.
func start(number int, launch launch, record func(Record), lost func()) (*worker, error) {
	in, out, kill, wait, err := launch()
	if err != nil {
		return nil, fmt.Errorf("process %d cannot be started: %w", number+1, err)
	}
	w := &worker{
		number: number, in: in, lines: &lines{w: in}, kill: kill, wait: wait, lost: lost,
		ready: make(chan struct{}), done: make(chan struct{}), exited: make(chan struct{}),
	}
	go w.listen(out, record)
	return w, nil
}

// listen follows what the process says until it has exited.
func (w *worker) listen(out io.Reader, record func(Record)) {
	defer close(w.exited)
	ready := sync.OnceFunc(func() { close(w.ready) })
	err := read(out, func(line message) {
		switch {
		case line.Ready:
			ready()
		case line.Failed != "":
			w.fail(errors.New(line.Failed))
			ready()
		case line.Request != nil:
			record(*line.Request)
		case line.Done:
			w.finish()
		}
	})
	if err != nil {
		w.fail(err)
		w.kill() // it may never end by itself, and nobody would read what it says
	}
	err = w.wait()
	w.mu.Lock()
	early := !w.isDone && !w.killed && w.failed == nil
	w.mu.Unlock()
	if early {
		w.fail(fmt.Errorf("ended early: %w", orNoReason(err)))
	}
	ready()
	w.finish()
}

var errNoReason = errors.New("it does not say why")

func orNoReason(err error) error {
	if err == nil {
		return errNoReason
	}
	return err
}

func (w *worker) fail(err error) {
	w.mu.Lock()
	if w.failed == nil {
		w.failed = fmt.Errorf("process %d: %w", w.number+1, err)
	}
	w.mu.Unlock()
	w.lost()
}

func (w *worker) finish() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.isDone {
		w.isDone = true
		close(w.done)
	}
}

func (w *worker) err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}

// tell writes a command. That nobody reads it is seen elsewhere.
func (w *worker) tell(c command) { _ = w.lines.write(c) }

// awaitReady returns when the process is ready, or why it is not.
func (w *worker) awaitReady() error {
	timer := time.NewTimer(readyWithin)
	defer timer.Stop()
	select {
	case <-w.ready:
		return w.err()
	case <-timer.C:
		return fmt.Errorf("process %d is not ready after %v", w.number+1, readyWithin)
	}
}

// shoot kills the process as an accident would.
func (w *worker) shoot() {
	w.mu.Lock()
	w.killed = true
	w.mu.Unlock()
	w.kill()
	<-w.exited
}

// end asks the process to end, and kills it if it does not.
func (w *worker) end() {
	var telling sync.WaitGroup
	defer telling.Wait()
	telling.Go(func() {
		w.tell(command{End: true}) // blocks if the process does not read
		_ = w.in.Close()
	})
	timer := time.NewTimer(endWithin)
	defer timer.Stop()
	select {
	case <-w.exited:
	case <-timer.C:
		w.kill()
		<-w.exited
		_ = w.in.Close()
	}
}

// program starts this program again.
func program(executable string) launch {
	return func() (io.WriteCloser, io.Reader, func(), func() error, error) {
		command := exec.Command(executable)
		command.Env = append(os.Environ(), ChildVariable+"=1")
		complaint := &tail{}
		command.Stderr = complaint
		in, err := command.StdinPipe()
		if err != nil {
			return nil, nil, nil, nil, err
		}
		out, err := command.StdoutPipe()
		if err != nil {
			return nil, nil, nil, nil, err
		}
		if err := command.Start(); err != nil {
			return nil, nil, nil, nil, err
		}
		kill := func() { _ = command.Process.Kill() } // it may be gone already
		wait := func() error {
			err := command.Wait()
			if err != nil && complaint.String() != "" {
				err = fmt.Errorf("%w: %s", err, complaint)
			}
			return err
		}
		return in, out, kill, wait, nil
	}
}

// tail keeps the end of what is written. It is for one writer.
type tail struct{ text []byte }

const tailLength = 1000

func (t *tail) Write(text []byte) (int, error) {
	t.text = append(t.text, text...)
	if n := len(t.text) - tailLength; n > 0 {
		t.text = t.text[n:]
	}
	return len(text), nil
}

func (t *tail) String() string { return strings.TrimSpace(string(t.text)) }
