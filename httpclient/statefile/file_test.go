package statefile_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient/statefile"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

func started(t *testing.T) *buckets.RESTBucketManager {
	t.Helper()
	m := buckets.NewRESTBucketManager()
	require.NoError(t, m.Start())
	t.Cleanup(func() { assert.NoError(t, m.Close()) })
	return m
}

// use lets a manager learn the limit of a bucket.
func use(t *testing.T, m *buckets.RESTBucketManager) {
	t.Helper()
	route, err := routes.CreateMessage.Compile("1")
	require.NoError(t, err)
	lease, err := m.Acquire(context.Background(), route, "Bot token")
	require.NoError(t, err)
	lease.Update(ratelimits.Response{Status: 200, Limited: true, Bucket: "messages", Limit: 5, Remaining: 4,
		ResetAfter: time.Minute})
}

// known returns the number of buckets whose limit a manager knows.
func known(m *buckets.RESTBucketManager) (n int) {
	for b := range m.Buckets() {
		if b.Limit > 0 {
			n++
		}
	}
	return n
}

func remaining(m *buckets.RESTBucketManager) int {
	for b := range m.Buckets() {
		if b.Limit > 0 {
			return b.Remaining
		}
	}
	return -1
}

func TestNextProcessGoesOnWhereTheOneBeforeWasClosed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "limits")
	for i := range 3 {
		m := started(t)
		file, err := statefile.Open(path, m)
		require.NoError(t, err)
		require.NoError(t, file.SetAside())
		assert.Equal(t, min(i, 1), known(m))
		if i == 0 {
			use(t, m)
		}
		assert.Equal(t, 4, remaining(m))
		require.NoError(t, file.Close())
		assert.False(t, m.IsAlive())
		assert.NoError(t, file.Close())
		info, err := os.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode())
	}
}

// A process can be killed soon after Open. Therefore the file must no longer look, after Open, as if a process had just
// ended cleanly.
func TestProcessThatIsKilledAtOnceLeavesNoCleanState(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "limits")
		m := started(t)
		file, err := statefile.Open(path, m)
		require.NoError(t, err)
		use(t, m)
		require.NoError(t, file.Close())
		killed, err := statefile.Open(path, started(t))
		require.NoError(t, err)
		left, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, killed.Close())
		require.NoError(t, os.WriteFile(path, left, 0o600))

		next := started(t)
		file, err = statefile.Open(path, next)
		require.NoError(t, err)
		assert.Zero(t, remaining(next))
		require.NoError(t, file.Close())
	})
}

func TestFileIsWrittenEveryTenSeconds(t *testing.T) {
	t.Parallel()
	for interval, want := range map[time.Duration]time.Duration{
		0: statefile.DefaultInterval, time.Minute: time.Minute, 1: 100 * time.Millisecond,
	} {
		synctest.Test(t, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "limits")
			m := started(t)
			file, err := statefile.Open(path, m, statefile.WithInterval(interval))
			require.NoError(t, err)
			use(t, m)
			before, err := os.ReadFile(path)
			require.NoError(t, err)
			time.Sleep(want - time.Millisecond)
			synctest.Wait()
			same, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.Equal(t, before, same)
			time.Sleep(2 * time.Millisecond)
			synctest.Wait()
			after, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.Greater(t, len(after), len(before))
			require.NoError(t, file.Close())
		})
	}
}

func TestFileOfAnotherProcessIsNotOpened(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "limits")
	file, err := statefile.Open(path, started(t))
	require.NoError(t, err)
	second := started(t)
	_, err = statefile.Open(path, second)
	require.ErrorIs(t, err, statefile.ErrLocked)
	assert.ErrorContains(t, err, path)
	require.NoError(t, file.Close())
	file, err = statefile.Open(path, second)
	require.NoError(t, err)
	require.NoError(t, file.Close())
}

func TestFileThatCannotBeUsedIsSetAside(t *testing.T) {
	t.Parallel()
	var valid bytes.Buffer
	m := started(t)
	use(t, m)
	require.NoError(t, m.WriteState(&valid))
	newer := bytes.Clone(valid.Bytes())
	newer[1]++
	for name, content := range map[string][]byte{
		"empty": {}, "text": []byte("not a state, but long enough to be one"), "cut": valid.Bytes()[:valid.Len()/2],
		"newer": newer,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "limits")
			require.NoError(t, os.WriteFile(path, content, 0o644))
			var log bytes.Buffer
			m := started(t)
			file, err := statefile.Open(path, m, statefile.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
			require.NoError(t, err)
			assert.ErrorIs(t, file.SetAside(), buckets.ErrState)
			assert.Contains(t, log.String(), path+".corrupt")
			kept, err := os.ReadFile(path + ".corrupt")
			require.NoError(t, err)
			assert.Equal(t, content, kept)
			use(t, m)
			require.NoError(t, file.Close())
			info, err := os.Stat(path)
			require.NoError(t, err)
			assert.Equal(t, os.FileMode(0o600), info.Mode())
			m = started(t)
			file, err = statefile.Open(path, m, statefile.WithLogger(nil))
			require.NoError(t, err)
			assert.NoError(t, file.SetAside())
			assert.Equal(t, 1, known(m))
			require.NoError(t, file.Close())
		})
	}
}

