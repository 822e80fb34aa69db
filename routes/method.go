package routes

import "strings"

// verb is the index of an HTTP method in verbs.
type verb uint8

// verbs lists the known methods. All unknown methods share the last entry, so that callers cannot create any number of
// routes.
var verbs = [...]string{"GET", "POST", "PATCH", "PUT", "DELETE", "HEAD", "OPTIONS", "CONNECT", "TRACE", "{method}"}

const otherVerb = verb(len(verbs) - 1)

// parseVerb returns the verb of a method. The case does not matter, because net/http keeps the caller's spelling.
// parseVerb returns false if the method is not valid.
func parseVerb(method string) (verb, bool) {
	for index, name := range verbs {
		if name == method {
			return verb(index), true
		}
	}
	for index, name := range verbs {
		if equalUpper(method, name) {
			return verb(index), true
		}
	}
	return otherVerb, isToken(method)
}

// isToken reports whether text is a token in the sense of RFC 9110, which a method must be.
func isToken(text string) bool {
	for i := range len(text) {
		c := text[i]
		alphanumeric := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !alphanumeric && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return text != ""
}

// equalUpper reports whether text equals upper when its ASCII letters are converted to upper case. strings.EqualFold
// would also accept other letters, such as the long s.
func equalUpper(text, upper string) bool {
	if len(text) != len(upper) {
		return false
	}
	for i := range len(text) {
		c := text[i]
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		if c != upper[i] {
			return false
		}
	}
	return true
}
