package output

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestProgressIsSilentWithoutATerminal(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	p := NewProgress(&b, 10)
	p.Step()
	p.End()
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	defer file.Close()
	p = NewProgress(file, 10)
	p.Step()
	p.End()
	info, err := file.Stat()
	require.NoError(t, err)
	assert.Zero(t, b.Len())
	assert.Zero(t, info.Size())
}

func TestWhatBeginsIsSaidWithoutATerminal(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	NewProgress(&b, 10).Begin("one")
	assert.Equal(t, "one\n", b.String())
	b.Reset()
	p := &Progress{bar: newBar(&b, 10)}
	p.Begin("two")
	p.End()
	assert.Zero(t, b.Len(), "the bar shows enough")
}

// screen is what a terminal shows in the end: what stands behind the last return to the beginning of the line.
func screen(b *bytes.Buffer) string {
	text := b.String()
	return strings.TrimSpace(text[strings.LastIndexByte(text, '\r')+1:])
}

func TestBarShowsWhatIsDoneTheRateAndTheTimeLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(*testing.T) {
		var b bytes.Buffer
		p := &Progress{bar: newBar(&b, 1000)}
		for range 250 {
			time.Sleep(20 * time.Millisecond)
			p.Step()
		}
		shown := screen(&b)
		assert.Contains(t, shown, "25%")
		assert.Contains(t, shown, "(250/1000, 50 requests/s)")
		assert.Regexp(t, `\[5s:1[45]s\]`, shown, "taken, and left")
		time.Sleep(35 * time.Second)
		p.Steps(10)
		assert.Contains(t, screen(&b), "(260/1000,")
		assert.Contains(t, screen(&b), "[40s:", "it goes on when the work has slowed down")
		p.End()
		assert.Empty(t, screen(&b), "the bar is taken away")
	})
}

func TestShortWorkShowsNoBar(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(*testing.T) {
		var b bytes.Buffer
		p := &Progress{bar: newBar(&b, 10)}
		for range 10 {
			time.Sleep(90 * time.Millisecond)
			p.Step()
		}
		p.End()
		assert.Zero(t, b.Len())
	})
}

func TestFinishedBarIsTakenAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(*testing.T) {
		var b bytes.Buffer
		p := &Progress{bar: newBar(&b, 10)}
		for range 10 {
			time.Sleep(time.Second)
			p.Step()
		}
		assert.Contains(t, b.String(), "9/10")
		p.End()
		assert.Empty(t, screen(&b))
	})
}
