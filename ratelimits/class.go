package ratelimits

import "strconv"

// Class says which limit has refused a request, and therefore which requests have to wait.
type Class uint8

const (
	// ClassOK is the class of every response that is not a 429.
	ClassOK Class = iota
	// ClassUser means that this authentication has used up this bucket. All requests of the bucket wait.
	ClassUser
	// ClassShared means that all users of a resource (a channel, a guild) together have used up its limit. Requests to
	// that resource wait. Discord does not count the response as invalid.
	ClassShared
	// ClassSubLimit means a hidden limit on a field of the body (such as a channel's name). A 429 has this class if the
	// bucket still has room, or will have room long before the 429's wait is over. Only requests with the same route,
	// parameters and body fields wait.
	ClassSubLimit
	// ClassGlobal means that the global limit of the authentication is used up. All requests of the authentication wait,
	// except interactions.
	ClassGlobal
	// ClassEdge means that the network in front of Discord (Cloudflare) refused the request. All requests from this IP
	// address wait, including interactions.
	ClassEdge

	// NumClasses is the number of classes, for arrays indexed by Class.
	NumClasses = iota
)

var classNames = [NumClasses]string{"ok", "user", "shared", "sub-limit", "global", "edge"}

// String returns the name of the class in lower case, as it appears in logs and metrics.
func (c Class) String() string {
	if int(c) < len(classNames) {
		return classNames[c]
	}
	return "class(" + strconv.Itoa(int(c)) + ")"
}

// Invalid reports whether Discord counts a 429 of this class as an invalid request. Discord bans an IP address that
// causes 10,000 invalid requests in 10 minutes. According to Discord's documentation, 429s of ClassShared do not count.
func (c Class) Invalid() bool { return c != ClassOK && c != ClassShared }
