package rest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ratelight/ratelight/httpclient/internal/message"
	"github.com/ratelight/ratelight/httpclient/internal/redact"
)

// APIError is a response with an error status. Find it with errors.As.
//
// Each text that comes from the server is cut to 512 bytes. The tokens of the request are removed from these texts.
type APIError struct {
	// Route is the method and template, without parameters.
	Route string
	// Status is the HTTP status code.
	Status int
	// Code is Discord's error code, 0 if the response has none.
	Code int
	// Message is Discord's message. If the response has no message (because the network in front of Discord sent a page,
	// for example), Message is the text of the status, or empty for an unknown status. If a redirect was not followed,
	// Message says so.
	Message string
	// Errors are the errors about single fields of the request, ordered by path. There are at most 100.
	Errors []FieldError
	// Response is the unchanged response. It may contain tokens, so it is not encoded as JSON.
	Response *Response `json:"-"`
}

// FieldError is Discord's error about one field of a request.
type FieldError struct {
	// Path is the path of the field, such as "embeds.0.title". It is empty if the error is about the request as a
	// whole.
	Path string
	// Code is Discord's code, such as BASE_TYPE_REQUIRED; it can be empty.
	Code string
	// Message is human-readable text.
	Message string
}

// shownErrors bounds the field errors in the text of an APIError.
const shownErrors = 5

// Error describes the error in one line, with the first five field errors.
func (e *APIError) Error() string {
	text := e.Route + ": " + strconv.Itoa(e.Status)
	meaning := http.StatusText(e.Status)
	if meaning != "" {
		text += " " + meaning
	}
	// For example, the message of a 401 is "401: Unauthorized", which adds nothing.
	if e.Message != "" && e.Message != meaning && e.Message != strconv.Itoa(e.Status)+": "+meaning {
		text += ": " + e.Message
	}
	if e.Code != 0 {
		text += " (code " + strconv.Itoa(e.Code) + ")"
	}
	for i, field := range e.Errors {
		if i == shownErrors {
			text += "; and " + strconv.Itoa(len(e.Errors)-i) + " more"
			break
		}
		text += "; " + field.String()
	}
	return oneLine(text)
}

// String returns path, message and code in one line.
func (f FieldError) String() string {
	text := f.Message
	if f.Path != "" {
		text = f.Path + ": " + text
	}
	if f.Code != "" {
		text += " (" + f.Code + ")"
	}
	return oneLine(text)
}

// newAPIError returns the error for a response, without the secrets of the request.
func (c *call) newAPIError(r *Response) *APIError {
	e := &APIError{Route: c.name(), Status: r.Status, Response: r}
	// Redact before clipping, because redact.Text would not find a secret of which a part is cut off.
	clean := func(text string) string { return clip(redact.Text(text, c.secrets...)) }
	e.decode(message.Decoded(r.Header, r.Body, maxErrorBody+1), clean)
	if e.Message == "" {
		e.Message = http.StatusText(r.Status)
	}
	if r.Status < http.StatusBadRequest && r.Status >= http.StatusMultipleChoices {
		e.Message = "the redirect was not followed, because it leads to another host or method: see WithBaseURL"
	}
	return e
}

const (
	// maxErrorBody is the size in bytes of the largest error body that is parsed. Discord's error bodies have at most a
	// few thousand bytes.
	maxErrorBody = 1 << 20
	// maxText bounds each text that is taken from the server, in bytes.
	maxText = 512
)

// decode parses Discord's error object. It also parses the error objects of the OAuth2 endpoints and those of the
// oldest endpoints. (The latter contain only errors about fields.) It ignores everything else, and applies clean to all
// texts.
func (e *APIError) decode(body []byte, clean func(string) string) {
	body = bytes.TrimSpace(body)
	if len(body) > maxErrorBody || !bytes.HasPrefix(body, []byte("{")) {
		return
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(body, &object) != nil {
		return
	}
	if code, ok := message.Number(object["code"]); ok && code <= 1<<31 {
		e.Code = int(code)
	}
	e.Message = clean(textOf(object["message"]))
	switch {
	case object["errors"] != nil:
		e.Errors = fieldErrors(object["errors"], clean)
	case e.Message != "":
	case object["error"] != nil:
		e.Message = clean(strings.TrimSuffix(textOf(object["error"])+": "+textOf(object["error_description"]), ": "))
	case object["code"] == nil && object["retry_after"] == nil:
		e.Errors = fieldErrors(body, clean)
	}
}

// textOf returns the JSON string in raw, or "" if raw is anything else.
func textOf(raw json.RawMessage) (text string) {
	if json.Unmarshal(raw, &text) != nil {
		return ""
	}
	return text
}

// clip shortens a text to maxText bytes.
func clip(text string) string {
	if len(text) <= maxText {
		return text
	}
	end := maxText
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// oneLine replaces control characters and line separators by spaces. Otherwise a text could fake a second line in a
// log.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, text)
}

const (
	// maxFieldErrors and maxFieldDepth bound the work for an error object. Discord's objects have about six levels.
	maxFieldErrors = 100
	maxFieldDepth  = 16
)

// fieldErrors flattens Discord's error object. That object has the shape of the request, with lists named "_errors":
//
//	{"embeds": {"0": {"title": {"_errors": [{"code": "BASE_TYPE_MAX_LENGTH", "message": "Must be 256 or fewer …"}]}}}}
//
// The oldest endpoints have lists of strings instead of these lists. Everything else is ignored.
func fieldErrors(raw []byte, clean func(string) string) []FieldError {
	var tree any
	_ = json.Unmarshal(raw, &tree) // if raw cannot be decoded, tree is nil
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

// item adds one element of a list: an error, or a node that contains errors.
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

// join appends the name of a field to a path. It cleans the result, because the name comes from the server.
func (f *flattener) join(path, name string) string {
	if path != "" {
		name = path + "." + name
	}
	return f.clean(name)
}

// compareNames puts indexes before names, and orders indexes by their numbers.
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
