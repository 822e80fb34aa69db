package spectacles

import (
	"strings"

	"github.com/ratelight/ratelight/buckets/shared"
)

// ByPath names a route by its path, without the method. The id of a channel, guild or webhook at the beginning of the
// path stays in the name. Other parameters become ":id", and the token of a webhook or interaction becomes ":token".
//
//	GET and POST /channels/1/messages      /channels/1/messages
//	PATCH        /channels/1/messages/2    /channels/1/messages/:id
//	DELETE       /channels/1/messages/2    DELETE/channels/1/messages/:id
//	POST         /webhooks/3/token         /webhooks/3/:token
//
// All methods of a path share a counter, except for the deletion of a message. All tokens of a webhook share a counter,
// too.
func ByPath(key shared.Key) string {
	method, path, ok := pathOf(key)
	if !ok {
		return unrouted(key)
	}
	if method == "DELETE" && strings.HasSuffix(path, "/messages/:id") {
		return method + path
	}
	return path
}

// ByMethodAndPath names a route by its method and, after a space, its path as in ByPath: "POST /channels/1/messages".
// Methods with separate limits then have separate counters.
func ByMethodAndPath(key shared.Key) string {
	method, path, ok := pathOf(key)
	if !ok {
		return unrouted(key)
	}
	return method + " " + path
}

// unrouted names a bucket that several routes may use. No other client has a bucket with that name.
func unrouted(key shared.Key) string { return "bucket:" + key.Hash + ":" + key.Major }

// pathOf returns the method of a key's route, and its path. In the path, only ids that have separate counters are
// filled in.
func pathOf(key shared.Key) (method, path string, ok bool) {
	method, template, ok := strings.Cut(key.Route, " ")
	if !ok || !strings.HasPrefix(template, "/") {
		return "", "", false
	}
	template, _, _ = strings.Cut(template, " ") // a variant of the route may follow
	segments := strings.Split(template[1:], "/")
	for i, segment := range segments {
		switch {
		case !strings.HasPrefix(segment, "{"):
		case i == 1 && splits(segments[0]):
			segments[i], _, _ = strings.Cut(key.Major, ":")
		case i == 2 && (segments[0] == "webhooks" || segments[0] == "interactions"):
			segments[i] = ":token"
		default:
			segments[i] = ":id"
		}
	}
	return method, "/" + strings.Join(segments, "/"), true
}

// splits reports whether ids after a path's first word have separate counters.
func splits(word string) bool { return word == "channels" || word == "guilds" || word == "webhooks" }
