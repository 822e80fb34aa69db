package discordsim

import (
	"encoding/hex"
	"hash/fnv"
	"slices"
	"strings"
)

// interactionPrefix is the beginning of every interaction token: base64 of "interaction:" (observed by client authors).
const interactionPrefix = "aW50ZXJhY3Rpb246"

// operation is what the server derives from a method and a path. It drops "/api" and "/vN" and replaces the variable
// parts by placeholders. On purpose, it does not use a list of Discord's routes.
type operation struct {
	method   string
	raw      []string // the path's segments as sent, without /api and /vN
	template []string // the same segments, with placeholders for variable ones
	// major is the major parameter: each value of it has its own counters under one hash. It is the id of a channel or
	// guild, or the id of a webhook or interaction, followed by a digest of its token if the path has one.
	major string
	// interaction says that the request is an interaction's callback or, as its token shows, a follow-up.
	interaction bool
	// byToken says that the token in the path, and not the authorization, decides which bucket counts the request.
	byToken bool
}

// parseOperation returns the operation of a method and of a path from a request line. It ignores query and fragment.
func parseOperation(method, path string) operation {
	if i := strings.IndexAny(path, "?#"); i >= 0 {
		path = path[:i]
	}
	raw := strings.Split(strings.Trim(path, "/"), "/")
	if raw[0] == "api" {
		raw = raw[1:]
	}
	if len(raw) > 0 && len(raw[0]) > 1 && raw[0][0] == 'v' && isNumber(raw[0][1:]) {
		raw = raw[1:]
	}
	op := operation{method: method, raw: raw, template: make([]string, len(raw))}
	for i := range raw {
		op.template[i] = placeholder(raw, i)
	}
	op.findMajor()
	return op
}

// placeholder returns the placeholder for segment i, or the segment itself if it is a fixed part of the path.
func placeholder(raw []string, i int) string {
	switch {
	case i > 0 && raw[i-1] == "reactions":
		return "{emoji}"
	case i == 2 && (raw[0] == "webhooks" || raw[0] == "interactions"):
		return "{token}"
	case isNumber(raw[i]), raw[i] == "@original": // @original is in the place of a message id
		return "{id}"
	case i > 0 && slices.Contains([]string{"invites", "templates", "activity-instances"}, raw[i-1]):
		return "{code}"
	}
	return raw[i]
}

func (op *operation) findMajor() {
	if len(op.raw) < 2 || op.template[1] != "{id}" {
		return
	}
	switch op.raw[0] {
	case "channels", "guilds":
		op.major = op.raw[1]
	case "webhooks", "interactions":
		op.major = op.raw[1]
		if len(op.raw) > 2 {
			op.major += ":" + digest(op.raw[2])
			op.byToken = op.raw[0] == "webhooks"
			op.interaction = op.raw[0] == "interactions" || strings.HasPrefix(op.raw[2], interactionPrefix)
		}
	}
}

// String returns the method and the path template, such as "POST /channels/{id}/messages".
func (op operation) String() string {
	return op.method + " /" + strings.Join(op.template, "/")
}

// hash returns a bucket name for an operation whose rule has no hash. The name has the same length and the same form as
// Discord's names.
func (op operation) hash() string {
	h := fnv.New128a()
	h.Write([]byte(op.String()))
	return hex.EncodeToString(h.Sum(nil))
}

// digest returns a hash that replaces a secret in keys and reports. It returns "" for an empty secret.
func digest(secret string) string {
	if secret == "" {
		return ""
	}
	h := fnv.New64a()
	h.Write([]byte(secret))
	return hex.EncodeToString(h.Sum(nil))
}

func isNumber(segment string) bool {
	for i := range len(segment) {
		if segment[i] < '0' || segment[i] > '9' {
			return false
		}
	}
	return segment != ""
}
