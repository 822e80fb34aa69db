package routes

// prefix is the beginning of templates of the catalogue. Its methods return the Route of an operation: method, rest of
// the template, and name, as in Discord's published API description.
type prefix string

const (
	root           prefix = ""
	application    prefix = "/applications/{application_id}"
	guildCommands  prefix = "/applications/{application_id}/guilds/{guild_id}/commands"
	channel        prefix = "/channels/{channel_id}"
	message        prefix = "/channels/{channel_id}/messages/{message_id}"
	reactions      prefix = "/channels/{channel_id}/messages/{message_id}/reactions"
	guild          prefix = "/guilds/{guild_id}"
	scheduledEvent prefix = "/guilds/{guild_id}/scheduled-events/{guild_scheduled_event_id}"
	interaction    prefix = "/interactions/{interaction_id}/{interaction_token}"
	invite         prefix = "/invites/{code}"
	lobby          prefix = "/lobbies/{lobby_id}"
	partner        prefix = "/partner-sdk"
	me             prefix = "/users/@me"
	myApplication  prefix = "/users/@me/applications/{application_id}"
	webhook        prefix = "/webhooks/{webhook_id}"
	webhookToken   prefix = "/webhooks/{webhook_id}/{webhook_token}"
)

func (p prefix) delete(rest, name string) Route { return p.operation("DELETE", rest, name) }
func (p prefix) get(rest, name string) Route    { return p.operation("GET", rest, name) }
func (p prefix) patch(rest, name string) Route  { return p.operation("PATCH", rest, name) }
func (p prefix) post(rest, name string) Route   { return p.operation("POST", rest, name) }
func (p prefix) put(rest, name string) Route    { return p.operation("PUT", rest, name) }

func (p prefix) operation(method, rest, name string, flags ...Flag) Route {
	d := define(method+" "+string(p)+rest, name)
	for _, flag := range flags {
		d.flags |= flag
	}
	return d.route()
}

// Applications: commands, emojis, entitlements, role connections.
var (
	GetMyApplication                = root.get("/applications/@me", "get_my_application")
	UpdateMyApplication             = root.patch("/applications/@me", "update_my_application")
	GetApplication                  = application.get("", "get_application")
	UpdateApplication               = application.patch("", "update_application")
	ApplicationsGetActivityInstance = application.get("/activity-instances/{instance_id}",
		"applications_get_activity_instance")
	UploadApplicationAttachment = application.post("/attachment", "upload_application_attachment")
	ListApplicationCommands     = application.get("/commands", "list_application_commands")
	CreateApplicationCommand    = application.post("/commands", "create_application_command")
	BulkSetApplicationCommands  = application.put("/commands", "bulk_set_application_commands")
	DeleteApplicationCommand    = application.delete("/commands/{command_id}", "delete_application_command")
	GetApplicationCommand       = application.get("/commands/{command_id}", "get_application_command")
	UpdateApplicationCommand    = application.patch("/commands/{command_id}", "update_application_command")

	ListApplicationEmojis  = application.get("/emojis", "list_application_emojis")
	CreateApplicationEmoji = application.post("/emojis", "create_application_emoji")
	DeleteApplicationEmoji = application.delete("/emojis/{emoji_id}", "delete_application_emoji")
	GetApplicationEmoji    = application.get("/emojis/{emoji_id}", "get_application_emoji")
	UpdateApplicationEmoji = application.patch("/emojis/{emoji_id}", "update_application_emoji")

	GetEntitlements    = application.get("/entitlements", "get_entitlements")
	CreateEntitlement  = application.post("/entitlements", "create_entitlement")
	DeleteEntitlement  = application.delete("/entitlements/{entitlement_id}", "delete_entitlement")
	GetEntitlement     = application.get("/entitlements/{entitlement_id}", "get_entitlement")
	ConsumeEntitlement = application.post("/entitlements/{entitlement_id}/consume", "consume_entitlement")

	ListGuildApplicationCommands           = guildCommands.get("", "list_guild_application_commands")
	CreateGuildApplicationCommand          = guildCommands.post("", "create_guild_application_command")
	BulkSetGuildApplicationCommands        = guildCommands.put("", "bulk_set_guild_application_commands")
	ListGuildApplicationCommandPermissions = guildCommands.get("/permissions",
		"list_guild_application_command_permissions")
	DeleteGuildApplicationCommand         = guildCommands.delete("/{command_id}", "delete_guild_application_command")
	GetGuildApplicationCommand            = guildCommands.get("/{command_id}", "get_guild_application_command")
	UpdateGuildApplicationCommand         = guildCommands.patch("/{command_id}", "update_guild_application_command")
	GetGuildApplicationCommandPermissions = guildCommands.get("/{command_id}/permissions",
		"get_guild_application_command_permissions")
	SetGuildApplicationCommandPermissions = guildCommands.put("/{command_id}/permissions",
		"set_guild_application_command_permissions")

	GetApplicationRoleConnectionsMetadata = application.get("/role-connections/metadata",
		"get_application_role_connections_metadata")
	UpdateApplicationRoleConnectionsMetadata = application.put("/role-connections/metadata",
		"update_application_role_connections_metadata")
)

