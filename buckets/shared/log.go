package shared

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

const (
	// warningPause is how long after a warning of a key the same one comes again.
	warningPause = time.Minute
	// mostWarnings is how many keys are remembered for that.
	mostWarnings = 1000
)

// warnings are what a session has warned of lately.
type warnings struct {
	mu   sync.Mutex
	keys map[string]time.Duration // when
}

// warn logs a warning. No lock is held.
func (s *session) warn(message string, attributes ...slog.Attr) {
	logger := s.store.options.logger
	if logger == nil {
		logger = slog.Default()
	}
	attributes = append(attributes, slog.String("application", s.store.options.application))
	logger.LogAttrs(context.Background(), slog.LevelWarn, message, attributes...)
}

func (s *session) warnOutage(cause error) {
	s.warn("shared limits are unavailable", slog.String("policy", s.store.options.outage.String()), slog.String("cause", cause.Error()))
}

// warnBack says that an outage is over. It is a warning, too, so that a log with the beginning of an outage also has its
// end.
func (s *session) warnBack(since time.Duration) {
	s.warn("shared limits are available again", slog.Duration("after", (s.now()-since).Round(time.Millisecond)))
}

// warnKey says that a key is not ours, unless it did so a short time ago.
func (s *session) warnKey(err error) {
	var wrong *KeyError
	if !errors.As(err, &wrong) || !s.warnings.due(wrong.Key, s.now()) {
		return
	}
	s.warn("key of shared limits holds a foreign value: delete it, or give this application another name",
		slog.String("key", wrong.Key), slog.String("problem", wrong.Problem))
}

func (w *warnings) due(key string, now time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at, ok := w.keys[key]; ok && now-at < warningPause {
		return false
	}
	if len(w.keys) >= mostWarnings {
		clear(w.keys)
	}
	if w.keys == nil {
		w.keys = map[string]time.Duration{}
	}
	w.keys[key] = now
	return true
}
