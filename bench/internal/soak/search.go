package soak

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"sync"
	"sync/atomic"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
)

// searcher looks for tokens in everything that is ever logged, told, returned or shown. It keeps nothing but what it found.
type searcher struct {
	needles [][]byte
	texts   atomic.Uint64
	bytes   atomic.Uint64
	buffers sync.Pool

	mu    sync.Mutex
	found []string
}

// maxFound is how many findings are kept. One is enough to fail.
const maxFound = 20

func newSearcher() *searcher {
	return &searcher{needles: needles(), buffers: sync.Pool{New: func() any { return new(bytes.Buffer) }}}
}

// text searches one.
func (s *searcher) text(where string, text []byte) {
	s.texts.Add(1)
	s.bytes.Add(uint64(len(text)))
	for _, needle := range s.needles {
		if i := bytes.Index(text, needle); i >= 0 {
			s.note(fmt.Sprintf("%s: …%s…", where, text[max(i-60, 0):min(i+60, len(text))]))
			return
		}
	}
}

func (s *searcher) note(finding string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.found) < maxFound {
		s.found = append(s.found, finding)
	}
}

// value searches what fmt makes of a value.
func (s *searcher) value(where string, value any, formats ...string) {
	buffer := s.buffers.Get().(*bytes.Buffer)
	defer s.buffers.Put(buffer)
	for _, format := range formats {
		buffer.Reset()
		fmt.Fprintf(buffer, format, value)
		s.text(where, buffer.Bytes())
	}
}

// allFormats are the ways in which a value may be printed without much thought.
var allFormats = []string{"%v", "%+v", "%#v"}

// err searches an error and those inside. What http.Client puts around it contains the URL, as net/http wants it.
func (s *searcher) err(where string, err error) {
	if outer, ok := errors.AsType[*url.Error](err); ok {
		err = outer.Err
	}
	for ; err != nil; err = errors.Unwrap(err) {
		s.value(where, err, allFormats...)
	}
}

// Write searches a line of the log.
func (s *searcher) Write(line []byte) (int, error) {
	s.text("log", line)
	return len(line), nil
}

func (s *searcher) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(s, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func (s *searcher) transportHooks() httpclient.Hooks {
	return httpclient.Hooks{
		Request: func(e httpclient.RequestEvent) { s.value("request hook", e, "%+v") },
		Response: func(e httpclient.ResponseEvent) {
			s.value("response hook", e, "%+v")
			s.err("error of a response hook", e.Err)
		},
	}
}

func (s *searcher) managerHooks() buckets.Hooks {
	return buckets.Hooks{
		Waiting:    func(_ context.Context, e buckets.Waiting) { s.value("waiting hook", e, "%+v") },
		Held:       func(_ context.Context, e buckets.Held) { s.value("held hook", e, "%+v") },
		BudgetUsed: func(_ context.Context, e buckets.BudgetUsed) { s.value("budget hook", e, "%+v") },
		Collected:  func(e buckets.Collected) { s.value("collected hook", e, "%+v") },
	}
}

// results are how much was searched, and what was found.
func (s *searcher) results() (texts, size uint64, found []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.texts.Load(), s.bytes.Load(), s.found
}