// Channels: messages, reactions, pins, threads, webhooks of a channel.
var (
	DeleteChannel       = channel.delete("", "delete_channel")
	GetChannel          = channel.get("", "get_channel")
	UpdateChannel       = channel.patch("", "update_channel")
	FollowChannel       = channel.post("/followers", "follow_channel")
	ListChannelInvites  = channel.get("/invites", "list_channel_invites")
	CreateChannelInvite = channel.post("/invites", "create_channel_invite")

	ListMessages       = channel.get("/messages", "list_messages")
	CreateMessage      = channel.post("/messages", "create_message")
	BulkDeleteMessages = channel.post("/messages/bulk-delete", "bulk_delete_messages")
	ListPins           = channel.get("/messages/pins", "list_pins")
	DeletePin          = channel.delete("/messages/pins/{message_id}", "delete_pin")
	CreatePin          = channel.put("/messages/pins/{message_id}", "create_pin")

	DeleteMessage           = message.delete("", "delete_message")
	GetMessage              = message.get("", "get_message")
	UpdateMessage           = message.patch("", "update_message")
	CrosspostMessage        = message.post("/crosspost", "crosspost_message")
	CreateThreadFromMessage = message.post("/threads", "create_thread_from_message")

	DeleteAllMessageReactions        = reactions.delete("", "delete_all_message_reactions")
	DeleteAllMessageReactionsByEmoji = reactions.delete("/{emoji_name}", "delete_all_message_reactions_by_emoji")
	ListMessageReactionsByEmoji      = reactions.get("/{emoji_name}", "list_message_reactions_by_emoji")
	DeleteMyMessageReaction          = reactions.delete("/{emoji_name}/@me", "delete_my_message_reaction")
	AddMyMessageReaction             = reactions.put("/{emoji_name}/@me", "add_my_message_reaction")
	DeleteUserMessageReaction        = reactions.delete("/{emoji_name}/{user_id}", "delete_user_message_reaction")

	DeleteChannelPermissionOverwrite = channel.delete("/permissions/{overwrite_id}", "delete_channel_permission_overwrite")
	SetChannelPermissionOverwrite    = channel.put("/permissions/{overwrite_id}", "set_channel_permission_overwrite")
	DeprecatedListPins               = channel.get("/pins", "deprecated_list_pins")
	DeprecatedDeletePin              = channel.delete("/pins/{message_id}", "deprecated_delete_pin")
	DeprecatedCreatePin              = channel.put("/pins/{message_id}", "deprecated_create_pin")
	GetAnswerVoters                  = channel.get("/polls/{message_id}/answers/{answer_id}", "get_answer_voters")
	PollExpire                       = channel.post("/polls/{message_id}/expire", "poll_expire")
	DeleteGroupDMUser                = channel.delete("/recipients/{user_id}", "delete_group_dm_user")
	AddGroupDMUser                   = channel.put("/recipients/{user_id}", "add_group_dm_user")
	SendSoundboardSound              = channel.post("/send-soundboard-sound", "send_soundboard_sound")
	ListThreadMembers                = channel.get("/thread-members", "list_thread_members")
	LeaveThread                      = channel.delete("/thread-members/@me", "leave_thread")
	JoinThread                       = channel.put("/thread-members/@me", "join_thread")
	DeleteThreadMember               = channel.delete("/thread-members/{user_id}", "delete_thread_member")
	GetThreadMember                  = channel.get("/thread-members/{user_id}", "get_thread_member")
	AddThreadMember                  = channel.put("/thread-members/{user_id}", "add_thread_member")
	CreateThread                     = channel.post("/threads", "create_thread")
	ListPrivateArchivedThreads       = channel.get("/threads/archived/private", "list_private_archived_threads")
	ListPublicArchivedThreads        = channel.get("/threads/archived/public", "list_public_archived_threads")
	ThreadSearch                     = channel.get("/threads/search", "thread_search")
	TriggerTypingIndicator           = channel.post("/typing", "trigger_typing_indicator")
	ListMyPrivateArchivedThreads     = channel.get("/users/@me/threads/archived/private",
		"list_my_private_archived_threads")
	UpdateVoiceChannelStatus = channel.put("/voice-status", "update_voice_channel_status")
	ListChannelWebhooks      = channel.get("/webhooks", "list_channel_webhooks")
	CreateWebhook            = channel.post("/webhooks", "create_webhook")
)

