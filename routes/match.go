package routes

import "time"

// Match returns the compiled route of a request.
//
// The case of the method does not matter. path may be a URL or a path alone, with or without /api and a version, with
// doubled and trailing slashes, percent-encoded or not. Query and fragment are ignored. A prefix before /api and a
// version, such as the mount path of a proxy, is also ignored, except if the whole path is known. HEAD and OPTIONS have
// Routes of their own. Methods that this package does not know, such as QUERY, share one Route for each template. The
// Method of this Route is "{method}".
//
// Literal segments have precedence over parameters: /users/@me is GetMyUser and not GetUser. A path that is not in the
// catalogue gets a new Route, which has the path's major parameter. The template of that Route follows the known paths
// as far as possible. The next segment is kept if it is a word of Discord's API; otherwise it becomes {id} (if it is a
// number) or {value}. The segment after that always becomes {id} or {value}, and the remainder becomes {rest}. So there
// are fewer than two million Routes with placeholders. Unused ones are garbage collected.
//
// The Route of DELETE message depends on the age of the message at time.Now: see [MatchAt].
//
// If the path is in the catalogue and has the spelling of [CompiledRoute.Path], with or without a host, prefix or
// query, Match does not allocate. For other spellings it allocates once.
//
// The error is a [*PathError] that wraps one of the error variables of this package. If errors.Is(err, ErrNotAPI) is
// true, the URL needs no limiter. The error never contains the path.
func Match(method, path string) (CompiledRoute, error) {
	c, err := match(method, path)
	if c.route == DeleteMessage {
		c.route = deleteLane(c.path, time.Now())
	}
	return c, err
}

// MatchAt is like Match, but uses the time now to compute the age of a message. The age decides between the three
// Routes of DELETE message: younger than 10 seconds, older than 14 days, or in between. If the id of the message is
// from the future, the message counts as younger than 10 seconds. If the id is not a number, the message counts as in
// between.
func MatchAt(method, path string, now time.Time) (CompiledRoute, error) {
	c, err := match(method, path)
	if c.route == DeleteMessage {
		c.route = deleteLane(c.path, now)
	}
	return c, err
}

func match(method, raw string) (CompiledRoute, error) {
	v, ok := parseVerb(method)
	if !ok {
		return CompiledRoute{}, &PathError{Offset: -1, Err: ErrMethod}
	}
	path, offset, err := splitURL(raw)
	if err != nil {
		return CompiledRoute{}, err
	}
	path, err = clean(path)
	if err != nil {
		err.Offset += offset
		return CompiledRoute{}, err
	}
	path = trimPrefix(path)
	route := tree.find(path, v)
	for route.IsZero() {
		below, found := afterMount(path)
		if !found {
			route = unknown(v, path)
			break
		}
		path = below
		route = tree.find(path, v)
	}
	return fill(route, path), nil
}
