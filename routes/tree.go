package routes

// node is a node of a tree of paths. It has one child for each literal segment, and at most one child for a parameter.
// The trees of this package do not change after they are built.
type node struct {
	literals  map[string]*node
	parameter *node
	name      string            // name of the parameter, in braces
	routes    [len(verbs)]Route // routes of the paths that end at this node, by method
}

// tree has the paths of catalogue and seen.
var tree = grow(catalogue[:], seen[:])

// words has all literal segments of the tree.
var words = tree.words()

func grow(groups ...[]Route) *node {
	root := new(node)
	for _, routes := range groups {
		for _, route := range routes {
			d := route.definition()
			v, _ := parseVerb(d.method())
			root.plant(d.template()).routes[v] = route
		}
	}
	return root
}

// plant returns the node for a template below n. It creates missing nodes.
func (n *node) plant(template string) *node {
	for rest := template; rest != ""; {
		var segment string
		segment, rest = cutSegment(rest)
		n = n.child(segment)
	}
	return n
}

func (n *node) child(segment string) *node {
	if isParameter(segment) {
		if n.parameter == nil {
			n.parameter, n.name = new(node), segment
		}
		return n.parameter
	}
	if n.literals == nil {
		n.literals = make(map[string]*node)
	}
	if n.literals[segment] == nil {
		n.literals[segment] = new(node)
	}
	return n.literals[segment]
}

// find returns the route of a clean path, or the zero Route if there is none. A literal has precedence over a parameter
// if it leads to a route: /guilds/{guild_id}/members/@me exists for PATCH, but GET needs {user_id}.
func (n *node) find(path string, v verb) Route {
	if path == "" {
		return n.routes[v]
	}
	segment, rest := cutSegment(path)
	if literal := n.literals[segment]; literal != nil {
		if route := literal.find(rest, v); !route.IsZero() {
			return route
		}
	}
	if n.parameter == nil || segment == "" {
		return Route{}
	}
	return n.parameter.find(rest, v)
}

// shaped returns the route whose template is equal to the given template except for the names of parameters. If there
// is none, it returns the zero Route.
func (n *node) shaped(template string, v verb) Route {
	for rest := template; rest != "" && n != nil; {
		var segment string
		segment, rest = cutSegment(rest)
		if isParameter(segment) {
			n = n.parameter
		} else {
			n = n.literals[segment]
		}
	}
	if n == nil {
		return Route{}
	}
	return n.routes[v]
}

func (n *node) words() map[string]bool {
	set := make(map[string]bool)
	n.visit(func(below *node) {
		for word := range below.literals {
			set[word] = true
		}
	})
	return set
}

// visit calls f for the node and all nodes below it.
func (n *node) visit(f func(*node)) {
	f(n)
	for _, literal := range n.literals {
		literal.visit(f)
	}
	if n.parameter != nil {
		n.parameter.visit(f)
	}
}
