package routes

// unknown returns the route of a clean path that the tree does not have.
//
// The template keeps as much of the path as possible, because endpoints with the same template share what is learnt
// about their limit. But paths can come from strangers, and every template needs memory. So these rules apply:
//
//   - as far as the path is in the tree, the template has the tree's literals and names of parameters;
//   - the next segment is kept if it is a word anywhere in the tree; otherwise it becomes {id} or {value};
//   - the segment after that becomes {id} or {value}, and the remainder becomes one {rest}.
//
// With N nodes in the tree, W words and M methods, there are fewer than M·N·(1 + (W+2)·5) templates: less than two
// million.
//
// No token can become part of a template. In the tree, the segment after /webhooks/{webhook_id} and
// /interactions/{interaction_id} is a parameter. After the part that is in the tree, only words of the tree are copied.
func unknown(v verb, path string) Route {
	template := append(append(make([]byte, 0, 128), verbs[v]...), ' ')
	rest, n := path, tree
	for rest != "" {
		segment, after := cutSegment(rest)
		next := n.literals[segment]
		if next == nil {
			next, segment = n.parameter, n.name
		}
		if next == nil {
			break
		}
		template = append(append(template, '/'), segment...)
		n, rest = next, after
	}
	template = appendTail(template, rest)
	return define(string(template), "").route()
}

// appendTail appends the segments that are not in the tree.
func appendTail(template []byte, rest string) []byte {
	if rest == "" || rest == "/" {
		return append(template, rest...)
	}
	segment, rest := cutSegment(rest)
	template = append(template, '/')
	if words[segment] {
		template = append(template, segment...)
	} else {
		template = append(template, placeholder(segment)...)
	}
	if rest == "" {
		return template
	}
	segment, rest = cutSegment(rest)
	template = append(append(template, '/'), placeholder(segment)...)
	if rest == "" {
		return template
	}
	return append(template, "/{rest}"...)
}

func placeholder(segment string) string {
	if isDigits(segment) {
		return "{id}"
	}
	return "{value}"
}
