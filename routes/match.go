package routes

import "time"

// Match returns the compiled route of a request.
//
// The method may be in any case. The path may be a whole URL or a path alone, with or without /api and a version in front (where
// the catalogue has no such path, what stands before /api and a version, as of a proxy that is mounted there, is left out, too), with
// query and fragment (which are no part of a route), with doubled and trailing slashes, percent-encoded or not. HEAD and
// OPTIONS are methods like any other and have routes of their own. All that are not known to this package, such as QUERY and
// PROPFIND, share one Route for each template, whose Method is "{method}".
//
// Literal segments win over parameters: /users/@me is GetMyUser and not GetUser. For a path that is not in the catalogue
// a Route is made. Its template follows the known paths as far as they go. The next segment stays if it is a word of
// Discord's API; otherwise it becomes {id} (digits) or {value}, as does the one after it, and what follows is {rest}. The
// major parameter is found all the same. However many paths somebody invents, they make less than two million Routes, and
// those that nobody keeps are garbage collected.
//
// The lane of DELETE message is chosen by time.Now, see [MatchAt].
//
// Match does not allocate for a path of the catalogue that is spelled as [CompiledRoute.Path] spells it (a host, prefix
// or query in front or behind does not matter), and once if it must be respelled.
//
// The error is a [*PathError] around one of the sentinels of this package. Use errors.Is(err, ErrNotAPI) for URLs
// that need no limiter. It never contains the path.
func Match(method, path string) (CompiledRoute, error) {
	c, err := match(method, path)
	if c.route == DeleteMessage {
		c.route = deleteLane(c.path, time.Now())
	}
	return c, err
}

// MatchAt is Match with the time given. It decides between the three Routes of DELETE message, which Discord limits by
// the age of the message: younger than 10 seconds, older than 14 days, or between. A message from the future is young.
// One whose id is not a number is between.
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
