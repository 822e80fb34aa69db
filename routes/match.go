package routes

import "time"

// Match returns the compiled route of a request.
//
// The method may be in any case. The path may be a URL or a path alone, with or without /api and a version, with
// doubled and trailing slashes, percent-encoded or not. Query and fragment are ignored. A prefix before /api and a
// version, such as a proxy's mount path, is ignored too, unless the whole path is known. HEAD and OPTIONS are methods
// like any other and have routes of their own. Methods that this package does not know, such as QUERY and PROPFIND,
// share one Route for each template, whose Method is "{method}".
//
// Literal segments win over parameters: /users/@me is GetMyUser and not GetUser. A path that is not in the catalogue
// gets a new Route, with its major parameter. Its template follows the known paths as far as possible. The next segment
// is kept if it is a word of Discord's API; otherwise it becomes {id} (digits) or {value}. The segment after it always
// becomes {id} or {value}, and the remainder becomes {rest}. Whatever the paths, there are fewer than two million such
// Routes, and unused ones are garbage collected.
//
// The Route of DELETE message depends on the message's age at time.Now, see [MatchAt].
//
// Match does not allocate for a path of the catalogue in the spelling of [CompiledRoute.Path], with or without a host,
// prefix or query. For another spelling it allocates once.
//
// The error is a [*PathError] that wraps one of the sentinels of this package. Use errors.Is(err, ErrNotAPI) for URLs
// that need no limiter. The error never contains the path.
func Match(method, path string) (CompiledRoute, error) {
	c, err := match(method, path)
	if c.route == DeleteMessage {
		c.route = deleteLane(c.path, time.Now())
	}
	return c, err
}

// MatchAt is Match at the given time. The time decides between the three Routes of DELETE message, which Discord limits
// by the age of the message: younger than 10 seconds, older than 14 days, or between. A message whose id lies in the
// future counts as younger than 10 seconds; a message whose id is not a number counts as between.
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
