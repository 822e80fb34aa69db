package routes

import (
	"fmt"
	"strings"
)

// Major is the value of a route's major parameter. Together with the bucket hash, it identifies a bucket.
//
// A Major is comparable, and can be a part of a map key. The zero value means that the route has no major parameter.
//
// fmt, slog and encoding/json show the result of String, with the same exceptions as for [CompiledRoute].
type Major struct {
	// ID is the id of the channel, guild, webhook or interaction, in the form that it has in the path.
	ID string
	// Token is the token of the webhook or interaction, in the form that it has in the path. It is a secret. If the kind
	// is not [MajorWebhookToken], Token is "".
	Token string
}

// String returns a text for logs: the ID, followed by ":…" if there is a token. For the zero value it returns "-". If
// the ID is not a number, it returns "…", because the ID might be a misplaced token. Different values may have the same
// text.
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

// Format prints the result of String for every verb, in quotes for %#v and %q. Without it, fmt would print the token
// for some verbs.
func (m Major) Format(state fmt.State, verb rune) {
	fmt.Fprintf(state, fmt.FormatString(state, verb), m.String())
}

// MarshalText returns the result of String, so that slog and encoding/json do not write the token.
func (m Major) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

func isDigits(text string) bool {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return text != ""
}

// MajorKind is the kind of a route's major parameter. The major parameter is the part of the path that splits a limit:
// each value has a counter of its own.
//
// Discord's documentation names four kinds: the channel, the guild, the webhook, and the webhook together with its
// token. Only the beginning of the path decides, so /applications/{application_id}/guilds/{guild_id}/commands has no
// major parameter.
type MajorKind uint8

// The kinds of major parameters.
const (
	// MajorNone means that the route has no major parameter, so all requests to it count together.
	MajorNone MajorKind = iota
	// MajorChannel is the id after /channels.
	MajorChannel
	// MajorGuild is the id after /guilds.
	MajorGuild
	// MajorWebhook is the id after /webhooks, if no token follows.
	MajorWebhook
	// MajorWebhookToken is an id together with the token after it. The two belong to a webhook, to a follow-up of an
	// interaction (application id and interaction token), or to the callback of an interaction. So each interaction has
	// counters of its own.
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

// majorOf returns the kind of the major parameter of a valid template, and the flags that follow from the template.
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

// cutSegment splits "/a/b/c" into "a" and "/b/c". If there is only one segment, rest is "".
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
