package message

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"io"
	"net/http"
	"strings"
)

// Encoding is how a body is encoded. net/http takes gzip off only if it has asked for it by itself; a caller who says what he accepts, as
// libraries do whose requests come through a proxy, gets bodies as they are, and only our own look at them is a decoded one.
type Encoding string

const (
	Plain   Encoding = ""
	gzipped Encoding = "gzip"
	deflate Encoding = "deflate"
)

// EncodingOf returns how a response's body is encoded, and whether that can be undone here.
func EncodingOf(header http.Header) (e Encoding, known bool) {
	switch name := strings.ToLower(strings.TrimSpace(HeaderValue(header, "Content-Encoding"))); name {
	case "", "identity":
		return Plain, true
	case "gzip", "x-gzip":
		return gzipped, true
	case "deflate":
		return deflate, true
	}
	return "", false
}

// Decoded returns what a body, or the beginning of one, says: up to so many bytes of it if it is encoded, and nothing if that cannot be
// undone.
func Decoded(header http.Header, body []byte, most int64) []byte {
	e, known := EncodingOf(header)
	if !known {
		return nil
	}
	return e.Decode(body, most)
}

// Decode returns what a body says, or its beginning: up to so many bytes of it if it is encoded.
func (e Encoding) Decode(body []byte, most int64) []byte {
	var reader io.Reader
	var err error
	switch e {
	case gzipped:
		reader, err = gzip.NewReader(bytes.NewReader(body))
	case deflate:
		if reader, err = zlib.NewReader(bytes.NewReader(body)); err != nil { // some servers leave zlib's frame out
			reader, err = flate.NewReader(bytes.NewReader(body)), nil
		}
	default:
		return body
	}
	if err != nil {
		return nil
	}
	text, _ := io.ReadAll(io.LimitReader(reader, most)) // what there is of it
	return text
}
