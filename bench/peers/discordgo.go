package main

import (
	"bytes"
	"context"
	"strconv"

	"github.com/bwmarrin/discordgo"
)

// inDiscordgo makes each call with the session that it is given.
type inDiscordgo struct {
	session func() *discordgo.Session
	options []discordgo.RequestOption
}

func (c inDiscordgo) under(ctx context.Context) client {
	return inDiscordgo{c.session, []discordgo.RequestOption{discordgo.WithContext(ctx)}}
}

func text(id uint64) string { return strconv.FormatUint(id, 10) }

func (c inDiscordgo) message(m *discordgo.Message, err error) (message, error) {
	if err != nil || m == nil {
		return message{}, err
	}
	out := message{Content: m.Content}
	if out.ID, err = strconv.ParseUint(m.ID, 10, 64); err != nil {
		return out, err
	}
	out.Channel, err = strconv.ParseUint(m.ChannelID, 10, 64)
	for _, a := range m.Attachments {
		out.File, out.Size = a.Filename, a.Size
	}
	return out, err
}

func (c inDiscordgo) Send(channel uint64, content string) (message, error) {
	return c.message(c.session().ChannelMessageSend(text(channel), content, c.options...))
}

func (c inDiscordgo) Edit(channel, id uint64, content string) (message, error) {
	return c.message(c.session().ChannelMessageEdit(text(channel), text(id), content, c.options...))
}

func (c inDiscordgo) Delete(channel, id uint64) error {
	return c.session().ChannelMessageDelete(text(channel), text(id), c.options...)
}

func (c inDiscordgo) React(channel, id uint64, emoji string) error {
	return c.session().MessageReactionAdd(text(channel), text(id), emoji, c.options...)
}

func (c inDiscordgo) Upload(channel uint64, name string, content []byte) (message, error) {
	return c.message(c.session().ChannelFileSend(text(channel), name, bytes.NewReader(content), c.options...))
}

func (c inDiscordgo) Reply(interaction uint64, token, content string) error {
	return c.session().InteractionRespond(&discordgo.Interaction{ID: text(interaction), Token: token}, &discordgo.InteractionResponse{
		Type: discordgo.InteractionResponseChannelMessageWithSource,
		Data: &discordgo.InteractionResponseData{Content: content},
	}, c.options...)
}

func (c inDiscordgo) Webhook(id uint64, token, content string) (message, error) {
	return c.message(c.session().WebhookExecute(text(id), token, true, &discordgo.WebhookParams{Content: content}, c.options...))
}

var _ client = inDiscordgo{}