// The gateway's URL.
var (
	GetGateway    = root.get("/gateway", "get_gateway")
	GetBotGateway = root.get("/gateway/bot", "get_bot_gateway")
)

// Guilds: members, roles, moderation, everything that belongs to a guild.
var (
	GetGuildTemplate         = root.get("/guilds/templates/{code}", "get_guild_template")
	GetGuild                 = guild.get("", "get_guild")
	UpdateGuild              = guild.patch("", "update_guild")
	ListGuildAuditLogEntries = guild.get("/audit-logs", "list_guild_audit_log_entries")

	ListAutoModerationRules  = guild.get("/auto-moderation/rules", "list_auto_moderation_rules")
	CreateAutoModerationRule = guild.post("/auto-moderation/rules", "create_auto_moderation_rule")
	DeleteAutoModerationRule = guild.delete("/auto-moderation/rules/{rule_id}", "delete_auto_moderation_rule")
	GetAutoModerationRule    = guild.get("/auto-moderation/rules/{rule_id}", "get_auto_moderation_rule")
	UpdateAutoModerationRule = guild.patch("/auto-moderation/rules/{rule_id}", "update_auto_moderation_rule")

	ListGuildBans         = guild.get("/bans", "list_guild_bans")
	UnbanUserFromGuild    = guild.delete("/bans/{user_id}", "unban_user_from_guild")
	GetGuildBan           = guild.get("/bans/{user_id}", "get_guild_ban")
	BanUserFromGuild      = guild.put("/bans/{user_id}", "ban_user_from_guild")
	BulkBanUsersFromGuild = guild.post("/bulk-ban", "bulk_ban_users_from_guild")

	ListGuildChannels          = guild.get("/channels", "list_guild_channels")
	BulkUpdateGuildChannels    = guild.patch("/channels", "bulk_update_guild_channels")
	CreateGuildChannel         = guild.post("/channels", "create_guild_channel")
	ListGuildEmojis            = guild.get("/emojis", "list_guild_emojis")
	CreateGuildEmoji           = guild.post("/emojis", "create_guild_emoji")
	DeleteGuildEmoji           = guild.delete("/emojis/{emoji_id}", "delete_guild_emoji")
	GetGuildEmoji              = guild.get("/emojis/{emoji_id}", "get_guild_emoji")
	UpdateGuildEmoji           = guild.patch("/emojis/{emoji_id}", "update_guild_emoji")
	UpdateGuildIncidentActions = guild.put("/incident-actions", "update_guild_incident_actions")
	ListGuildIntegrations      = guild.get("/integrations", "list_guild_integrations")
	DeleteGuildIntegration     = guild.delete("/integrations/{integration_id}", "delete_guild_integration")
	ListGuildInvites           = guild.get("/invites", "list_guild_invites")

	ListGuildMembers      = guild.get("/members", "list_guild_members")
	UpdateMyGuildMember   = guild.patch("/members/@me", "update_my_guild_member")
	SearchGuildMembers    = guild.get("/members/search", "search_guild_members")
	DeleteGuildMember     = guild.delete("/members/{user_id}", "delete_guild_member")
	GetGuildMember        = guild.get("/members/{user_id}", "get_guild_member")
	UpdateGuildMember     = guild.patch("/members/{user_id}", "update_guild_member")
	AddGuildMember        = guild.put("/members/{user_id}", "add_guild_member")
	DeleteGuildMemberRole = guild.delete("/members/{user_id}/roles/{role_id}", "delete_guild_member_role")
	AddGuildMemberRole    = guild.put("/members/{user_id}/roles/{role_id}", "add_guild_member_role")

	GuildSearch              = guild.get("/messages/search", "guild_search")
	GetGuildNewMemberWelcome = guild.get("/new-member-welcome", "get_guild_new_member_welcome")
	GetGuildsOnboarding      = guild.get("/onboarding", "get_guilds_onboarding")
	PutGuildsOnboarding      = guild.put("/onboarding", "put_guilds_onboarding")
	GetGuildPreview          = guild.get("/preview", "get_guild_preview")
	PreviewPruneGuild        = guild.get("/prune", "preview_prune_guild")
	PruneGuild               = guild.post("/prune", "prune_guild")
	ListGuildVoiceRegions    = guild.get("/regions", "list_guild_voice_regions")
	GetGuildJoinRequests     = guild.get("/requests", "get_guild_join_requests")
	ActionGuildJoinRequest   = guild.patch("/requests/{request_id}", "action_guild_join_request")

	ListGuildRoles        = guild.get("/roles", "list_guild_roles")
	BulkUpdateGuildRoles  = guild.patch("/roles", "bulk_update_guild_roles")
	CreateGuildRole       = guild.post("/roles", "create_guild_role")
	GuildRoleMemberCounts = guild.get("/roles/member-counts", "guild_role_member_counts")
	DeleteGuildRole       = guild.delete("/roles/{role_id}", "delete_guild_role")
	GetGuildRole          = guild.get("/roles/{role_id}", "get_guild_role")
	UpdateGuildRole       = guild.patch("/roles/{role_id}", "update_guild_role")

	ListGuildScheduledEvents           = guild.get("/scheduled-events", "list_guild_scheduled_events")
	CreateGuildScheduledEvent          = guild.post("/scheduled-events", "create_guild_scheduled_event")
	DeleteGuildScheduledEvent          = scheduledEvent.delete("", "delete_guild_scheduled_event")
	GetGuildScheduledEvent             = scheduledEvent.get("", "get_guild_scheduled_event")
	UpdateGuildScheduledEvent          = scheduledEvent.patch("", "update_guild_scheduled_event")
	CreateGuildScheduledEventException = scheduledEvent.post("/exceptions", "create_guild_scheduled_event_exception")
	DeleteGuildScheduledEventException = scheduledEvent.delete("/exceptions/{exception_id}",
		"delete_guild_scheduled_event_exception")
	UpdateGuildScheduledEventException = scheduledEvent.patch("/exceptions/{exception_id}",
		"update_guild_scheduled_event_exception")
	ListGuildScheduledEventUsers          = scheduledEvent.get("/users", "list_guild_scheduled_event_users")
	CountGuildScheduledEventUsers         = scheduledEvent.get("/users/counts", "count_guild_scheduled_event_users")
	ListGuildScheduledEventExceptionUsers = scheduledEvent.get("/{guild_scheduled_event_exception_id}/users",
		"list_guild_scheduled_event_exception_users")

	ListGuildSoundboardSounds  = guild.get("/soundboard-sounds", "list_guild_soundboard_sounds")
	CreateGuildSoundboardSound = guild.post("/soundboard-sounds", "create_guild_soundboard_sound")
	DeleteGuildSoundboardSound = guild.delete("/soundboard-sounds/{sound_id}", "delete_guild_soundboard_sound")
	GetGuildSoundboardSound    = guild.get("/soundboard-sounds/{sound_id}", "get_guild_soundboard_sound")
	UpdateGuildSoundboardSound = guild.patch("/soundboard-sounds/{sound_id}", "update_guild_soundboard_sound")
	ListGuildStickers          = guild.get("/stickers", "list_guild_stickers")
	CreateGuildSticker         = guild.post("/stickers", "create_guild_sticker")
	DeleteGuildSticker         = guild.delete("/stickers/{sticker_id}", "delete_guild_sticker")
	GetGuildSticker            = guild.get("/stickers/{sticker_id}", "get_guild_sticker")
	UpdateGuildSticker         = guild.patch("/stickers/{sticker_id}", "update_guild_sticker")

	ListGuildTemplates        = guild.get("/templates", "list_guild_templates")
	CreateGuildTemplate       = guild.post("/templates", "create_guild_template")
	DeleteGuildTemplate       = guild.delete("/templates/{code}", "delete_guild_template")
	UpdateGuildTemplate       = guild.patch("/templates/{code}", "update_guild_template")
	SyncGuildTemplate         = guild.put("/templates/{code}", "sync_guild_template")
	GetActiveGuildThreads     = guild.get("/threads/active", "get_active_guild_threads")
	GetGuildVanityURL         = guild.get("/vanity-url", "get_guild_vanity_url")
	GetSelfVoiceState         = guild.get("/voice-states/@me", "get_self_voice_state")
	UpdateSelfVoiceState      = guild.patch("/voice-states/@me", "update_self_voice_state")
	GetVoiceState             = guild.get("/voice-states/{user_id}", "get_voice_state")
	UpdateVoiceState          = guild.patch("/voice-states/{user_id}", "update_voice_state")
	GetGuildWebhooks          = guild.get("/webhooks", "get_guild_webhooks")
	GetGuildWelcomeScreen     = guild.get("/welcome-screen", "get_guild_welcome_screen")
	UpdateGuildWelcomeScreen  = guild.patch("/welcome-screen", "update_guild_welcome_screen")
	GetGuildWidgetSettings    = guild.get("/widget", "get_guild_widget_settings")
	UpdateGuildWidgetSettings = guild.patch("/widget", "update_guild_widget_settings")
	GetGuildWidget            = guild.get("/widget.json", "get_guild_widget")
	GetGuildWidgetPNG         = guild.get("/widget.png", "get_guild_widget_png")
)

