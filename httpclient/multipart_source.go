package httpclient

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/ratelight/ratelight/buckets"
)

// source is the content of a file, which it gives again and again if it can.
//
// It is fresh until prepare has found out what content is. Then it is either held (a section of something that can be read
// anywhere, such as what was kept of a stream), or a stream: what was read of one that is too long, and the rest, to be sent
// once.
type source struct {
	lock    chan struct{} // of capacity 1: full while somebody looks at the rest. Who waits for a stream to be read can give up
	content io.Reader
	ready   bool
	held    *io.SectionReader
	stream  io.ReadCloser // nil when it has been sent
}

// newSource returns a source of the content, nil for none.
func newSource(content io.Reader) *source {
	return &source{lock: make(chan struct{}, 1), content: content}
}

// giveUp closes a stream that will not be sent.
func (s *source) giveUp() {
	s.lock <- struct{}{}
	defer func() { <-s.lock }()
	if s.stream != nil {
		s.stream.Close()
		s.stream = nil
	}
}

// prepare finds out how the content can be sent, and returns how many bytes of it are kept in memory for that.
func (s *source) prepare(life, ctx context.Context, limit int64, room *room) (kept int64, err error) {
	select {
	case s.lock <- struct{}{}:
		defer func() { <-s.lock }()
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-life.Done():
		return 0, buckets.ErrClosed
	}
	if s.ready {
		return 0, nil
	}
	if s.content == nil {
		s.content = bytes.NewReader(nil)
	}
	if s.held = sectionOf(s.content); s.held == nil {
		kept, err = s.keep(life, ctx, limit, room)
	}
	s.ready = true
	return kept, err
}

// keep reads a stream. If limit bytes are enough, and there is room for it, it is read to its end.
func (s *source) keep(life, ctx context.Context, limit int64, room *room) (int64, error) {
	rest, ok := s.content.(io.ReadCloser)
	if !ok {
		rest = io.NopCloser(s.content)
	}
	head, whole, err := room.readWhile(life, ctx, rest, limit, false)
	if err != nil {
		return 0, err
	}
	if !whole {
		s.stream = withHead(head, rest)
		return 0, nil
	}
	s.held = io.NewSectionReader(bytes.NewReader(head), 0, int64(len(head)))
	return int64(len(head)), rest.Close()
}

// size returns the size of the content, or that it can be sent only once and has none that is known.
func (s *source) size() (size int64, once bool) {
	if s.held == nil {
		return 0, true
	}
	return s.held.Size(), false
}

// open returns the content from its beginning.
func (s *source) open() (io.ReadCloser, error) {
	if s.held != nil {
		return io.NopCloser(io.NewSectionReader(s.held, 0, s.held.Size())), nil
	}
	s.lock <- struct{}{}
	defer func() { <-s.lock }()
	if s.stream == nil {
		return nil, fmt.Errorf("%w: the stream has been read, and was not kept: see WithMaxReplay", ErrBody)
	}
	stream := s.stream
	s.stream = nil
	return stream, nil
}

// sectionOf returns what is left of a content that can be rewound, nil for any other. Pipes and devices, which are an
// io.Seeker by their type alone, report an error or no size.
func sectionOf(content io.Reader) *io.SectionReader {
	seeker, ok := content.(io.ReadSeeker)
	if !ok {
		return nil
	}
	start, err := seeker.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil
	}
	end, err := seeker.Seek(0, io.SeekEnd)
	if err != nil {
		return nil
	}
	if _, err := seeker.Seek(start, io.SeekStart); err != nil || end <= start {
		return nil
	}
	at, ok := content.(io.ReaderAt)
	if !ok {
		at = &seekerAt{seeker: seeker}
	}
	return io.NewSectionReader(at, start, end-start)
}

// seekerAt reads a Seeker anywhere. An attempt that is over may still be reading when the next one begins, so each read
// looks for its own place.
type seekerAt struct {
	mu     sync.Mutex
	seeker io.ReadSeeker
}

func (s *seekerAt) ReadAt(p []byte, offset int64) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.seeker.Seek(offset, io.SeekStart); err != nil {
		return 0, err
	}
	return io.ReadFull(s.seeker, p)
}
