package routes

// verb is the index of an HTTP method in verbs.
type verb uint8

// verbs are the methods that have routes. The set is closed so that no caller can grow the number of routes with
// methods of his own invention.
var verbs = [...]string{"GET", "POST", "PATCH", "PUT", "DELETE", "HEAD", "OPTIONS", "CONNECT", "TRACE"}

// parseVerb accepts any mix of cases: net/http hands methods on as the caller wrote them.
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
	return 0, false
}

// equalUpper reports whether text in ASCII upper case is upper. strings.EqualFold would also fold letters such as the
// long s into ASCII ones.
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
