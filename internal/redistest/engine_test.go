package redistest_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/internal/redistest"
)

// say sends a line to the server, and returns the first line of the answer.
func say(t *testing.T, e *redistest.Engine, line string, within time.Duration) (string, error) {
	t.Helper()
	connection, err := net.DialTimeout("tcp", e.Address(), within)
	if err != nil {
		return "", err
	}
	defer connection.Close()
	require.NoError(t, connection.SetDeadline(time.Now().Add(within)))
	_, err = fmt.Fprintf(connection, "%s\r\n", line)
	require.NoError(t, err)
	answer, err := bufio.NewReader(connection).ReadString('\n')
	return strings.TrimSpace(answer), err
}

func TestEngineAnswersKeepsNothingAndComesBackEmpty(t *testing.T) {
	t.Parallel()
	e := redistest.NewEngine(t)

	answer, err := say(t, e, "SET k v", time.Second)
	require.NoError(t, err)
	assert.Equal(t, "+OK", answer)
	address := e.Address()

	require.NoError(t, e.Restart(context.Background()))
	assert.Equal(t, address, e.Address())
	answer, err = say(t, e, "EXISTS k", time.Second)
	require.NoError(t, err)
	assert.Equal(t, ":0", answer)

	e.Kill()
	_, err = say(t, e, "PING", time.Second)
	assert.Error(t, err)
	assert.Error(t, e.Pause(), "a killed server cannot be paused")
}

func TestPausedEngineHoldsItsAnswersBack(t *testing.T) {
	t.Parallel()
	e := redistest.NewEngine(t)

	require.NoError(t, e.Pause())
	_, err := say(t, e, "PING", 100*time.Millisecond)
	assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, e.Resume())
	answer, err := say(t, e, "PING", time.Second)
	require.NoError(t, err)
	assert.Equal(t, "+PONG", answer)

	require.NoError(t, e.Pause())
	e.Close() // Close must also work for a paused process
}

func TestEngineThatDoesNotStartSaysWhy(t *testing.T) {
	t.Parallel()
	redistest.NewEngine(t) // skips the test if no server is installed
	_, err := redistest.Start(context.Background(), redistest.Options{Arguments: []string{"--no-such-option", "1"}})
	assert.ErrorContains(t, err, "no-such-option")
}

func TestEngineWithPasswordCountsAsReady(t *testing.T) {
	t.Parallel()
	e := redistest.NewEngine(t, "--requirepass", "secret")
	answer, err := say(t, e, "PING", time.Second)
	require.NoError(t, err)
	assert.Contains(t, answer, "NOAUTH")
}

func TestMissingServerIsNamed(t *testing.T) {
	t.Setenv(redistest.ServerVariable, "")
	t.Setenv("PATH", t.TempDir())
	_, err := redistest.Start(context.Background(), redistest.Options{})
	assert.ErrorIs(t, err, redistest.ErrNotInstalled)

	t.Setenv(redistest.ServerVariable, "no-such-server")
	_, err = redistest.Start(context.Background(), redistest.Options{})
	assert.ErrorIs(t, err, exec.ErrNotFound)
	assert.ErrorContains(t, err, redistest.ServerVariable)
}

// TestEngineDiesWithItsParent runs itself again in a child process, which starts a server. The parent kills the child,
// and the server must end.
func TestEngineDiesWithItsParent(t *testing.T) {
	const variable = "REDISTEST_CHILD"
	if os.Getenv(variable) != "" {
		e, err := redistest.Start(context.Background(), redistest.Options{Directory: os.Getenv(variable)})
		if err != nil {
			panic(err)
		}
		fmt.Println("address", e.Address())
		select {}
	}
	if _, err := os.Stat("/proc/self"); err != nil {
		t.Skip("only Linux ends a process when its parent has died")
	}
	redistest.NewEngine(t)
	child := exec.Command(os.Args[0], "-test.run", "^TestEngineDiesWithItsParent$")
	child.Env = append(os.Environ(), variable+"="+t.TempDir())
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	var address string
	for lines := bufio.NewScanner(out); address == "" && lines.Scan(); {
		address, _ = strings.CutPrefix(lines.Text(), "address ")
		if !strings.HasPrefix(lines.Text(), "address ") {
			address = ""
		}
	}
	require.NotEmpty(t, address)
	require.NoError(t, child.Process.Kill())
	_ = child.Wait()
	assert.Eventually(t, func() bool {
		connection, err := net.Dial("tcp", address)
		if err == nil {
			connection.Close()
		}
		return err != nil
	}, 5*time.Second, 5*time.Millisecond)
}
