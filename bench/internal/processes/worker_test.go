package processes

import (
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fake is a launch of a goroutine in place of a process. Killing it breaks its pipes.
func fake(child func(stdin io.Reader, stdout io.Writer) error) launch {
	return func() (io.WriteCloser, io.Reader, func(), func() error, error) {
		stdin, in := io.Pipe()
		out, stdout := io.Pipe()
		ended := make(chan error, 1)
		go func() {
			err := child(stdin, stdout)
			_, _ = stdin.Close(), stdout.Close()
			ended <- err
		}()
		kill := func() { _, _ = stdin.CloseWithError(errKilled), stdout.CloseWithError(io.EOF) }
		return in, out, kill, func() error { return <-ended }, nil
	}
}

var errKilled = errors.New("killed")

// told starts a fake that writes a text, and then ends with an error or, if there is none, when its input does.
func told(t *testing.T, text string, err error) (w *worker, records *[]Record, lost *int) {
	var mu sync.Mutex
	records, lost = new([]Record), new(int)
	w, failure := start(1, fake(func(stdin io.Reader, stdout io.Writer) error {
		if _, broken := io.WriteString(stdout, text); broken != nil {
			return broken
		}
		if err == nil {
			_, _ = io.Copy(io.Discard, stdin)
		}
		return err
	}), func(r Record) {
		mu.Lock()
		defer mu.Unlock()
		*records = append(*records, r)
	}, func() {
		mu.Lock()
		defer mu.Unlock()
		*lost++
	})
	require.NoError(t, failure)
	return w, records, lost
}

const good = `{"ready":true}
{"request":{"n":10000001,"bucket":4,"arrived":1000,"done":2000,"status":200}}
{"done":true}
`

func TestWhatAProcessSaysIsTakenIn(t *testing.T) {
	t.Parallel()
	w, records, lost := told(t, good, nil)
	require.NoError(t, w.awaitReady())
	<-w.done
	assert.Equal(t, []Record{{Sequence: 10000001, Bucket: 4, Arrived: 1000, Done: 2000, Status: 200}}, *records)
	assert.Equal(t, 1, (*records)[0].process())
	w.end()
	w.end()
	assert.NoError(t, w.err())
	assert.Zero(t, *lost)
}

func TestProcessThatFailsSaysWhy(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text string
		err  error
		want string
	}{
		"cannot be ready": {`{"failed":"no such server"}` + "\n", nil, "process 2: no such server"},
		"dies":            {"", errors.New("exit status 2: panic: oh no"), "process 2: ended early: exit status 2: panic: oh no"},
		"dies later":      {`{"ready":true}` + "\n", errors.New("exit status 2"), "process 2: ended early: exit status 2"},
		"says nonsense":   {"panic: oh no\n", nil, `process 2: expected JSON in a line, got "panic: oh no"`},
	} {
		w, _, lost := told(t, test.text, test.err)
		_ = w.awaitReady() // it may have been ready before it failed
		if name != "cannot be ready" {
			<-w.exited
		}
		require.ErrorContains(t, w.err(), test.want, name)
		w.end()
		assert.NotZero(t, *lost, name)
		<-w.done
	}
}

func TestProcessThatIsKilledOnPurposeHasNotFailed(t *testing.T) {
	t.Parallel()
	w, _, lost := told(t, `{"ready":true}`+"\n", nil)
	require.NoError(t, w.awaitReady())
	w.shoot()
	<-w.done
	assert.NoError(t, w.err())
	assert.Zero(t, *lost)
	w.end()
}

func TestProcessThatIsNeverReadyIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _, _ := told(t, "", nil)
		assert.ErrorContains(t, w.awaitReady(), "process 2 is not ready after 20s")
		w.end()
	})
}

func TestProcessThatDoesNotEndIsKilled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		killed := make(chan struct{})
		stuck := func() (io.WriteCloser, io.Reader, func(), func() error, error) {
			_, in := io.Pipe()
			out, stdout := io.Pipe()
			return in, out, func() { _ = stdout.Close(); close(killed) }, func() error { <-killed; return errKilled }, nil
		}
		w, err := start(0, stuck, nil, func() {})
		require.NoError(t, err)
		w.end()
		<-killed
		assert.Error(t, w.err())
	})
}

func TestComplaintsAreKeptInPart(t *testing.T) {
	t.Parallel()
	var complaint tail
	for range 300 {
		_, _ = complaint.Write([]byte("0123456789"))
	}
	_, _ = complaint.Write([]byte("the end\n"))
	assert.Len(t, complaint.text, tailLength)
	assert.Contains(t, complaint.String(), "the end")
}
