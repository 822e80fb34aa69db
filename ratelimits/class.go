package ratelimits

import "strconv"

// Class says whose limit a response speaks of, and with that what has to wait.
type Class uint8

const (
	// ClassOK is every response that is not a 429.
	ClassOK Class = iota
	// ClassUser: this authentication has used up this bucket. The bucket waits.
	ClassUser
	// ClassShared: the resource (a channel, a guild) is used up, by everybody together. That resource waits; the
	// requests are not our own use and Discord does not count them as invalid.
	ClassShared
	// ClassSubLimit: a hidden limit on what the body asks for (a channel's name, say), recognised by a 429 although the
	// bucket has room, or will have long before the wait is over. Only requests of the same shape wait.
	ClassSubLimit
	// ClassGlobal: the authentication as a whole is used up. Everything under it waits, except interactions.
	ClassGlobal
	// ClassEdge: the network in front of Discord (Cloudflare) refused. Everything from this IP address waits,
	// interactions too.
	ClassEdge

	// NumClasses is the number of classes, for arrays indexed by Class.
	NumClasses = iota
)

var classNames = [NumClasses]string{"ok", "user", "shared", "sub-limit", "global", "edge"}

// String returns the class in lower case, as in logs and metrics.
func (c Class) String() string {
	if int(c) < len(classNames) {
		return classNames[c]
	}
	return "class(" + strconv.Itoa(int(c)) + ")"
}

// Invalid reports whether Discord counts a 429 of this class against its limit of invalid requests (10,000 in 10 minutes
// for an IP address, after which it is banned). Shared ones are exempt, according to Discord's documentation.
func (c Class) Invalid() bool { return c != ClassOK && c != ClassShared }
