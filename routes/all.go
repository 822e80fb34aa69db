package routes

import (
	"iter"
	"slices"
)

// All yields every documented operation once, ordered by path. It does not yield the variants of a Route that [Match]
// chooses by a message's age or by a token.
func All() iter.Seq[Route] { return slices.Values(catalogue[:]) }

// catalogue lists the documented operations, each of which is a variable of this package.
var catalogue = [...]Route{
	GetMyApplication, UpdateMyApplication, GetApplication, UpdateApplication, ApplicationsGetActivityInstance,
	UploadApplicationAttachment, ListApplicationCommands, CreateApplicationCommand, BulkSetApplicationCommands,
	DeleteApplicationCommand, GetApplicationCommand, UpdateApplicationCommand, ListApplicationEmojis,
	CreateApplicationEmoji, DeleteApplicationEmoji, GetApplicationEmoji, UpdateApplicationEmoji, GetEntitlements,
	CreateEntitlement, DeleteEntitlement, GetEntitlement, ConsumeEntitlement, ListGuildApplicationCommands,
	CreateGuildApplicationCommand, BulkSetGuildApplicationCommands, ListGuildApplicationCommandPermissions,
	DeleteGuildApplicationCommand, GetGuildApplicationCommand, UpdateGuildApplicationCommand,
	GetGuildApplicationCommandPermissions, SetGuildApplicationCommandPermissions,
	GetApplicationRoleConnectionsMetadata, UpdateApplicationRoleConnectionsMetadata, DeleteChannel, GetChannel,
	UpdateChannel, FollowChannel, ListChannelInvites, CreateChannelInvite, ListMessages, CreateMessage,
	BulkDeleteMessages, ListPins, DeletePin, CreatePin, DeleteMessage, GetMessage, UpdateMessage, CrosspostMessage,
	DeleteAllMessageReactions, DeleteAllMessageReactionsByEmoji, ListMessageReactionsByEmoji, DeleteMyMessageReaction,
	AddMyMessageReaction, DeleteUserMessageReaction, CreateThreadFromMessage, DeleteChannelPermissionOverwrite,
	SetChannelPermissionOverwrite, DeprecatedListPins, DeprecatedDeletePin, DeprecatedCreatePin, GetAnswerVoters,
	PollExpire, DeleteGroupDMUser, AddGroupDMUser, SendSoundboardSound, ListThreadMembers, LeaveThread, JoinThread,
	DeleteThreadMember, GetThreadMember, AddThreadMember, CreateThread, ListPrivateArchivedThreads,
	ListPublicArchivedThreads, ThreadSearch, TriggerTypingIndicator, ListMyPrivateArchivedThreads,
	UpdateVoiceChannelStatus, ListChannelWebhooks, CreateWebhook, GetGateway, GetBotGateway, GetGuildTemplate,
	GetGuild, UpdateGuild, ListGuildAuditLogEntries, ListAutoModerationRules, CreateAutoModerationRule,
	DeleteAutoModerationRule, GetAutoModerationRule, UpdateAutoModerationRule, ListGuildBans, UnbanUserFromGuild,
	GetGuildBan, BanUserFromGuild, BulkBanUsersFromGuild, ListGuildChannels, BulkUpdateGuildChannels,
	CreateGuildChannel, ListGuildEmojis, CreateGuildEmoji, DeleteGuildEmoji, GetGuildEmoji, UpdateGuildEmoji,
	UpdateGuildIncidentActions, ListGuildIntegrations, DeleteGuildIntegration, ListGuildInvites, ListGuildMembers,
	UpdateMyGuildMember, SearchGuildMembers, DeleteGuildMember, GetGuildMember, UpdateGuildMember, AddGuildMember,
	DeleteGuildMemberRole, AddGuildMemberRole, GuildSearch, GetGuildNewMemberWelcome, GetGuildsOnboarding,
	PutGuildsOnboarding, GetGuildPreview, PreviewPruneGuild, PruneGuild, ListGuildVoiceRegions, GetGuildJoinRequests,
	ActionGuildJoinRequest, ListGuildRoles, BulkUpdateGuildRoles, CreateGuildRole, GuildRoleMemberCounts,
	DeleteGuildRole, GetGuildRole, UpdateGuildRole, ListGuildScheduledEvents, CreateGuildScheduledEvent,
	DeleteGuildScheduledEvent, GetGuildScheduledEvent, UpdateGuildScheduledEvent, CreateGuildScheduledEventException,
	DeleteGuildScheduledEventException, UpdateGuildScheduledEventException, ListGuildScheduledEventUsers,
	CountGuildScheduledEventUsers, ListGuildScheduledEventExceptionUsers, ListGuildSoundboardSounds,
	CreateGuildSoundboardSound, DeleteGuildSoundboardSound, GetGuildSoundboardSound, UpdateGuildSoundboardSound,
	ListGuildStickers, CreateGuildSticker, DeleteGuildSticker, GetGuildSticker, UpdateGuildSticker,
	ListGuildTemplates, CreateGuildTemplate, DeleteGuildTemplate, UpdateGuildTemplate, SyncGuildTemplate,
	GetActiveGuildThreads, GetGuildVanityURL, GetSelfVoiceState, UpdateSelfVoiceState, GetVoiceState,
	UpdateVoiceState, GetGuildWebhooks, GetGuildWelcomeScreen, UpdateGuildWelcomeScreen, GetGuildWidgetSettings,
	UpdateGuildWidgetSettings, GetGuildWidget, GetGuildWidgetPNG, CreateInteractionResponse, InviteRevoke,
	InviteResolve, GetInviteTargetUsers, UpdateInviteTargetUsers, GetInviteTargetUsersJobStatus, CreateLobby,
	CreateOrJoinLobby, DeleteLobby, GetLobby, EditLobby, EditLobbyChannelLink, LeaveLobby,
	CreateLinkedLobbyGuildInviteForSelf, BulkUpdateLobbyMembers, DeleteLobbyMember, AddLobbyMember,
	CreateLinkedLobbyGuildInviteForUser, GetLobbyMessages, CreateLobbyMessage,
	UpdateLobbyMessageExternalModerationMetadata, GetMyOAuth2Authorization, GetMyOAuth2Application, GetPublicKeys,
	GetOpenIDConnectUserinfo, UpdateUserMessageExternalModerationMetadata, PartnerSDKUnmergeProvisionalAccount,
	BotPartnerSDKUnmergeProvisionalAccount, PartnerSDKToken, BotPartnerSDKToken, GetSKUSubscriptions,
	GetSKUSubscription, GetSoundboardDefaultSounds, CreateStageInstance, DeleteStageInstance, GetStageInstance,
	UpdateStageInstance, ListStickerPacks, GetStickerPack, GetSticker, GetMyUser, UpdateMyUser,
	GetCurrentUserApplicationEntitlements, DeleteApplicationUserRoleConnection, GetApplicationUserRoleConnection,
	UpdateApplicationUserRoleConnection, CreateDM, ListMyConnections, ListMyGuilds, LeaveGuild, GetMyGuildMember,
	GetUser, ListVoiceRegions, DeleteWebhook, GetWebhook, UpdateWebhook, DeleteWebhookByToken, GetWebhookByToken,
	UpdateWebhookByToken, ExecuteWebhook, ExecuteGithubCompatibleWebhook, DeleteOriginalWebhookMessage,
	GetOriginalWebhookMessage, UpdateOriginalWebhookMessage, DeleteWebhookMessage, GetWebhookMessage,
	UpdateWebhookMessage, ExecuteSlackCompatibleWebhook,
}
