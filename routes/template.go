package routes

// checkTemplate returns a *PathError if a template cannot be compiled and matched.
func checkTemplate(template string) error {
	if len(template) > maxPath {
		return &PathError{Offset: maxPath, Err: ErrTooLong}
	}
	if template == "" || template[0] != '/' {
		return &PathError{Offset: 0, Err: ErrTemplate}
	}
	offset := 0
	for rest := template; rest != ""; {
		var segment string
		segment, rest = cutSegment(rest)
		offset++
		first := offset == 1
		if !validSegment(segment) || first && isPrefix(segment) {
			return &PathError{Offset: offset, Err: ErrTemplate}
		}
		offset += len(segment)
	}
	return nil
}

// validSegment reports whether a segment is either a literal that needs no percent-encoding, or a valid name in braces.
func validSegment(segment string) bool {
	if isParameter(segment) {
		name := segment[1:]
		if len(name) < 2 || name[len(name)-1] != '}' {
			return false
		}
		for _, c := range []byte(name[:len(name)-1]) {
			if !isNameByte(c) {
				return false
			}
		}
		return true
	}
	if segment == "" || segment == "." || segment == ".." {
		return false
	}
	for i := range len(segment) {
		if !plain[segment[i]] {
			return false
		}
	}
	return true
}

func isNameByte(c byte) bool {
	return c == '_' || c == '.' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
