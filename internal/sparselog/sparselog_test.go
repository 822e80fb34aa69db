package sparselog

import (
	"bytes"
	"context"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newLog(level slog.Level) (*Log, *bytes.Buffer) {
	var out bytes.Buffer
	return New(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level}))), &out
}

// lines returns the lines that were written so far, without their times, and empties the buffer.
func lines(out *bytes.Buffer) (all []string) {
	for line := range strings.Lines(out.String()) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), "level=")
		all = append(all, rest)
	}
	out.Reset()
	return all
}

func held(class string, n int) Line {
	return Line{Level: slog.LevelWarn, Message: "held", Class: class, Attributes: []slog.Attr{slog.Int("n", n)}}
}

func TestOneLineOfAClassIsWrittenInAnIntervalAndSaysForHowManyItStands(t *testing.T) {
	t.Parallel()
	log, out := newLog(slog.LevelWarn)
	for n := range 1000 {
		log.Write(t.Context(), time.Duration(n)*time.Millisecond, held("user", n))
		log.Write(t.Context(), time.Duration(n)*time.Millisecond, held("shared", n))
	}
	assert.Equal(t, []string{"WARN msg=held n=0", "WARN msg=held n=0"}, lines(out))
	log.Write(t.Context(), Interval-1, held("user", 1000))
	assert.Empty(t, lines(out))
	log.Write(t.Context(), Interval, held("user", 1001))
	assert.Equal(t, []string{"WARN msg=held n=1001 repeated=1000"}, lines(out))
}

func TestWhatWasLeftOutIsToldByTheNextFlush(t *testing.T) {
	t.Parallel()
	log, out := newLog(slog.LevelWarn)
	for n := range 5 {
		log.Write(t.Context(), 0, held("user", n))
	}
	lines(out)
	log.Flush(Interval-1, false)
	assert.Empty(t, lines(out))
	log.Flush(Interval, false)
	assert.Equal(t, []string{"WARN msg=held n=4 repeated=3"}, lines(out))
	log.Write(t.Context(), Interval+1, held("user", 5))
	log.Flush(Interval+1, true)
	assert.Equal(t, []string{"WARN msg=held n=5"}, lines(out), "the last Flush does not wait for the interval")
	log.Flush(3*Interval, true)
	assert.Empty(t, lines(out))
	assert.Empty(t, log.recent, "classes without recent lines are forgotten")
}

func TestLinesBelowTheLevelAreNotCounted(t *testing.T) {
	t.Parallel()
	log, out := newLog(slog.LevelError)
	log.Write(t.Context(), 0, held("user", 0))
	log.Flush(Interval, true)
	assert.Empty(t, out.String())
	assert.Empty(t, log.recent)
	assert.False(t, (*Log)(nil).Enabled(t.Context(), slog.LevelError))
	(*Log)(nil).Write(t.Context(), 0, held("user", 0))
	(*Log)(nil).Flush(0, true)
}

func TestAClockThatGoesBackwardsStopsNoLines(t *testing.T) {
	t.Parallel()
	log, out := newLog(slog.LevelWarn)
	log.Write(t.Context(), time.Hour, held("user", 0))
	log.Write(t.Context(), 0, held("user", 1))
	assert.Len(t, lines(out), 2)
}

func TestSoManyClassesAreToldApartAndNoMore(t *testing.T) {
	t.Parallel()
	log, out := newLog(slog.LevelWarn)
	for n := range 10 * maxClasses {
		log.Write(t.Context(), 0, held(strconv.Itoa(n), n))
	}
	assert.Len(t, lines(out), maxClasses+1)
	assert.LessOrEqual(t, len(log.recent), maxClasses+1)
}

// recorder is a handler that records the contexts, and may panic.
type recorder struct {
	slog.Handler
	contexts []context.Context
	angry    bool
}

func (*recorder) Enabled(context.Context, slog.Level) bool { return true }

func (r *recorder) Handle(ctx context.Context, _ slog.Record) error {
	r.contexts = append(r.contexts, ctx)
	if r.angry {
		panic("handler")
	}
	return nil
}

func TestLinesHaveTheContextOfTheirRequestAlsoWhenTheyComeLate(t *testing.T) {
	t.Parallel()
	type key struct{}
	r := &recorder{}
	log := New(slog.New(r))
	for n := range 3 {
		log.Write(context.WithValue(t.Context(), key{}, n), 0, held("user", n))
	}
	log.Flush(Interval, false)
	require.Len(t, r.contexts, 2)
	assert.Equal(t, 0, r.contexts[0].Value(key{}))
	assert.Equal(t, 2, r.contexts[1].Value(key{}))
}

func TestAPanicOfTheLoggerLeavesNothingLocked(t *testing.T) {
	t.Parallel()
	r := &recorder{angry: true}
	log := New(slog.New(r))
	assert.Panics(t, func() { log.Write(t.Context(), 0, held("user", 0)) })
	r.angry = false
	log.Write(t.Context(), 1, held("user", 1))
	log.Write(t.Context(), Interval, held("user", 2))
	assert.Len(t, r.contexts, 2)
}
