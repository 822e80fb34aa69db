package discordtest

import (
	_ "embed"
	"fmt"
	"strings"
)

// published lists the operations of Discord's API description (version 10): method, path template and name.
//
//go:embed operations.txt
var published string

// operation says to which requests a rule applies, as a pattern of the engine.
type operation struct{ method, path string }

var everything = operation{"*", "/**"}

func (o operation) String() string { return o.method + " " + o.path }

// parseOperation parses the operation of a rule, see the package documentation.
func parseOperation(on string) (operation, error) {
	method, path, found := strings.Cut(on, " ")
	switch {
	case on == "*":
		return everything, nil
	case !found && !strings.Contains(on, "/"):
		return named(on)
	case !strings.HasPrefix(path, "/") || method == "" || method != strings.ToUpper(method):
		return operation{}, fmt.Errorf("%q is not an operation: "+
			`want a method and a path, such as "GET /users/@me", or a name such as "create_message"`, on)
	case strings.HasPrefix(path, "/api/"):
		return operation{}, fmt.Errorf("%q is not an operation: omit /api and the version", on)
	case strings.HasSuffix(path, "/**"):
		return operation{method, unnamed(path)}, nil
	}
	for line := range strings.Lines(published) {
		fields := strings.Fields(line)
		if fields[0] == method && fits(path, fields[1]) {
			return operation{method, unnamed(path)}, nil
		}
	}
	return operation{}, fmt.Errorf("no operation %q is documented by Discord; "+
		`for an undocumented one, end the path in "/**"`, on)
}

func named(name string) (operation, error) {
	for line := range strings.Lines(published) {
		if fields := strings.Fields(line); fields[2] == name {
			return operation{fields[0], unnamed(fields[1])}, nil
		}
	}
	return operation{}, fmt.Errorf("no operation is named %q", name)
}

// unnamed replaces each segment in braces by {id}, so that each operation has only one name.
func unnamed(path string) string {
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		if strings.HasPrefix(segment, "{") {
			segments[i] = "{id}"
		}
	}
	return strings.Join(segments, "/")
}

// fits reports whether a path matches a template of Discord. Instead of a template's words in braces, the path may have
// other words in braces, or values.
func fits(path, template string) bool {
	got, want := strings.Split(path, "/"), strings.Split(template, "/")
	if len(got) != len(want) {
		return false
	}
	for i := range got {
		open := strings.HasPrefix(want[i], "{")
		switch {
		case got[i] == want[i], open && strings.HasPrefix(got[i], "{") && strings.HasSuffix(got[i], "}"):
		case !open, got[i] == "", strings.HasSuffix(want[i], "_id}") && strings.Trim(got[i], "0123456789") != "":
			return false
		}
	}
	return true
}
