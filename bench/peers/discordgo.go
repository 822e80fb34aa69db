package main

import (
	"bytes"
	"context"
	"net/http"
	"strconv"

	"github.com/bwmarrin/discordgo"
)

// withOwnLimiter returns a session for one REST call (or for calls that need not overlap): it is the given one with a limiter
// that nobody else waits in. discordgo locks a bucket from before a request until after its response, so that calls to one
// channel through one session go one at a time. What limits them is the transport in s.Client, which is shared.
func withOwnLimiter(s *discordgo.Session) *discordgo.Session {
	return &discordgo.Session{
		Token: s.Token, UserAgent: s.UserAgent, Client: s.Client, State: s.State,
		MaxRestRetries: s.MaxRestRetries, ShouldRetryOnRateLimit: s.ShouldRetryOnRateLimit,
		LogLevel: s.LogLevel, Ratelimiter: discordgo.NewRatelimiter(),
	}
}

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

// newDiscordgo returns a session that sends through the client.
func newDiscordgo(client *http.Client) (*discordgo.Session, error) {
	session, err := discordgo.New("Bot " + token)
	if err != nil {
		return nil, err
	}
	session.Client = client
	return session, nil
}

// hookedDiscordgo returns a session on top of a transport that limits.
func hookedDiscordgo(transport http.RoundTripper) (*discordgo.Session, error) {
	session, err := newDiscordgo(&http.Client{Transport: transport})
	if err == nil {
		session.MaxRestRetries = 0
	}
	return session, err
}

var _ client = inDiscordgo{}
