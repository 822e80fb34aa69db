package routes

import (
	"fmt"
	"strings"
)

// Compile fills in the template's parameters, in the order of the template. It percent-encodes the values, so pass raw
// ones, such as "🔥" or "name:123" for an emoji.
//
// The result is the same that [Match] returns for the path. So if a value has a special meaning, the result has another
// Route than r: GetUser compiled with "@me" gives GetMyUser, and ExecuteWebhook compiled with an interaction's token
// gives its interaction variant. DeleteMessage is for messages between 10 seconds and 14 days old; use
// [DeleteMessageAt] for messages of any age.
//
// The error is a [*ParameterError] or [ErrZeroRoute]. It never contains a value of a parameter.
func (r Route) Compile(parameters ...string) (CompiledRoute, error) {
	if r.IsZero() {
		return CompiledRoute{}, ErrZeroRoute
	}
	d := r.definition()
	path := make([]byte, 0, 256) // on the stack; an interaction's token has about 200 bytes
	used, special := 0, false
	for rest := d.template(); rest != ""; {
		var segment string
		segment, rest = cutSegment(rest)
		path = append(path, '/')
		if !isParameter(segment) {
			path = append(path, segment...)
			continue
		}
		name := segment[1 : len(segment)-1]
		if used == len(parameters) {
			return CompiledRoute{}, &ParameterError{r, name, ParameterMissing, counts(d.template(), parameters)}
		}
		value := parameters[used]
		used++
		if problem, reason := checkParameter(value); problem != 0 {
			return CompiledRoute{}, &ParameterError{r, name, problem, reason}
		}
		special = special || words[value]
		path = appendEscaped(path, value)
		if len(path) > maxPath {
			return CompiledRoute{}, &ParameterError{r, name, ParameterIllegal,
				fmt.Sprintf("makes the path longer than %d bytes", maxPath)}
		}
	}
	if used < len(parameters) {
		return CompiledRoute{}, &ParameterError{r, "", ParameterSurplus, counts(d.template(), parameters)}
	}
	compiled := string(path)
	if special {
		r = d.resolve(r, compiled)
	}
	return fill(r, compiled), nil
}

// resolve returns the route of a path in which the value of a parameter is also a literal segment in the tree, such as
// "@me".
func (d definition) resolve(r Route, path string) Route {
	v, _ := parseVerb(d.method())
	if found := tree.find(path, v); !found.IsZero() && found.Template() != d.template() {
		return found
	}
	return r
}

// checkParameter returns what is wrong with a value, 0 if it is valid. A value is wrong if a server might not read it
// as exactly one segment.
func checkParameter(value string) (Problem, string) {
	switch {
	case value == "":
		return ParameterEmpty, "it is \"\", expected a value"
	case value == "." || value == "..":
		return ParameterIllegal, "it is a dot segment, which would change the path"
	}
	for i := range len(value) {
		switch c := value[i]; {
		case c == '/':
			return ParameterIllegal, "it has a slash, expected one segment of a path"
		case c == '\\': // some proxies treat it as a slash
			return ParameterIllegal, "it has a backslash, expected one segment of a path"
		case isControl(c):
			return ParameterIllegal, "it has a control character"
		}
	}
	return 0, ""
}

func counts(template string, parameters []string) string {
	return fmt.Sprintf("got %d parameters, expected %d", len(parameters), strings.Count(template, "{"))
}
