package routes

import "unique"

// seen are endpoints that the published API description lacks, collected from Discord's prose documentation, from its
// change log and by client authors. They have no names and are in no promise: their only use is that [Match] gives them
// a template of their own instead of one with placeholders.
var seen = [...]Route{
	other("POST", "/guilds"),
	other("DELETE", "/guilds/{guild_id}"),
	other("POST", "/guilds/templates/{code}"),
	other("POST", "/guilds/{guild_id}/mfa"),
	other("PATCH", "/guilds/{guild_id}/members/@me/nick"),
	other("POST", "/guilds/{guild_id}/members-search"),
	other("GET", "/guilds/{guild_id}/member-verification"),
	other("PATCH", "/guilds/{guild_id}/member-verification"),
	other("PUT", "/guilds/{guild_id}/requests/@me"),
	other("DELETE", "/guilds/{guild_id}/requests/@me"),
	other("GET", "/guilds/{guild_id}/roles/{role_id}/members"),
	other("PATCH", "/guilds/{guild_id}/roles/{role_id}/members"),
	other("GET", "/guilds/{guild_id}/roles/{role_id}/member-ids"),
	other("GET", "/guilds/{guild_id}/roles/{role_id}/connections/configuration"),
	other("GET", "/guilds/{guild_id}/application-command-index"),
	other("GET", "/guilds/{guild_id}/premium/subscriptions"),
	other("GET", "/guilds/{guild_id}/discovery-metadata"),
	other("GET", "/guilds/{guild_id}/profile"),
	other("POST", "/guilds/{guild_id}/ack"),
	other("GET", "/guilds/{guild_id}/threads/search"),

	other("POST", "/attachments/refresh-urls"),
	other("POST", "/channels/{channel_id}/attachments"),
	other("GET", "/channels/{channel_id}/application-command-index"),
	other("GET", "/channels/{channel_id}/call"),
	other("POST", "/channels/{channel_id}/call/ring"),
	other("POST", "/channels/{channel_id}/call/stop-ringing"),
	other("POST", "/channels/{channel_id}/greet"),
	other("GET", "/channels/{channel_id}/messages/search"),
	other("POST", "/channels/{channel_id}/messages/{message_id}/ack"),
	other("GET", "/channels/{channel_id}/messages/{message_id}/interaction-data"),
	other("GET", "/channels/{channel_id}/threads/active"),

	other("GET", "/applications"),
	other("POST", "/applications"),
	other("GET", "/applications/detectable"),
	other("GET", "/applications/public"),
	other("GET", "/applications/{application_id}/assets"),
	other("GET", "/applications/{application_id}/rpc"),
	other("GET", "/applications/{application_id}/skus"),
	other("POST", "/applications/{application_id}/bot/reset"),
	other("POST", "/interactions"),
	other("GET", "/oauth2/applications/{application_id}"),
	other("GET", "/oauth2/applications/{application_id}/assets"),
	other("GET", "/oauth2/authorize"),
	other("POST", "/oauth2/authorize"),
	other("POST", "/oauth2/token"),
	other("POST", "/oauth2/token/revoke"),
	other("GET", "/store/skus/{sku_id}"),
	other("GET", "/teams"),
	other("GET", "/teams/{team_id}"),
	other("GET", "/teams/{team_id}/members"),

	other("GET", "/users/@me/mentions"),
	other("GET", "/users/@me/settings"),
	other("PUT", "/users/@me/notes/{user_id}"),
	other("GET", "/users/@me/relationships"),
	other("PUT", "/users/@me/relationships/{user_id}"),
	other("GET", "/users/@me/guilds/premium/subscriptions"),
	other("GET", "/users/@me/billing/payment-sources"),
	other("GET", "/users/@me/billing/subscriptions"),
	other("GET", "/users/{user_id}/profile"),

	other("POST", "/auth/login"),
	other("GET", "/discoverable-guilds"),
	other("GET", "/experiments"),
	other("GET", "/gifs/search"),
	other("GET", "/gifs/trending"),
	other("POST", "/science"),
}

func other(method, template string) Route {
	return Route{unique.Make(define(method, template, ""))}
}
