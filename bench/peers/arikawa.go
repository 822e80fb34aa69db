package main

import (
	"bytes"
	"context"

	"github.com/diamondburned/arikawa/v3/api"
	"github.com/diamondburned/arikawa/v3/api/webhook"
	"github.com/diamondburned/arikawa/v3/discord"
	"github.com/diamondburned/arikawa/v3/utils/json/option"
	"github.com/diamondburned/arikawa/v3/utils/sendpart"
)

// inArikawa makes calls with arikawa.
type inArikawa struct{ *api.Client }

func (c inArikawa) under(ctx context.Context) client { return inArikawa{c.WithContext(ctx)} }

func (c inArikawa) message(m *discord.Message, err error) (message, error) {
	if err != nil || m == nil {
		return message{}, err
	}
	out := message{ID: uint64(m.ID), Channel: uint64(m.ChannelID), Content: m.Content}
	for _, a := range m.Attachments {
		out.File, out.Size = a.Filename, int(a.Size)
	}
	return out, nil
}

func (c inArikawa) Send(channel uint64, content string) (message, error) {
	return c.message(c.SendMessage(discord.ChannelID(channel), content))
}

func (c inArikawa) Edit(channel, id uint64, content string) (message, error) {
	return c.message(c.EditText(discord.ChannelID(channel), discord.MessageID(id), content))
}

func (c inArikawa) Delete(channel, id uint64) error {
	return c.DeleteMessage(discord.ChannelID(channel), discord.MessageID(id), "")
}

func (c inArikawa) React(channel, id uint64, emoji string) error {
	return c.Client.React(discord.ChannelID(channel), discord.MessageID(id), discord.APIEmoji(emoji))
}

func (c inArikawa) Upload(channel uint64, name string, content []byte) (message, error) {
	return c.message(c.SendMessageComplex(discord.ChannelID(channel), api.SendMessageData{
		Files: []sendpart.File{{Name: name, Reader: bytes.NewReader(content)}},
	}))
}

func (c inArikawa) Reply(interaction uint64, token, content string) error {
	return c.RespondInteraction(discord.InteractionID(interaction), token, api.InteractionResponse{
		Type: api.MessageInteractionWithSource,
		Data: &api.InteractionResponseData{Content: option.NewNullableString(content)},
	})
}

func (c inArikawa) Webhook(id uint64, token, content string) (message, error) {
	through := webhook.FromAPI(discord.WebhookID(id), token, c.Client) // limiter included, if there is one
	return c.message(through.ExecuteAndWait(webhook.ExecuteData{Content: content}))
}

var _ client = inArikawa{}
