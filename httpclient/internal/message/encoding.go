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

// Encoding is the content encoding of a body. net/http decodes gzip only if net/http itself has added Accept-Encoding
// to the request. If the request already has an Accept-Encoding, as requests through a proxy do, the body stays
// encoded. This package decodes it.
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

// Decoded decodes a body, or the beginning of one. It returns at most limit decoded bytes. If the body is not encoded,
// it returns the body. If the encoding is not supported, it returns nil.
func Decoded(header http.Header, body []byte, limit int64) []byte {
	e, known := EncodingOf(header)
	if !known {
		return nil
	}
	return e.Decode(body, limit)
}

// Decode decodes a body, or the beginning of one. It returns at most limit decoded bytes. If the body is not encoded,
// it returns the body.
func (e Encoding) Decode(body []byte, limit int64) []byte {
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
	text, _ := io.ReadAll(io.LimitReader(reader, limit)) // ignore the error, because the body may be incomplete
	return text
}
