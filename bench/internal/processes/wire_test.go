package processes

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLinesArriveAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	sent := []message{
		{Ready: true},
		{Request: &Record{Sequence: 7, Bucket: 3, Arrived: 5, Sends: []Send{{At: 6, Back: 8, Status: 429}, {At: 9, Back: 10, Status: 200}}, Done: 11, Status: 200}},
		{Request: &Record{Sequence: 8, Error: "no\nluck", GivenUp: true}},
		{Done: true}, {Failed: "why"},
	}
	var text bytes.Buffer
	for _, m := range sent {
		require.NoError(t, (&lines{w: &text}).write(m))
	}
	assert.Equal(t, len(sent), strings.Count(text.String(), "\n"))
	var received []message
	require.NoError(t, read(&text, func(m message) { received = append(received, m) }))
	assert.Equal(t, sent, received)
}

func TestLineThatMakesNoSenseIsShown(t *testing.T) {
	t.Parallel()
	read1 := 0
	err := read(strings.NewReader("{\"done\":true}\npanic: oh no\n"), func(message) { read1++ })
	require.ErrorContains(t, err, `got "panic: oh no"`)
	assert.Equal(t, 1, read1)
	assert.ErrorContains(t, read(strings.NewReader("[1]\n"), func(command) {}), "expected JSON")
}

func TestTimeUnderWayIsNotQueued(t *testing.T) {
	t.Parallel()
	record := Record{Arrived: 10, Sends: []Send{{At: 15, Back: 40}, {At: 47, Back: 60}}, Done: 61}
	assert.Equal(t, time.Duration(12), record.queued())
	assert.Zero(t, Record{Arrived: 10}.queued())
}

func TestOnlySuccessIsAnAnswer(t *testing.T) {
	t.Parallel()
	assert.True(t, Record{Status: 200}.answered())
	assert.False(t, Record{Status: 429}.answered())
	assert.False(t, Record{Status: 200, Error: "cut off"}.answered())
	assert.False(t, Record{}.answered())
}
