// Package postgrestest starts a real PostgreSQL server for a test. It needs the programs of the server, but no Go
// driver.
package postgrestest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	// DirectoryVariable is the name of the environment variable for the directory of the programs initdb and postgres.
	DirectoryVariable = "RATELIGHT_POSTGRES_BIN"
	// RequireVariable is the name of an environment variable. If it is set to 1, tests fail if no server is installed, and
	// are not skipped.
	RequireVariable = "RATELIGHT_REQUIRE_POSTGRES"
)

var errNotInstalled = errors.New("initdb and postgres are neither in the PATH nor where Debian puts them (" +
	DirectoryVariable + " can name their directory)")

// NewServer starts an empty server that listens on a Unix socket, and returns a connection string of "keyword=value"
// pairs. The server is stopped when the test ends. If no server is installed, the test is skipped, or fails if
// RequireVariable is 1.
func NewServer(t testing.TB) string {
	t.Helper()
	programs, err := installed()
	if err != nil {
		if os.Getenv(RequireVariable) == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	directory, err := os.MkdirTemp("", "ratelight-postgres-") // only the test's user may enter t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(directory) })
	if err := giveAway(directory); err != nil {
		t.Fatal(err)
	}
	cluster := filepath.Join(directory, "data")
	initialize := exec.Command(filepath.Join(programs, "initdb"), "--pgdata", cluster, "--no-sync",
		"--username", "postgres", "--auth", "trust", "--encoding", "UTF8", "--locale", "C")
	initialize.Dir = directory
	unprivileged(initialize)
	if output, err := initialize.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, output)
	}
	server := exec.Command(filepath.Join(programs, "postgres"), "-D", cluster, "-k", directory,
		"-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=200")
	server.Dir = directory
	unprivileged(server)
	stop, err := start(server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return "host=" + directory + " user=postgres dbname=postgres sslmode=disable"
}

// installed returns the directory of the server's programs.
func installed() (string, error) {
	if named := os.Getenv(DirectoryVariable); named != "" {
		return named, nil
	}
	candidates, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // the pattern is not malformed
	slices.Reverse(candidates)
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil { // initdb needs the other programs in its own directory
			candidates = append(candidates, filepath.Dir(path))
		}
	}
	for _, directory := range candidates {
		if _, err := exec.LookPath(filepath.Join(directory, "postgres")); err == nil {
			return directory, nil
		}
	}
	return "", errNotInstalled
}

// start starts the server, and returns when the server accepts connections. stop ends the server.
func start(server *exec.Cmd) (stop func(), err error) {
	log := &watched{text: "ready to accept connections", found: make(chan struct{})}
	server.Stdout, server.Stderr = log, log
	started, ended := make(chan error), make(chan struct{})
	go func() {
		// The system kills the process when the thread that started it ends. So keep this thread until the process has ended.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := server.Start()
		started <- err
		if err == nil {
			_ = server.Wait()
		}
		close(ended)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	stop = func() {
		_ = server.Process.Signal(os.Interrupt) // ends the server without waiting for clients
		<-ended
	}
	select {
	case <-log.found:
		return stop, nil
	case <-ended:
	case <-time.After(30 * time.Second):
		stop()
	}
	return nil, fmt.Errorf("postgres does not start: %s", log)
}

// watched is a log that closes found when it contains text.
type watched struct {
	text  string
	found chan struct{}

	mu  sync.Mutex
	log bytes.Buffer
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := strings.Contains(w.log.String(), w.text)
	if before {
		return len(p), nil // later output is not needed
	}
	n, err := w.log.Write(p)
	if strings.Contains(w.log.String(), w.text) {
		close(w.found)
	}
	return n, err
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.String()
}
