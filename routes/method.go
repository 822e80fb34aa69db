package routes

import "strings"

// verb is the index of an HTTP method in verbs.
type verb uint8

// verbs are the known methods. Unknown methods share the last entry, so that callers cannot grow the number of routes.
var verbs = [...]string{"GET", "POST", "PATCH", "PUT", "DELETE", "HEAD", "OPTIONS", "CONNECT", "TRACE", "{method}"}

const otherVerb = verb(len(verbs) - 1)

// parseVerb returns the verb of a method. Upper and lower case are the same, because net/http keeps the caller's
// spelling. It returns false if the method is not valid.
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

// isToken reports whether text is a token, as RFC 9110 requires of a method.
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

// equalUpper reports whether text equals upper after its ASCII letters are converted to upper case. strings.EqualFold
// would also fold letters such as the long s into ASCII ones.
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
