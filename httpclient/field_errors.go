package httpclient

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
)

const (
	// maxFieldErrors and maxFieldDepth bound what is made of an object of errors. Discord's are nested six deep or so.
	maxFieldErrors = 100
	maxFieldDepth  = 16
)

// fieldErrors flattens Discord's object of errors, which has the shape of the request, and lists under "_errors":
//
//	{"embeds": {"0": {"title": {"_errors": [{"code": "BASE_TYPE_MAX_LENGTH", "message": "Must be 256 or fewer in length."}]}}}}
//
// The oldest endpoints have lists of strings in the place of that. Whatever else there is is left out.
func fieldErrors(raw []byte, clean func(string) string) []FieldError {
	var tree any
	if json.Unmarshal(raw, &tree) != nil {
		return nil
	}
	f := flattener{clean: clean}
	f.walk("", 0, tree)
	return f.errors
}

type flattener struct {
	clean  func(string) string
	errors []FieldError
}

func (f *flattener) walk(path string, depth int, node any) {
	if depth > maxFieldDepth || len(f.errors) >= maxFieldErrors {
		return
	}
	switch node := node.(type) {
	case string:
		f.errors = append(f.errors, FieldError{Path: path, Message: f.clean(node)})
	case []any:
		for i, child := range node {
			f.item(path, depth, i, child)
		}
	case map[string]any:
		if own, ok := node["_errors"].([]any); ok {
			f.walk(path, depth, own)
		}
		for _, name := range slices.SortedFunc(maps.Keys(node), compareNames) {
			if name != "_errors" {
				f.walk(f.join(path, name), depth+1, node[name])
			}
		}
	}
}

// item adds one element of a list: an error, or something with errors in it.
func (f *flattener) item(path string, depth, index int, node any) {
	object, ok := node.(map[string]any)
	if !ok {
		f.walk(path, depth+1, node)
		return
	}
	message, ok := object["message"].(string)
	switch {
	case !ok:
		f.walk(f.join(path, strconv.Itoa(index)), depth+1, node)
	case len(f.errors) < maxFieldErrors:
		f.errors = append(f.errors, FieldError{Path: path, Code: f.clean(codeOf(object["code"])), Message: f.clean(message)})
	}
}

func codeOf(code any) string {
	switch code := code.(type) {
	case string:
		return code
	case float64:
		return strconv.FormatFloat(code, 'f', -1, 64)
	default:
		return ""
	}
}

// join appends a name to a path. Names are those of the request's fields, so short; what is not is cut.
func (f *flattener) join(path, name string) string {
	if path != "" {
		name = path + "." + name
	}
	return f.clean(name)
}

// compareNames orders indexes by their number, before names.
func compareNames(a, b string) int {
	i, errA := strconv.ParseUint(a, 10, 64)
	j, errB := strconv.ParseUint(b, 10, 64)
	switch {
	case errA == nil && errB == nil:
		return cmp.Or(cmp.Compare(i, j), cmp.Compare(a, b))
	case errA == nil:
		return -1
	case errB == nil:
		return 1
	}
	return cmp.Compare(a, b)
}