// Interactions: the callback, which is called once for each interaction.
var (
	CreateInteractionResponse = interaction.operation("POST", "/callback", "create_interaction_response", OneShot)
)

// Invites.
var (
	InviteRevoke                  = invite.delete("", "invite_revoke")
	InviteResolve                 = invite.get("", "invite_resolve")
	GetInviteTargetUsers          = invite.get("/target-users", "get_invite_target_users")
	UpdateInviteTargetUsers       = invite.put("/target-users", "update_invite_target_users")
	GetInviteTargetUsersJobStatus = invite.get("/target-users/job-status", "get_invite_target_users_job_status")
)

// Lobbies of the Social SDK.
var (
	CreateLobby                         = root.post("/lobbies", "create_lobby")
	CreateOrJoinLobby                   = root.put("/lobbies", "create_or_join_lobby")
	DeleteLobby                         = lobby.delete("", "delete_lobby")
	GetLobby                            = lobby.get("", "get_lobby")
	EditLobby                           = lobby.patch("", "edit_lobby")
	EditLobbyChannelLink                = lobby.patch("/channel-linking", "edit_lobby_channel_link")
	LeaveLobby                          = lobby.delete("/members/@me", "leave_lobby")
	CreateLinkedLobbyGuildInviteForSelf = lobby.post("/members/@me/invites",
		"create_linked_lobby_guild_invite_for_self")
	BulkUpdateLobbyMembers              = lobby.post("/members/bulk", "bulk_update_lobby_members")
	DeleteLobbyMember                   = lobby.delete("/members/{user_id}", "delete_lobby_member")
	AddLobbyMember                      = lobby.put("/members/{user_id}", "add_lobby_member")
	CreateLinkedLobbyGuildInviteForUser = lobby.post("/members/{user_id}/invites",
		"create_linked_lobby_guild_invite_for_user")
	GetLobbyMessages                             = lobby.get("/messages", "get_lobby_messages")
	CreateLobbyMessage                           = lobby.post("/messages", "create_lobby_message")
	UpdateLobbyMessageExternalModerationMetadata = lobby.put("/messages/{message_id}/moderation-metadata",
		"update_lobby_message_external_moderation_metadata")
)

