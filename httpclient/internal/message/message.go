// Package message parses and checks parts of HTTP messages as net/http does: header syntax, content encodings, paths,
// and the JSON of Discord's errors.
package message

import (
	"encoding/json"
	"math"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

// IsHeaderName reports whether a text can be the name of a header. Methods have the same syntax.
func IsHeaderName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		letter := 'a' <= r|0x20 && r|0x20 <= 'z' && r < utf8.RuneSelf
		return !letter && !('0' <= r && r <= '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

// IsIdempotent reports whether requests of this method do no harm when the server processes them twice.
func IsIdempotent(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPut, http.MethodDelete:
		return true
	}
	return false
}

// IsHeaderValue reports whether a text can be the value of a header.
func IsHeaderValue(value string) bool {
	return !strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

// HeaderValue returns the first value of the header with this name, or "" if there is none. The name in the header need
// not be in the canonical form, because net/http sends headers in any form.
func HeaderValue(header http.Header, canonical string) string {
	values := header[canonical]
	if len(values) == 0 {
		for name, others := range header {
			if len(others) > 0 && strings.EqualFold(name, canonical) {
				values = others
				break
			}
		}
	}
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// IsJSON reports whether content of this type is or may be JSON. It may be JSON if the type is empty.
func IsJSON(contentType string) bool {
	if contentType == "" {
		return true
	}
	kind, _, err := mime.ParseMediaType(contentType)
	return err == nil && (kind == "application/json" || kind == "text/json" || strings.HasSuffix(kind, "+json"))
}

// Number parses a JSON number of 0 or more, or a JSON string that contains such a number. It rejects infinity and NaN.
func Number(raw json.RawMessage) (float64, bool) {
	text := string(raw)
	if strings.HasPrefix(text, `"`) && json.Unmarshal(raw, &text) != nil {
		return 0, false
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n >= 0) || math.IsInf(n, 0) {
		return 0, false
	}
	return n, true
}

// Path returns the path that net/http sends, see url.URL.RequestURI. If net/http sends a whole URL instead of a path,
// Path returns the whole URL.
func Path(u *url.URL) string {
	path := u.Opaque
	if path == "" {
		path = u.EscapedPath()
	}
	switch {
	case path == "":
		return "/"
	case u.Opaque != "" && strings.HasPrefix(path, "//"):
		return "http:" + path
	}
	return path
}
