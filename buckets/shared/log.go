package shared

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

const (
	// warningPause is the shortest time between two warnings about the same key.
	warningPause = time.Minute
	// mostWarnings bounds the number of keys in warnings.
	mostWarnings = 1000
)

// warnings records when the session last warned about each key.
type warnings struct {
	mu   sync.Mutex
	keys map[string]time.Duration // time of the last warning about each key
}

// warn logs a warning. No lock may be held, because the logger may be one of the caller.
func (s *session) warn(message string, attributes ...slog.Attr) {
	logger := s.store.options.logger
	if logger == nil {
		logger = slog.Default()
	}
	attributes = append(attributes, slog.String("application", s.store.options.application))
	logger.LogAttrs(context.Background(), slog.LevelWarn, message, attributes...)
}

func (s *session) warnOutage(cause error) {
	policy := s.store.options.outage.String()
	s.warn("shared limits are unavailable", slog.String("policy", policy), slog.String("cause", cause.Error()))
}

// warnBack logs the end of an outage, at the same level as warnOutage logs its beginning, so that a log contains both
// messages or neither of them.
func (s *session) warnBack(since time.Duration) {
	s.warn("shared limits are available again", slog.Duration("after", (s.now()-since).Round(time.Millisecond)))
}

// warnKey logs that a key holds a foreign value, unless it has done so for the same key within warningPause.
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