// OAuth2.
var (
	GetMyOAuth2Authorization = root.get("/oauth2/@me", "get_my_oauth2_authorization")
	GetMyOAuth2Application   = root.get("/oauth2/applications/@me", "get_my_oauth2_application")
	GetPublicKeys            = root.get("/oauth2/keys", "get_public_keys")
	GetOpenIDConnectUserinfo = root.get("/oauth2/userinfo", "get_openid_connect_userinfo")
)

// The Social SDK's partner endpoints.
var (
	UpdateUserMessageExternalModerationMetadata = partner.put(
		"/dms/{user_id_1}/{user_id_2}/messages/{message_id}/moderation-metadata",
		"update_user_message_external_moderation_metadata")
	PartnerSDKUnmergeProvisionalAccount = partner.post("/provisional-accounts/unmerge",
		"partner_sdk_unmerge_provisional_account")
	BotPartnerSDKUnmergeProvisionalAccount = partner.post("/provisional-accounts/unmerge/bot",
		"bot_partner_sdk_unmerge_provisional_account")
	PartnerSDKToken    = partner.post("/token", "partner_sdk_token")
	BotPartnerSDKToken = partner.post("/token/bot", "bot_partner_sdk_token")
)

// SKUs and subscriptions.
var (
	GetSKUSubscriptions = root.get("/skus/{sku_id}/subscriptions", "get_sku_subscriptions")
	GetSKUSubscription  = root.get("/skus/{sku_id}/subscriptions/{subscription_id}", "get_sku_subscription")
)

