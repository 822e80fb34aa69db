package soak

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
)

// needles are the forms in which the mark may turn up: as it is, in other case, as bytes that were printed as numbers,
// in hexadecimal, and in base64 (at each of the three offsets).
func needles() (found [][]byte) {
	found = [][]byte{
		[]byte(mark), bytes.ToLower([]byte(mark)), bytes.ToUpper([]byte(mark)), fmt.Appendf(nil, "%x", mark),
		bytes.Trim(fmt.Append(nil, []byte(mark)), "[]"), bytes.ReplaceAll(fmt.Appendf(nil, "%# x", mark), []byte(" "), []byte(", ")),
	}
	for offset := range 3 {
		coded := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("-", offset) + mark))
		found = append(found, []byte(coded[offset*4/3+min(offset, 1):len(coded)-min((offset+len(mark))%3, 1)]))
	}
	return found
}

// searcher looks for tokens in everything that is ever logged, told, returned or shown. It keeps nothing but what it
// found.
type searcher struct {
	needles      [][]byte
	texts, bytes atomic.Uint64

	mu    sync.Mutex
	found []string
}

func newSearcher() *searcher { return &searcher{needles: needles()} }

// text searches one.
func (s *searcher) text(where string, text []byte) {
	s.texts.Add(1)
	s.bytes.Add(uint64(len(text)))
	for _, needle := range s.needles {
		i := bytes.Index(text, needle)
		if i < 0 {
			continue
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.found) < mostUnexpected {
			s.found = append(s.found, fmt.Sprintf("%s: …%s…", where, text[max(i-60, 0):min(i+60, len(text))]))
		}
		return
	}
}

// allFormats are the ways in which a value may be printed without much thought.
var allFormats = []string{"%v", "%+v", "%#v"}

// value searches what fmt makes of a value.
func (s *searcher) value(where string, value any, formats ...string) {
	for _, format := range formats {
		s.text(where, fmt.Appendf(nil, format, value))
	}
}

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
		Request: func(_ context.Context, e httpclient.RequestEvent) { s.value("request hook", e, "%+v") },
		Response: func(_ context.Context, e httpclient.ResponseEvent) {
			s.value("response hook", e, "%+v")
			s.err("error of a response hook", e.Err)
		},
	}
}

func (s *searcher) managerHooks() buckets.Option {
	return buckets.WithHooks(buckets.Hooks{
		Waiting:    func(_ context.Context, e buckets.Waiting) { s.value("waiting hook", e, "%+v") },
		Held:       func(_ context.Context, e buckets.Held) { s.value("held hook", e, "%+v") },
		BudgetUsed: func(_ context.Context, e buckets.BudgetUsed) { s.value("budget hook", e, "%+v") },
		Collected:  func(e buckets.Collected) { s.value("collected hook", e, "%+v") },
	})
}

// results are how much was searched, and what was found.
func (s *searcher) results() (texts, size uint64, found []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.texts.Load(), s.bytes.Load(), s.found
}
