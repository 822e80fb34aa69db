package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/ratelight/ratelight/httpclient/internal/message"
)

// ErrBody is wrapped by errors about bodies that cannot be sent. Such a body has a value that cannot be encoded as
// JSON, a file whose name or type is illegal in a header, or a stream that has been sent before.
var ErrBody = errors.New("bad body")

// Body is the body of a request. Make one with JSON, Bytes or Multipart. A body can be sent any number of times, and by
// several requests at the same time. For exceptions, see Multipart.
type Body interface {
	// prepare returns the content for one use of Do.
	prepare() (content, error)
}

// content is a body that is ready to be sent.
type content struct {
	contentType string
	length      int64 // -1 if it is not known
	once        bool  // open works only once
	open        func() (io.ReadCloser, error)
}

type bytesBody struct {
	contentType string
	content     []byte
	err         error
}

func (b *bytesBody) prepare() (content, error) {
	return content{
		contentType: b.contentType,
		length:      int64(len(b.content)),
		open:        func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.content)), nil },
	}, b.err
}

// Bytes returns a body with the given content type. The bytes are not copied, so do not change them while the body is
// in use.
func Bytes(contentType string, b []byte) Body {
	body := &bytesBody{contentType: contentType, content: b}
	if !message.IsHeaderValue(contentType) {
		body.err = fmt.Errorf("%w: content type: %w", ErrBody, ErrHeader)
	}
	return body
}

// JSON returns a body that contains v, encoded by package json. JSON encodes v at once, so later changes of v have no
// effect. If v cannot be encoded, Do returns an error that wraps ErrBody and the error of package json.
func JSON(v any) Body {
	encoded, err := encode(v)
	return &bytesBody{contentType: "application/json", content: encoded, err: err}
}

// encode is json.Marshal without HTML escapes. The escapes would make each mention, such as <@1>, ten bytes longer.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBody, err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
