package main

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/bwmarrin/discordgo"
	"github.com/diamondburned/arikawa/v3/api"
	"github.com/diamondburned/arikawa/v3/api/webhook"
	arikawa "github.com/diamondburned/arikawa/v3/discord"
	"github.com/diamondburned/arikawa/v3/utils/json/option"
	"github.com/diamondburned/arikawa/v3/utils/sendpart"
	"github.com/disgoorg/disgo/discord"
	"github.com/disgoorg/disgo/rest"
	"github.com/disgoorg/snowflake/v2"
)

// caller makes a call with a library. It returns when the context ends, as far as the library supports that.
type caller func(context.Context, call) error

// Values that all libraries use.
const (
	token            = "simulated" // the bot's
	webhookToken     = "webhook-token"
	interactionToken = "aW50ZXJhY3Rpb246MTIz"
	emoji            = "🔥"
	fileName         = "file.bin"
)

func (c call) content() string     { return fmt.Sprintf("message %d", c.n) }
func (c call) interaction() uint64 { return c.channel + uint64(c.n)*1000 }

func text(id uint64) string { return strconv.FormatUint(id, 10) }

// inDiscordgo returns a caller that gets a session from the function for each call.
func inDiscordgo(session func() *discordgo.Session) caller {
	return func(ctx context.Context, c call) (err error) {
		s, with, channel, message := session(), discordgo.WithContext(ctx), text(c.channel), text(c.message())
		switch c.kind {
		case send:
			_, err = s.ChannelMessageSend(channel, c.content(), with)
		case edit:
			_, err = s.ChannelMessageEdit(channel, message, c.content(), with)
		case remove:
			err = s.ChannelMessageDelete(channel, message, with)
		case react:
			err = s.MessageReactionAdd(channel, message, emoji, with)
		case upload:
			_, err = s.ChannelFileSend(channel, fileName, strings.NewReader(c.content()), with)
		case reply:
			to := &discordgo.Interaction{ID: text(c.interaction()), Token: interactionToken}
			err = s.InteractionRespond(to, &discordgo.InteractionResponse{
				Type: discordgo.InteractionResponseChannelMessageWithSource,
				Data: &discordgo.InteractionResponseData{Content: c.content()},
			}, with)
		case execute:
			_, err = s.WebhookExecute(channel, webhookToken, true, &discordgo.WebhookParams{Content: c.content()}, with)
		}
		return err
	}
}

func inDisgo(r rest.Rest) caller {
	return func(ctx context.Context, c call) (err error) {
		with, channel, message, content := rest.WithCtx(ctx), snowflake.ID(c.channel), snowflake.ID(c.message()), c.content()
		switch c.kind {
		case send:
			_, err = r.CreateMessage(channel, discord.MessageCreate{Content: content}, with)
		case edit:
			_, err = r.UpdateMessage(channel, message, discord.MessageUpdate{Content: &content}, with)
		case remove:
			err = r.DeleteMessage(channel, message, with)
		case react:
			err = r.AddReaction(channel, message, emoji, with)
		case upload:
			_, err = r.CreateMessage(channel, discord.MessageCreate{
				Files: []*discord.File{discord.NewFile(fileName, "", bytes.NewReader([]byte(content)))},
			}, with)
		case reply:
			err = r.CreateInteractionResponse(snowflake.ID(c.interaction()), interactionToken, discord.InteractionResponse{
				Type: discord.InteractionResponseTypeCreateMessage, Data: discord.MessageCreate{Content: content},
			}, with)
		case execute:
			_, err = r.CreateWebhookMessage(channel, webhookToken, discord.WebhookMessageCreate{Content: content},
				rest.CreateWebhookMessageParams{Wait: true}, with)
		}
		return err
	}
}

func inArikawa(client *api.Client) caller {
	return func(ctx context.Context, c call) (err error) {
		a, channel, message := client.WithContext(ctx), arikawa.ChannelID(c.channel), arikawa.MessageID(c.message())
		switch c.kind {
		case send:
			_, err = a.SendMessage(channel, c.content())
		case edit:
			_, err = a.EditText(channel, message, c.content())
		case remove:
			err = a.DeleteMessage(channel, message, "")
		case react:
			err = a.React(channel, message, arikawa.APIEmoji(emoji))
		case upload:
			_, err = a.SendMessageComplex(channel, api.SendMessageData{
				Files: []sendpart.File{{Name: fileName, Reader: strings.NewReader(c.content())}},
			})
		case reply:
			err = a.RespondInteraction(arikawa.InteractionID(c.interaction()), interactionToken, api.InteractionResponse{
				Type: api.MessageInteractionWithSource,
				Data: &api.InteractionResponseData{Content: option.NewNullableString(c.content())},
			})
		case execute:
			through := webhook.FromAPI(arikawa.WebhookID(c.channel), webhookToken, a) // uses the limiter of a, if it has one
			_, err = through.ExecuteAndWait(webhook.ExecuteData{Content: c.content()})
		}
		return err
	}
}
