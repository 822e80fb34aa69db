package main

import (
	"bytes"
	"context"
	"log/slog"

	"github.com/disgoorg/disgo/discord"
	"github.com/disgoorg/disgo/rest"
	"github.com/disgoorg/snowflake/v2"
)

// inDisgo makes calls with disgo.
type inDisgo struct {
	rest.Rest
	options []rest.RequestOpt
}

func (c inDisgo) under(ctx context.Context) client {
	return inDisgo{c.Rest, []rest.RequestOpt{rest.WithCtx(ctx)}}
}

// newDisgo returns disgo's REST client.
func newDisgo(options ...rest.ClientConfigOpt) inDisgo {
	quiet := rest.WithLogger(slog.New(slog.DiscardHandler))
	return inDisgo{rest.New(rest.NewClient(token, append(options, quiet)...)), nil}
}

func (c inDisgo) message(m *discord.Message, err error) (message, error) {
	if err != nil || m == nil {
		return message{}, err
	}
	out := message{ID: uint64(m.ID), Channel: uint64(m.ChannelID), Content: m.Content}
	for _, a := range m.Attachments {
		out.File, out.Size = a.Filename, a.Size
	}
	return out, nil
}

func (c inDisgo) Send(channel uint64, content string) (message, error) {
	return c.message(c.CreateMessage(snowflake.ID(channel), discord.MessageCreate{Content: content}, c.options...))
}

func (c inDisgo) Edit(channel, id uint64, content string) (message, error) {
	return c.message(c.UpdateMessage(snowflake.ID(channel), snowflake.ID(id), discord.MessageUpdate{Content: &content}, c.options...))
}

func (c inDisgo) Delete(channel, id uint64) error {
	return c.DeleteMessage(snowflake.ID(channel), snowflake.ID(id), c.options...)
}

func (c inDisgo) React(channel, id uint64, emoji string) error {
	return c.AddReaction(snowflake.ID(channel), snowflake.ID(id), emoji, c.options...)
}

func (c inDisgo) Upload(channel uint64, name string, content []byte) (message, error) {
	return c.message(c.CreateMessage(snowflake.ID(channel), discord.MessageCreate{
		Files: []*discord.File{discord.NewFile(name, "", bytes.NewReader(content))},
	}, c.options...))
}

func (c inDisgo) Reply(interaction uint64, token, content string) error {
	return c.CreateInteractionResponse(snowflake.ID(interaction), token, discord.InteractionResponse{
		Type: discord.InteractionResponseTypeCreateMessage,
		Data: discord.MessageCreate{Content: content},
	}, c.options...)
}

func (c inDisgo) Webhook(id uint64, token, content string) (message, error) {
	return c.message(c.CreateWebhookMessage(snowflake.ID(id), token, discord.WebhookMessageCreate{Content: content}, rest.CreateWebhookMessageParams{Wait: true}, c.options...))
}

var _ client = inDisgo{}
