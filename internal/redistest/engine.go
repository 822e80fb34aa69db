// Package redistest starts real Redis and Valkey servers for tests.
package redistest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// ServerVariable is the name of the environment variable for the path or name of the server program.
	ServerVariable = "RATELIGHT_REDIS_SERVER"
	// RequireVariable is the name of an environment variable. If it is set to 1, tests fail if no server is installed, and
	// are not skipped.
	RequireVariable = "RATELIGHT_REQUIRE_REDIS"
)

// ErrNotInstalled means that no server program was found.
var ErrNotInstalled = errors.New("neither redis-server nor valkey-server is in the PATH " +
	"(" + ServerVariable + " can name one)")

// Options says how an Engine is started. The zero value is ready for use.
type Options struct {
	// Port is the TCP port on the loopback interface. If it is zero, a free port is used.
	Port int
	// Directory is the server's working directory. If it is empty, the server gets a new directory, which Close
	// removes.
	Directory string
	// Arguments are additional arguments of the server, such as "--requirepass", "secret". They override the arguments
	// that turn persistence off.
	Arguments []string
	// Sentinel starts the server as a Sentinel. Then the first one of Arguments must be the Sentinel's configuration file.
	Sentinel bool
}

// Engine is a real Redis or Valkey server in a separate process. On Linux, the server is killed when the process that
// started it ends. An Engine is safe for concurrent use.
type Engine struct {
	server  string
	port    int
	options Options
	private string // directory to remove; "" if there is none

	mu  sync.Mutex
	run *run // nil while the server does not run
}

// run is one process of the server, from its start to its end.
type run struct {
	process *os.Process
	ended   chan struct{}
	output  output
}

// Installed returns the path of the program that Start would start. The error is ErrNotInstalled if there is no such
// program and ServerVariable is not set.
func Installed() (string, error) {
	if named := os.Getenv(ServerVariable); named != "" {
		path, err := exec.LookPath(named)
		if err != nil {
			return "", fmt.Errorf("%s: %w", ServerVariable, err)
		}
		return path, nil
	}
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", ErrNotInstalled
}

// Start starts a server, and returns when the server answers. Close ends the server.
func Start(ctx context.Context, options Options) (*Engine, error) {
	server, err := Installed()
	if err != nil {
		return nil, err
	}
	e := &Engine{server: server, port: options.Port, options: options}
	if options.Directory == "" {
		if e.private, err = os.MkdirTemp("", "ratelight-redis-"); err != nil {
			return nil, err
		}
		e.options.Directory = e.private
	}
	// Another process may take a free port before the server uses it. In that case Start tries another port.
	for attempt := 0; ; attempt++ {
		if options.Port == 0 {
			if e.port, err = freePort(); err != nil {
				break
			}
		}
		if err = e.start(ctx); err == nil {
			return e, nil
		}
		if options.Port != 0 || attempt == 3 || !strings.Contains(err.Error(), "in use") {
			break
		}
	}
	e.Close()
	return nil, err
}

// freePort returns a port that was free a moment ago. The port is at most 55535, because a cluster node also uses the
// port that is 10000 higher.
func freePort() (int, error) {
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 0, err
		}
		port := l.Addr().(*net.TCPAddr).Port
		if port <= 55535 {
			return port, l.Close()
		}
		// The system may assign only high ports for some time, so search for a lower port.
		l.Close()
		for port -= 20000; port < 55535; port++ {
			l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
			if err == nil {
				return port, l.Close()
			}
		}
	}
}

// Address returns the server's host and port.
func (e *Engine) Address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(e.port)) }

// URL returns the server's address as a URL, without user and password.
func (e *Engine) URL() string { return "redis://" + e.Address() }

func (e *Engine) Port() int { return e.port }

// Directory returns the server's working directory.
func (e *Engine) Directory() string { return e.options.Directory }

// Server returns the path of the server program.
func (e *Engine) Server() string { return e.server }

// start starts the process and waits until the server answers.
func (e *Engine) start(ctx context.Context) error {
	var arguments []string
	if e.options.Sentinel {
		arguments = append(arguments, e.options.Arguments[0], "--sentinel")
	}
	arguments = append(arguments, "--port", strconv.Itoa(e.port), "--bind", "127.0.0.1", "--dir", e.options.Directory)
	if e.options.Sentinel {
		arguments = append(arguments, e.options.Arguments[1:]...)
	} else {
		arguments = append(append(arguments, "--save", "", "--appendonly", "no"), e.options.Arguments...)
	}
	r := &run{ended: make(chan struct{})}
	command := exec.Command(e.server, arguments...)
	command.Stdout, command.Stderr = &r.output, &r.output
	dieWithParent(command)

	started := make(chan error)
	go func() {
		// The system kills the process when the thread that started it ends. So keep this thread until the process has ended.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := command.Start()
		r.process = command.Process
		started <- err
		if err == nil {
			_ = command.Wait()
		}
		close(r.ended)
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start %s: %w", e.server, err)
	}
	if err := r.wait(ctx, e.Address()); err != nil {
		_ = r.process.Kill()
		<-r.ended
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.run = r
	return nil
}

// wait waits until the server answers.
func (r *run) wait(ctx context.Context, address string) error {
	if _, limited := ctx.Deadline(); !limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
	}
	for {
		err := ping(ctx, address)
		if err == nil {
			return nil
		}
		select {
		case <-r.ended:
			return fmt.Errorf("server at %s ended: %s", address, r.output.String())
		case <-ctx.Done():
			return fmt.Errorf("server at %s does not answer: %w", address, err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// ping returns nil if the server is ready. A server that requires a password counts as ready.
func ping(ctx context.Context, address string) error {
	var dialer net.Dialer
	connection, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer connection.Close()
	deadline, _ := ctx.Deadline()
	_ = connection.SetDeadline(deadline)
	if _, err := io.WriteString(connection, "PING\r\n"); err != nil {
		return err
	}
	line, err := bufio.NewReader(connection).ReadString('\n')
	if err != nil {
		return err
	}
	for _, ready := range []string{"+PONG", "-NOAUTH", "-NOPERM", "-MASTERDOWN"} {
		if strings.HasPrefix(line, ready) {
			return nil
		}
	}
	return errors.New(strings.TrimSpace(line))
}

// Pause stops the process until Resume. Connections stay open, but the server does not answer.
func (e *Engine) Pause() error { return e.each(pause) }

// Resume continues a paused process.
func (e *Engine) Resume() error { return e.each(resume) }

func (e *Engine) each(do func(*os.Process) error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.run == nil {
		return errors.New("redistest: the server does not run")
	}
	return do(e.run.process)
}

// Kill ends the process at once, and returns when the process is gone. The server's data in memory is lost.
func (e *Engine) Kill() {
	e.mu.Lock()
	r := e.run
	e.run = nil
	e.mu.Unlock()
	if r == nil {
		return
	}
	_ = r.process.Kill()
	<-r.ended
}

// Restart kills the server if it is running, and starts it again with the same port and arguments. By default the
// server keeps no data. Restart returns when the server answers.
func (e *Engine) Restart(ctx context.Context) error {
	e.Kill()
	return e.start(ctx)
}

// Close kills the server, and removes the directory that Start has made for it. Close may be called twice.
func (e *Engine) Close() {
	e.Kill()
	if e.private != "" {
		_ = os.RemoveAll(e.private)
	}
}

// Output returns the last part of the server's output.
func (e *Engine) Output() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.run == nil {
		return ""
	}
	return e.run.output.String()
}

// output keeps the last part of the text that is written to it.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.text.Len() > 1<<16 {
		o.text.Reset()
	}
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