// Sounds, stages, stickers.
var (
	GetSoundboardDefaultSounds = root.get("/soundboard-default-sounds", "get_soundboard_default_sounds")
	CreateStageInstance        = root.post("/stage-instances", "create_stage_instance")
	DeleteStageInstance        = root.delete("/stage-instances/{channel_id}", "delete_stage_instance")
	GetStageInstance           = root.get("/stage-instances/{channel_id}", "get_stage_instance")
	UpdateStageInstance        = root.patch("/stage-instances/{channel_id}", "update_stage_instance")
	ListStickerPacks           = root.get("/sticker-packs", "list_sticker_packs")
	GetStickerPack             = root.get("/sticker-packs/{pack_id}", "get_sticker_pack")
	GetSticker                 = root.get("/stickers/{sticker_id}", "get_sticker")
)

// Users.
var (
	GetMyUser    = me.get("", "get_my_user")
	UpdateMyUser = me.patch("", "update_my_user")

	GetCurrentUserApplicationEntitlements = myApplication.get("/entitlements", "get_current_user_application_entitlements")
	DeleteApplicationUserRoleConnection   = myApplication.delete("/role-connection",
		"delete_application_user_role_connection")
	GetApplicationUserRoleConnection    = myApplication.get("/role-connection", "get_application_user_role_connection")
	UpdateApplicationUserRoleConnection = myApplication.put("/role-connection",
		"update_application_user_role_connection")

	CreateDM          = me.post("/channels", "create_dm")
	ListMyConnections = me.get("/connections", "list_my_connections")
	ListMyGuilds      = me.get("/guilds", "list_my_guilds")
	LeaveGuild        = me.delete("/guilds/{guild_id}", "leave_guild")
	GetMyGuildMember  = me.get("/guilds/{guild_id}/member", "get_my_guild_member")
	GetUser           = root.get("/users/{user_id}", "get_user")
)

// Voice.
var (
	ListVoiceRegions = root.get("/voice/regions", "list_voice_regions")
)

// Webhooks by id; webhooks with a token, which include the follow-ups to interactions.
var (
	DeleteWebhook                  = webhook.delete("", "delete_webhook")
	GetWebhook                     = webhook.get("", "get_webhook")
	UpdateWebhook                  = webhook.patch("", "update_webhook")
	DeleteWebhookByToken           = webhookToken.delete("", "delete_webhook_by_token")
	GetWebhookByToken              = webhookToken.get("", "get_webhook_by_token")
	UpdateWebhookByToken           = webhookToken.patch("", "update_webhook_by_token")
	ExecuteWebhook                 = webhookToken.post("", "execute_webhook")
	ExecuteGithubCompatibleWebhook = webhookToken.post("/github", "execute_github_compatible_webhook")
	DeleteOriginalWebhookMessage   = webhookToken.delete("/messages/@original", "delete_original_webhook_message")
	GetOriginalWebhookMessage      = webhookToken.get("/messages/@original", "get_original_webhook_message")
	UpdateOriginalWebhookMessage   = webhookToken.patch("/messages/@original", "update_original_webhook_message")
	DeleteWebhookMessage           = webhookToken.delete("/messages/{message_id}", "delete_webhook_message")
	GetWebhookMessage              = webhookToken.get("/messages/{message_id}", "get_webhook_message")
	UpdateWebhookMessage           = webhookToken.patch("/messages/{message_id}", "update_webhook_message")
	ExecuteSlackCompatibleWebhook  = webhookToken.post("/slack", "execute_slack_compatible_webhook")
)
