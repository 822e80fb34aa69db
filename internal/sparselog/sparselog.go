// Package sparselog limits a log that may get thousands of lines in a second. Of each class of lines, it writes at most
// one line in 30 s. This line says how many lines of the class were left out. The package starts no goroutine, so the
// caller has to call Flush from time to time.
package sparselog

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// Interval is the shortest time between two lines of a class.
	Interval = 30 * time.Second
	// maxClasses is the number of classes that are distinguished. Of lines of further classes, only the messages are
	// compared.
	maxClasses = 256
	// repeated is the attribute for the number of lines of the class that were left out since the previous line. The
	// attribute is missing if no lines were left out.
	repeated = "repeated"
)

// Line is a line of the log. Lines with the same Message and Class count as the same line.
type Line struct {
	Level          slog.Level
	Message, Class string
	Attributes     []slog.Attr
}

// Log writes lines to a logger. It is safe for concurrent use, and holds no lock when it calls the logger.
type Log struct {
	logger *slog.Logger
	mu     sync.Mutex
	recent map[class]*history
}

// class is the key of lines that count as the same.
type class struct{ message, class string }

// history is the state of a class.
type history struct {
	written time.Duration // when the latest line was written
	left    int           // number of lines that were left out since the last line
	latest  Line          // the latest line that was left out
	ctx     context.Context
}

// New returns a log that writes to the logger. If the logger is nil, the log writes only warnings and errors, to
// slog.Default().
func New(logger *slog.Logger) *Log { return &Log{logger: logger, recent: make(map[class]*history)} }

// Enabled reports whether the log writes lines of a level. A nil Log writes no lines.
func (l *Log) Enabled(ctx context.Context, level slog.Level) bool {
	switch {
	case l == nil:
		return false
	case l.logger == nil:
		return level >= slog.LevelWarn && slog.Default().Enabled(ctx, level)
	}
	return l.logger.Enabled(ctx, level)
}

// Write writes the line, unless a line of its class was written in the latest Interval. In that case Write only counts
// the line. now is the time of a monotonic clock, which must be the same clock in all calls.
func (l *Log) Write(ctx context.Context, now time.Duration, line Line) {
	if !l.Enabled(ctx, line.Level) {
		return
	}
	if n, ok := l.take(ctx, now, line); ok {
		l.write(ctx, line, n)
	}
}

// take reports whether the line must be written now (ok). If so, left is the number of lines that were left out before
// it.
func (l *Log) take(ctx context.Context, now time.Duration, line Line) (left int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := class{line.Message, line.Class}
	h := l.recent[key]
	if h == nil && len(l.recent) >= maxClasses {
		key = class{message: line.Message}
		h = l.recent[key]
	}
	switch {
	case h == nil:
		l.recent[key] = &history{written: now}
		return 0, true
	case !h.due(now):
		h.left++
		h.latest, h.ctx = line, ctx
		return 0, false
	}
	left = h.left
	*h = history{written: now}
	return left, true
}

// due reports whether the next line may be written. The line may also be written if the clock has gone backwards.
func (h *history) due(now time.Duration) bool {
	since := now - h.written
	return since < 0 || since >= Interval
}

// Flush looks at each class of which no line was written during the last Interval. If lines of the class were left out,
// Flush writes the latest of these. Otherwise it forgets the class. If all is set, Flush does this for every class,
// even if a line of the class was written during the last Interval.
func (l *Log) Flush(now time.Duration, all bool) {
	if l == nil {
		return
	}
	for _, h := range l.overdue(now, all) {
		l.write(context.WithoutCancel(h.ctx), h.latest, h.left-1) // the context may have ended in the meantime
	}
}

func (l *Log) overdue(now time.Duration, all bool) (overdue []history) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, h := range l.recent {
		switch {
		case !all && !h.due(now):
		case h.left == 0:
			delete(l.recent, key)
		default:
			overdue = append(overdue, *h)
			*h = history{written: now}
		}
	}
	return overdue
}

func (l *Log) write(ctx context.Context, line Line, left int) {
	logger := l.logger
	if logger == nil {
		logger = slog.Default()
	}
	if left > 0 {
		line.Attributes = append(line.Attributes[:len(line.Attributes):len(line.Attributes)], slog.Int(repeated, left))
	}
	logger.LogAttrs(ctx, line.Level, line.Message, line.Attributes...)
}
