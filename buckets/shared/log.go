package shared

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

const (
	// warningPause is the least time between two warnings about the same key.
	warningPause = time.Minute
	// mostWarnings bounds the number of keys whose last warning is remembered.
	mostWarnings = 1000
)

// warnings records which keys the session has warned about, and when.
type warnings struct {
	mu   sync.Mutex
	keys map[string]time.Duration // time of the last warning, by key
}

// warn logs a warning. It calls the caller's logger, so no lock may be held.
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

// warnBack logs the end of an outage. It uses the same level as warnOutage, so that a log has both or neither.
func (s *session) warnBack(since time.Duration) {
	s.warn("shared limits are available again", slog.Duration("after", (s.now()-since).Round(time.Millisecond)))
}

// warnKey logs that a key holds a foreign value, unless it did so less than warningPause ago.
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
