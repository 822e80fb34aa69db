package routes

// unknown makes the route of a clean path that the tree does not have.
//
// The template must say as much as it can, since endpoints that share a template share what is learnt about their limit.
// But paths can come from strangers, and every template costs memory. Hence:
//
//   - as far as the tree knows the path, its literals and parameter names stand in the template;
//   - the first segment beyond stays if it is a word from somewhere in the tree;
//   - it and the next one become {id} or {value} otherwise, and all that follows becomes one {rest}.
//
// With N nodes in the tree, W words and M methods there are fewer than M·N·(1 + (W+2)·5) templates, whatever the paths:
// less than two million. A real client sees a few dozen.
//
// No token gets into a template: the place after /webhooks/{webhook_id} and /interactions/{interaction_id} is a parameter
// in the tree, and beyond the tree only words of the tree are copied.
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

// appendTail adds the segments that the tree does not have.
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
