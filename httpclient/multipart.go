package httpclient

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime/multipart"
	"net/textproto"
	"strconv"
	"strings"
)

// File is a file to upload.
type File struct {
	// Name is what Discord is to call the file. Quotes, backslashes and line breaks are escaped. Empty: "file" and the number.
	Name string
	// ContentType is the file's media type; empty: application/octet-stream, Discord looks for itself.
	ContentType string
	// Content is read from where it stands to its end; nil is an empty file. See Multipart.
	Content io.Reader
}

// Multipart returns a multipart/form-data body as Discord takes files: payload, encoded as JSON at once, in a part
// "payload_json", and the files in parts "files[0]", "files[1]" and so on. Without a payload (nil) there is no such part.
//
// The body can be sent again. A file that is an io.Seeker is read again from where it stood when the body was first sent;
// it should not be used otherwise until then, and is never closed. Any other Content is a stream: it is read when the body
// is first sent, and kept if all streams together hold no more than WithMaxReplay bytes, and WithMaxBufferedTotal has room for
// them; if it is an io.Closer, it is closed when it has been read, or when the context ends or the client is closed before.
// What exceeds that can be sent once, with an unknown length; another Do with it fails with ErrBody. What is kept counts as
// buffered until the Do that has read it returns, and then as the caller's. A Content is never read by two requests at the
// same time.
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
		m.fail(writePart(w, file.disposition(i), file.mediaType()))
		m.parts = append(m.parts, part{bytes.Clone(head.Bytes()), newSource(file.Content)})
		head.Reset()
	}
	m.fail(w.Close())
	m.tail = head.Bytes()
	return m
}

// multipartBody is a sequence of heads and files, and the tail after the last of them.
type multipartBody struct {
	contentType string
	parts       []part
	tail        []byte
	err         error
}

// part is what stands before a file, and the file.
type part struct {
	head []byte
	file *source
}

// fail keeps the first error.
func (m *multipartBody) fail(err error) {
	if m.err == nil {
		m.err = err
	}
}

func (m *multipartBody) prepare(life, ctx context.Context, limit int64, room *room) (content, error) {
	c := content{contentType: m.contentType, length: int64(len(m.tail)), open: m.open}
	if m.err != nil {
		return c, m.err
	}
	for i, p := range m.parts {
		kept, err := p.file.prepare(life, ctx, limit, room)
		if err != nil {
			for _, before := range m.parts[:i] {
				before.file.giveUp()
			}
			return c, fmt.Errorf("file %d: %w", i, err)
		}
		limit -= kept
		size, once := p.file.size()
		c.once = c.once || once
		if once || c.length < 0 {
			c.length = -1
		} else {
			c.length += size + int64(len(p.head))
		}
	}
	return c, nil
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

// Close closes all and returns the first error.
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

// check refuses what would end a line of a part's header. Line breaks in a name are escaped.
func (f *File) check(i int) error {
	name := strings.NewReplacer("\r", "", "\n", "").Replace(f.Name)
	if !isHeaderValue(name) || !isHeaderValue(f.ContentType) {
		return fmt.Errorf("%w: file %d: name or content type: %w", ErrBody, i, ErrHeader)
	}
	return nil
}

func (f *File) disposition(i int) string {
	name := f.Name
	if name == "" {
		name = "file" + strconv.Itoa(i)
	}
	return multipart.FileContentDisposition("files["+strconv.Itoa(i)+"]", name)
}

func (f *File) mediaType() string {
	if f.ContentType == "" {
		return "application/octet-stream"
	}
	return f.ContentType
}