// The temporary files of a killed process are removed. But files of other programs in the same directory must stay,
// even if their names are similar, because such a program may be writing its file at this moment.
func TestFilesOfOthersAreNotTidiedUp(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	others := []string{".limits21234567890", ".limits2.new1234567890", ".limits2024-notes"}
	for _, name := range others {
		require.NoError(t, os.WriteFile(filepath.Join(directory, name), nil, 0o600))
	}
	for _, name := range []string{"limits.new", ".limits.new1234567890"} { // left by a killed process
		require.NoError(t, os.WriteFile(filepath.Join(directory, name), nil, 0o600))
	}
	file, err := statefile.Open(filepath.Join(directory, "limits"), started(t))
	require.NoError(t, err)
	require.NoError(t, file.Close())
	left, err := os.ReadDir(directory)
	require.NoError(t, err)
	assert.Len(t, left, len(others)+2, "only the file, its lock and the files of other programs must be left")
	for _, name := range others {
		assert.FileExists(t, filepath.Join(directory, name))
	}
}

func TestFileThatCannotBeWrittenIsAnError(t *testing.T) {
	t.Parallel()
	_, err := statefile.Open(filepath.Join(t.TempDir(), "missing", "limits"), started(t))
	assert.ErrorIs(t, err, os.ErrNotExist)
	closed := started(t)
	require.NoError(t, closed.Close())
	path := filepath.Join(t.TempDir(), "limits")
	_, err = statefile.Open(path, closed)
	assert.ErrorIs(t, err, buckets.ErrClosed)
	file, err := statefile.Open(path, started(t))
	require.NoError(t, err, "the failed Open must release the lock")
	require.NoError(t, file.Close())
}

func TestFileThatCannotBeOpenedIsAnError(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "limits")
	require.NoError(t, os.Symlink(path, path))
	_, err := statefile.Open(path, started(t))
	assert.ErrorContains(t, err, "opening the state file")
}

func TestFileWhoseDirectoryIsGoneIsAnErrorOfClose(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	file, err := statefile.Open(filepath.Join(directory, "limits"), started(t))
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(directory))
	assert.ErrorIs(t, file.Close(), os.ErrNotExist)
}

func TestFileThatCannotBeWrittenAnyMoreIsSaid(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log safeBuffer
		k := &failingKeeper{RESTBucketManager: started(t)}
		file, err := statefile.Open(filepath.Join(t.TempDir(), "limits"), k,
			statefile.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		require.NoError(t, err)
		k.fail(errors.New("no space"))
		time.Sleep(25 * time.Second)
		assert.Equal(t, 1, strings.Count(log.String(), "no space"), "the failure must be logged only once")
		assert.ErrorContains(t, file.Close(), "no space")
	})
}

type failingKeeper struct {
	*buckets.RESTBucketManager
	mu  sync.Mutex
	err error
}

func (k *failingKeeper) fail(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err = err
}

func (k *failingKeeper) WriteState(w io.Writer) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return errors.Join(k.err, k.RESTBucketManager.WriteState(w))
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

const killedPath = "RATELIGHT_TEST_STATE_FILE"

// writeUntilKilled is the program of the process that the test kills.
func writeUntilKilled(path string) {
	m := buckets.NewRESTBucketManager(buckets.WithGlobalLimit(0))
	must(m.Start())
	file, err := statefile.Open(path, m)
	must(err)
	for channel := range 500 {
		route, err := routes.CreateMessage.Compile(strconv.Itoa(channel + 1))
		must(err)
		lease, err := m.Acquire(context.Background(), route, "Bot token")
		must(err)
		lease.Update(ratelimits.Response{Status: 200, Limited: true, Bucket: "messages", Limit: 5, Remaining: 4,
			ResetAfter: time.Hour})
	}
	for {
		must(file.Write())
		fmt.Println("written")
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// If a process is killed while it writes, it must leave the complete old file or the complete new one, and no lock.
func TestKilledProcessLeavesAFileThatCanBeUsed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "limits")
	for i := range 20 {
		process := exec.Command(os.Args[0])
		process.Env = append(os.Environ(), killedPath+"="+path)
		output, err := process.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, process.Start())
		lines := bufio.NewScanner(output)
		for range i%7 + 1 {
			require.True(t, lines.Scan(), "%v", lines.Err())
		}
		require.NoError(t, process.Process.Kill())
		_ = process.Wait()

		m := started(t)
		file, err := statefile.Open(path, m)
		require.NoError(t, err)
		require.NoError(t, file.SetAside())
		assert.Equal(t, 500, known(m))
		assert.Zero(t, remaining(m), "the killed process may have sent more requests since")
		left, err := os.ReadDir(filepath.Dir(path))
		require.NoError(t, err)
		assert.Len(t, left, 2, "the file and its lock")
		require.NoError(t, file.Close())
		require.NoError(t, os.Remove(path))
	}
}
