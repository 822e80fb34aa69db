package routes

import "strings"

// families lists routes that share one bucket, as measured against Discord in autumn 2026. A family is only a hint,
// because Discord may change which routes share a bucket. Limits and periods differ between applications, so they are
// not listed.
var families = [...]struct {
	name   string
	routes []string
}{
	{"application-edit", []string{
		"PATCH /applications/@me",
		"PATCH /applications/{application_id}",
	}},
	{"channel-edit", []string{
		"PATCH /channels/{channel_id}",
		"PUT /channels/{channel_id}/permissions/{overwrite_id}",
		"DELETE /channels/{channel_id}/permissions/{overwrite_id}",
		"PATCH /guilds/{guild_id}/channels",
	}},
	{"command-create", []string{
		"POST /applications/{application_id}/commands",
		"POST /applications/{application_id}/guilds/{guild_id}/commands",
	}},
	{"command-delete", []string{
		"DELETE /applications/{application_id}/commands/{command_id}",
		"DELETE /applications/{application_id}/guilds/{guild_id}/commands/{command_id}",
	}},
	{"command-edit", []string{
		"PATCH /applications/{application_id}/commands/{command_id}",
		"PATCH /applications/{application_id}/guilds/{guild_id}/commands/{command_id}",
	}},
	{"event-create", []string{
		"POST /guilds/{guild_id}/scheduled-events",
		"POST /guilds/{guild_id}/scheduled-events/{guild_scheduled_event_id}/exceptions",
	}},
	{"event-delete", []string{
		"DELETE /guilds/{guild_id}/scheduled-events/{guild_scheduled_event_id}",
		"DELETE /guilds/{guild_id}/scheduled-events/{guild_scheduled_event_id}/exceptions/{exception_id}",
	}},
	{"event-edit", []string{
		"PATCH /guilds/{guild_id}/scheduled-events/{guild_scheduled_event_id}",
		"PATCH /guilds/{guild_id}/scheduled-events/{guild_scheduled_event_id}/exceptions/{exception_id}",
	}},
	{"event-users", []string{
		"GET /guilds/{guild_id}/scheduled-events/{guild_scheduled_event_id}/users",
		"GET /guilds/{guild_id}/scheduled-events/{guild_scheduled_event_id}/{guild_scheduled_event_exception_id}/users",
	}},
	{"member", []string{
		"GET /guilds/{guild_id}/members/{user_id}",
		"DELETE /guilds/{guild_id}/members/{user_id}",
	}},
	{"member-roles", []string{
		"PUT /guilds/{guild_id}/members/{user_id}/roles/{role_id}",
		"DELETE /guilds/{guild_id}/members/{user_id}/roles/{role_id}",
	}},
	{"own-member-edit", []string{
		"PATCH /guilds/{guild_id}/members/@me",
		"PATCH /guilds/{guild_id}/members/@me/nick",
	}},
	{"pins-read", []string{
		"GET /channels/{channel_id}/messages/pins",
		"GET /channels/{channel_id}/pins",
	}},
	{"reactions", []string{
		"PUT /channels/{channel_id}/messages/{message_id}/reactions/{emoji_name}/@me",
		"DELETE /channels/{channel_id}/messages/{message_id}/reactions",
		"DELETE /channels/{channel_id}/messages/{message_id}/reactions/{emoji_name}",
		"DELETE /channels/{channel_id}/messages/{message_id}/reactions/{emoji_name}/@me",
		"DELETE /channels/{channel_id}/messages/{message_id}/reactions/{emoji_name}/{user_id}",
		"DELETE /channels/{channel_id}/messages/{message_id}/reactions/{emoji}/{reaction_type}/@me",
		"DELETE /channels/{channel_id}/messages/{message_id}/reactions/{emoji}/{reaction_type}/{user_id}",
	}},
	{"template-write", []string{
		"POST /guilds/{guild_id}/templates",
		"PUT /guilds/{guild_id}/templates/{code}",
	}},
	{"thread-create", []string{
		"POST /channels/{channel_id}/threads",
		"POST /channels/{channel_id}/messages/{message_id}/threads",
	}},
	{"voice-states", []string{
		"GET /guilds/{guild_id}/voice-states/@me",
		"GET /guilds/{guild_id}/voice-states/{user_id}",
		"PATCH /guilds/{guild_id}/voice-states/@me",
		"PATCH /guilds/{guild_id}/voice-states/{user_id}",
	}},
	{"webhook-token", []string{
		"GET /webhooks/{webhook_id}/{webhook_token}",
		"POST /webhooks/{webhook_id}/{webhook_token}",
		"PATCH /webhooks/{webhook_id}/{webhook_token}",
		"DELETE /webhooks/{webhook_id}/{webhook_token}",
		"GET /webhooks/{webhook_id}/{webhook_token}/messages/@original",
		"PATCH /webhooks/{webhook_id}/{webhook_token}/messages/@original",
		"DELETE /webhooks/{webhook_id}/{webhook_token}/messages/@original",
		"GET /webhooks/{webhook_id}/{webhook_token}/messages/{message_id}",
		"PATCH /webhooks/{webhook_id}/{webhook_token}/messages/{message_id}",
		"DELETE /webhooks/{webhook_id}/{webhook_token}/messages/{message_id}",
	}},
}

// Family returns this package's name for a group of routes that probably share one bucket, among them this route. It
// returns "" if no such group is known. Discord does not promise that the routes of a family share a bucket, so
// responses overrule the family.
func (r Route) Family() string { return r.definition().family }

// familyOf returns the family of a route. text is its method, a space and its template. The names of the template's
// parameters do not matter.
func familyOf(text string) string {
	for i := range families {
		for _, route := range families[i].routes {
			if sameShape(route, text) {
				return families[i].name
			}
		}
	}
	return ""
}

// sameShape reports whether two texts are equal except for the names of parameters. Each text is a method, a space and
// a template.
func sameShape(a, b string) bool {
	for a != "" && b != "" {
		if a[0] != b[0] {
			return false
		}
		if a[0] == '{' {
			a, b = a[strings.IndexByte(a, '}'):], b[strings.IndexByte(b, '}'):]
		}
		a, b = a[1:], b[1:]
	}
	return a == b
}
