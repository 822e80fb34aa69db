package spectacles

import (
	"strings"

	"github.com/ratelight/ratelight/buckets/shared"
)

// ByPath names a route by its path, without the method. The name contains the id of the channel, guild or webhook at
// the beginning of the path. Other parameters are replaced by ":id", and the token of a webhook or an interaction by
// ":token".
//
//	GET and POST /channels/1/messages      /channels/1/messages
//	PATCH        /channels/1/messages/2    /channels/1/messages/:id
//	DELETE       /channels/1/messages/2    DELETE/channels/1/messages/:id
//	POST         /webhooks/3/token         /webhooks/3/:token
//
// All methods of a path share a counter, except for the deletion of a message, which has a counter of its own. All
// tokens of a webhook also share a counter.
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

// ByMethodAndPath names a route by its method, a space, and the path as in ByPath: "POST /channels/1/messages". So
// methods with separate limits have separate counters.
func ByMethodAndPath(key shared.Key) string {
	method, path, ok := pathOf(key)
	if !ok {
		return unrouted(key)
	}
	return method + " " + path
}

// unrouted returns the name of a bucket that several routes may use. No other client uses such a name.
func unrouted(key shared.Key) string { return "bucket:" + key.Hash + ":" + key.Major }

// pathOf returns the method and the path of a key's route. In the path, only those ids are filled in that have separate
// counters.
func pathOf(key shared.Key) (method, path string, ok bool) {
	method, template, ok := strings.Cut(key.Route, " ")
	if !ok || !strings.HasPrefix(template, "/") {
		return "", "", false
	}
	template, _, _ = strings.Cut(template, " ") // the name of a variant of the route may follow
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

// splits reports whether the ids after the first word of a path have separate counters.
func splits(word string) bool { return word == "channels" || word == "guilds" || word == "webhooks" }
