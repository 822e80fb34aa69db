package routes

import "strings"

// maxPath is the longest allowed path in bytes, percent-encoded. Many web servers accept at most 8 KiB for a whole
// request line.
const maxPath = 8 << 10

// plain says which bytes need no percent-encoding in a segment: the same bytes that url.PathEscape does not encode.
var plain = plainBytes()

func plainBytes() (set [256]bool) {
	for c := range 256 {
		set[c] = 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
			strings.IndexByte("-_.~$&+:=@", byte(c)) >= 0
	}
	return set
}

func isControl(c byte) bool { return c < ' ' || c == 0x7f }

// clean returns the canonical spelling of a path, which has no doubled or trailing slash, and percent-encoding only
// where it is necessary. Usually a path is clean already; clean then returns the same string.
//
// The path must begin with a slash. The offset in the error counts from that slash.
func clean(path string) (string, *PathError) {
	if len(path) > maxPath {
		return "", &PathError{Offset: maxPath, Err: ErrTooLong}
	}
	if isClean(path) {
		return path, nil
	}
	return rewrite(path)
}

// isClean reports whether a path is certainly clean. It may return false for a clean path.
func isClean(path string) bool {
	if len(path) > 1 && path[len(path)-1] == '/' {
		return false
	}
	for i := 0; ; i++ {
		for i < len(path) && plain[path[i]] { // a separate loop, because a long token in the path takes most of Match's time
			i++
		}
		if i == len(path) {
			return true
		}
		switch path[i] {
		case '/':
			if i+1 < len(path) && (path[i+1] == '/' || path[i+1] == '.') {
				return false
			}
		case '%':
			if !isEscape(path[i:]) {
				return false
			}
			i += 2
		default:
			return false
		}
	}
}

// isEscape reports whether text begins with a percent-encoding in the form that appendByte writes.
func isEscape(text string) bool {
	c, width := decode(text)
	return width == 3 && !plain[c] && !isControl(c) && isUpperHex(text[1]) && isUpperHex(text[2])
}

func isUpperHex(c byte) bool { return c < 'a' }

func rewrite(path string) (string, *PathError) {
	cleaned := make([]byte, 0, 256)
	for i := 0; i < len(path); {
		if path[i] == '/' {
			i++
			continue
		}
		start := i
		cleaned = append(cleaned, '/')
		segment := len(cleaned)
		for i < len(path) && path[i] != '/' {
			if plain[path[i]] {
				cleaned = append(cleaned, path[i])
				i++
				continue
			}
			c, width := decode(path[i:])
			if width == 0 {
				return "", &PathError{Offset: i, Err: ErrEncoding}
			}
			if isControl(c) {
				return "", &PathError{Offset: i, Err: ErrControlCharacter}
			}
			cleaned = appendByte(cleaned, c)
			i += width
		}
		if dots := string(cleaned[segment:]); dots == "." || dots == ".." {
			return "", &PathError{Offset: start, Err: ErrDotSegment}
		}
	}
	switch {
	case len(cleaned) > maxPath:
		return "", &PathError{Offset: 0, Err: ErrTooLong}
	case len(cleaned) == 0:
		return "/", nil
	default:
		return string(cleaned), nil
	}
}

// decode returns the first byte of text after percent-decoding. width is the length of its encoding in bytes, 0 if the
// encoding is bad.
func decode(text string) (c byte, width int) {
	if text[0] != '%' {
		return text[0], 1
	}
	if len(text) < 3 {
		return 0, 0
	}
	high, ok1 := unhex(text[1])
	low, ok2 := unhex(text[2])
	if !ok1 || !ok2 {
		return 0, 0
	}
	return high<<4 | low, 3
}

func unhex(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10, true
	default:
		return 0, false
	}
}

func appendByte(path []byte, c byte) []byte {
	if plain[c] {
		return append(path, c)
	}
	const digits = "0123456789ABCDEF"
	return append(path, '%', digits[c>>4], digits[c&15])
}

func appendEscaped(path []byte, value string) []byte {
	for i := range len(value) {
		path = appendByte(path, value[i])
	}
	return path
}
