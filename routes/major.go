package routes

import (
	"fmt"
	"strings"
)

// Major is the value of a route's major parameter. With the bucket hash, it identifies a bucket.
//
// It is comparable, and can be a part of a map's key. The zero value means that the route has none.
//
// fmt, slog and encoding/json show it as String returns it, with the same exceptions as for [CompiledRoute].
type Major struct {
	// ID is the id of the channel, guild, webhook or interaction, as it is written in the path.
	ID string
	// Token is the token of the webhook or interaction, as it is written in the path; "" unless the kind is
	// [MajorWebhookToken]. It is a secret.
	Token string
}

// String returns the value for logs: "ID", "ID:…" in place of a token, or "-" if there is none. An ID that is not a
// number is "…", because it might be a misplaced token. Different values may have the same String.
func (m Major) String() string {
	switch {
	case m.ID == "":
		return "-"
	case !isDigits(m.ID):
		return "…"
	case m.Token != "":
		return m.ID + ":…"
	}
	return m.ID
}

// Format prints String for every verb, quoted for %#v and %q. Without Format, fmt would print the token for some verbs.
func (m Major) Format(state fmt.State, verb rune) {
	fmt.Fprintf(state, fmt.FormatString(state, verb), m.String())
}

// MarshalText returns String, so that slog and encoding/json do not write the token.
func (m Major) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

func isDigits(text string) bool {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return text != ""
}

// MajorKind is the kind of a route's major parameter: the part of the path that splits a limit into independent
// counters.
//
// Discord's documentation names four: the channel, the guild, the webhook, and the webhook together with its token.
// Only the beginning of the path decides. /applications/{application_id}/guilds/{guild_id}/commands has none.
type MajorKind uint8

// The kinds of major parameters.
const (
	// MajorNone means that all requests to the route share their counters.
	MajorNone MajorKind = iota
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
func (kind MajorKind) String() string {
	switch kind {
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
func majorOf(template string) (MajorKind, Flag) {
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

// cutSegment splits "/a/b/c" into "a" and "/b/c". After the last segment, rest is "".
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
