package routes

import "strings"

// Major is the kind of a route's major parameter: the part of the path that splits a limit into independent counters.
//
// Discord's documentation names four: the channel, the guild, the webhook, and the webhook together with its token.
// Only the beginning of the path decides. /applications/{application_id}/guilds/{guild_id}/commands has none.
type Major uint8

// The kinds of major parameters.
const (
	// MajorNone means that all requests to the route share their counters.
	MajorNone Major = iota
	// MajorChannel is the id after /channels.
	MajorChannel
	// MajorGuild is the id after /guilds.
	MajorGuild
	// MajorWebhook is the id after /webhooks, where no token follows.
	MajorWebhook
	// MajorWebhookToken is an id with a token: those of a webhook, of an interaction's follow-up (application id and
	// interaction token), or of an interaction callback. Interactions therefore do not share counters.
	MajorWebhookToken
)

// String returns "none", "channel", "guild", "webhook" or "webhook token".
func (major Major) String() string {
	switch major {
	case MajorNone:
		return "none"
	case MajorChannel:
		return "channel"
	case MajorGuild:
		return "guild"
	case MajorWebhook:
		return "webhook"
	case MajorWebhookToken:
		return "webhook token"
	default:
		return "unknown"
	}
}

// majorOf returns the kind of a valid template's major parameter, and the flags that follow from it.
func majorOf(template string) (Major, Flag) {
	first, rest := cutSegment(template)
	second, rest := cutSegment(rest)
	if !isParameter(second) {
		return MajorNone, 0
	}
	third, _ := cutSegment(rest)

	switch first {
	case "channels":
		return MajorChannel, 0
	case "guilds":
		return MajorGuild, 0
	case "webhooks":
		if isParameter(third) {
			return MajorWebhookToken, TokenInPath
		}
		return MajorWebhook, 0
	case "interactions":
		if isParameter(third) {
			return MajorWebhookToken, TokenInPath | GlobalExempt
		}
	}
	return MajorNone, 0
}

// cutSegment splits "/a/b/c" into "a" and "/b/c". The rest of the last segment is "".
func cutSegment(path string) (segment, rest string) {
	if path == "" {
		return "", ""
	}
	path = path[1:]
	if end := strings.IndexByte(path, '/'); end >= 0 {
		return path[:end], path[end:]
	}
	return path, ""
}

// isParameter reports whether a segment of a template is a parameter, such as "{channel_id}".
func isParameter(segment string) bool {
	return segment != "" && segment[0] == '{'
}
