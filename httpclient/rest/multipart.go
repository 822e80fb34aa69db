package rest

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"mime/multipart"
	"net/textproto"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/ratelight/ratelight/httpclient/internal/message"
)

// File is a file to upload.
type File struct {
	// Name is the file's name. Quotes, backslashes and line breaks in it are escaped. If Name is empty, the file is named
	// "file0", "file1" and so on, by its index.
	Name string
	// ContentType is the file's media type. If it is empty, application/octet-stream is sent, and Discord detects the
	// type.
	ContentType string
	// Content is read from its current position to its end, see Multipart. If it is nil, the file is empty.
	Content io.Reader
}

// Multipart returns a multipart/form-data body for uploads to Discord. The part "payload_json" contains the payload,
// which Multipart encodes as JSON at once. If the payload is nil, there is no such part. The files are in the parts
// "files[0]", "files[1]" and so on.
//
// If the Content of a file is an io.Seeker and knows its size, each attempt reads the Content from the position that
// the Content had when Multipart was called. Do not use the Content for anything else while the body is in use. The
// Content is never closed. If the Content is also an io.ReaderAt, several requests may read it at the same time.
//
// Any other Content is a stream. Only one Do can send a stream. A second Do with the same body fails with ErrBody. If
// the stream is an io.Closer, it is closed when it has been sent, or earlier if the context ends or the client is
// closed. If a Do fails before it begins to send, for example because of an invalid path, it does not touch the stream.
// A body with streams is sent with an unknown length and is not sent again, unless the transport keeps it in memory
// (see httpclient.WithBufferedBodies).
func Multipart(payload any, files ...File) Body {
	m := &multipartBody{}
	var head bytes.Buffer
	w := multipart.NewWriter(&head)
	m.contentType = w.FormDataContentType()
	if payload != nil {
		encoded, err := encode(payload)
		m.fail(err)
		m.fail(writePart(w, `form-data; name="payload_json"`, "application/json"))
		head.Write(encoded)
	}
	for i, file := range files {
		m.fail(file.check(i))
		m.fail(writePart(w,
			multipart.FileContentDisposition(fmt.Sprintf("files[%d]", i), cmp.Or(file.Name, fmt.Sprint("file", i))),
			cmp.Or(file.ContentType, "application/octet-stream")))
		m.parts = append(m.parts, part{bytes.Clone(head.Bytes()), newSource(file.Content)})
		head.Reset()
	}
	m.fail(w.Close())
	m.tail = head.Bytes()
	return m
}

// multipartBody consists of parts, and of the tail after the last part.
type multipartBody struct {
	contentType string
	parts       []part
	tail        []byte
	err         error
}

// part consists of the bytes before a file, and of the file.
type part struct {
	head []byte
	file *source
}

// fail stores an error, unless an earlier one is stored already.
func (m *multipartBody) fail(err error) {
	if m.err == nil {
		m.err = err
	}
}

func (m *multipartBody) prepare() (content, error) {
	c := content{contentType: m.contentType, length: int64(len(m.tail)), open: m.open}
	for _, p := range m.parts {
		if p.file.held == nil {
			c.once, c.length = true, -1
			break
		}
		c.length += p.file.held.Size() + int64(len(p.head))
	}
	return c, m.err
}

func (m *multipartBody) open() (io.ReadCloser, error) {
	readers := make([]io.Reader, 0, 2*len(m.parts)+1)
	closers := make(closers, 0, len(m.parts))
	for i, p := range m.parts {
		file, err := p.file.open()
		if err != nil {
			closers.Close()
			return nil, fmt.Errorf("file %d: %w", i, err)
		}
		readers, closers = append(readers, bytes.NewReader(p.head), file), append(closers, file)
	}
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(append(readers, bytes.NewReader(m.tail))...), closers}, nil
}

type closers []io.Closer

func (c closers) Close() (first error) {
	for _, closer := range c {
		if err := closer.Close(); first == nil {
			first = err
		}
	}
	return first
}

func writePart(w *multipart.Writer, disposition, contentType string) error {
	_, err := w.CreatePart(textproto.MIMEHeader{
		"Content-Disposition": {disposition}, "Content-Type": {contentType},
	})
	return err
}

// check rejects characters that the header of a part cannot contain. It accepts line breaks in the name, because these
// are escaped.
func (f *File) check(i int) error {
	name := strings.NewReplacer("\r", "", "\n", "").Replace(f.Name)
	if !message.IsHeaderValue(name) || !message.IsHeaderValue(f.ContentType) {
		return fmt.Errorf("%w: file %d: name or content type: %w", ErrBody, i, ErrHeader)
	}
	return nil
}

// source is the content of a file. It is a section that can be read any number of times, or a stream.
type source struct {
	held   *io.SectionReader // nil for a stream
	stream io.Reader
	sent   atomic.Bool // the stream has been opened
}

// newSource returns a source of the content. If content is nil, the source is an empty file.
func newSource(content io.Reader) *source {
	if content == nil {
		return &source{held: io.NewSectionReader(strings.NewReader(""), 0, 0)}
	}
	return &source{held: sectionOf(content), stream: content}
}

// open returns a reader of the content from its beginning. A stream can be opened only once.
func (s *source) open() (io.ReadCloser, error) {
	switch stream, closable := s.stream.(io.ReadCloser); {
	case s.held != nil:
		return io.NopCloser(io.NewSectionReader(s.held, 0, s.held.Size())), nil
	case s.sent.Swap(true):
		return nil, fmt.Errorf("%w: its stream has been sent already: use an io.Seeker, or a new body", ErrBody)
	case closable:
		return stream, nil
	}
	return io.NopCloser(s.stream), nil
}

// sectionOf returns the unread rest of the content if the content can be rewound, and nil otherwise. Files that are
// pipes or devices also implement io.Seeker, but Seek returns an error or no size.
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
	if _, err := seeker.Seek(start, io.SeekStart); err != nil {
		return nil
	}
	at, ok := content.(io.ReaderAt)
	switch {
	case end <= start && !(ok && endsAt(at, start)):
		return nil
	case !ok:
		at = &seekerAt{seeker: seeker}
	}
	return io.NewSectionReader(at, start, max(end-start, 0))
}

// endsAt reports whether content ends at offset. This distinguishes an empty file from a device: for both, Seek reports
// no size, but only the file ends at the offset.
func endsAt(content io.ReaderAt, offset int64) bool {
	n, err := content.ReadAt(make([]byte, 1), offset)
	return n == 0 && err == io.EOF
}

// seekerAt makes an io.ReaderAt from an io.ReadSeeker. Each read seeks its position first, because a read of an earlier
// attempt may have moved the position since the previous read.
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
