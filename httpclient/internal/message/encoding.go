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

// Encoding is the encoding of a body. net/http decodes gzip only if net/http itself has asked for it. A request that
// sets Accept-Encoding, as libraries behind a proxy do, gets an encoded body, which only the callers of this package
// decode.
type Encoding string

const (
	Plain   Encoding = ""
	gzipped Encoding = "gzip"
	deflate Encoding = "deflate"
)

// EncodingOf returns the encoding of a response's body, and whether Decode supports it.
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

// Decoded decodes a body, or the beginning of one. Of an encoded body it returns up to most bytes after decoding, of an
// unencoded body all bytes, and nil if the encoding is not supported.
func Decoded(header http.Header, body []byte, most int64) []byte {
	e, known := EncodingOf(header)
	if !known {
		return nil
	}
	return e.Decode(body, most)
}

// Decode decodes a body, or the beginning of one. Of an encoded body it returns up to most bytes after decoding.
func (e Encoding) Decode(body []byte, most int64) []byte {
	var reader io.Reader
	var err error
	switch e {
	case gzipped:
		reader, err = gzip.NewReader(bytes.NewReader(body))
	case deflate:
		if reader, err = zlib.NewReader(bytes.NewReader(body)); err != nil { // some servers omit the zlib header
			reader, err = flate.NewReader(bytes.NewReader(body)), nil
		}
	default:
		return body
	}
	if err != nil {
		return nil
	}
	text, _ := io.ReadAll(io.LimitReader(reader, most)) // the body may be cut off, so ignore the error
	return text
}
