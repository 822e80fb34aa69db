package main

import (
	"context"
	"errors"

	"github.com/bwmarrin/discordgo"
	"github.com/diamondburned/arikawa/v3/utils/httputil"
	"github.com/disgoorg/disgo/rest"
)

// client is what is asked of each library.
type client interface {
	// under returns the client for calls that end with the context, as far as the library knows how to.
	under(ctx context.Context) client

	Send(channel uint64, content string) (message, error)
	Edit(channel, id uint64, content string) (message, error)
	Delete(channel, id uint64) error
	React(channel, id uint64, emoji string) error
	Upload(channel uint64, name string, content []byte) (message, error)
	Reply(interaction uint64, token, content string) error
	Webhook(id uint64, token, content string) (message, error)
}

// message is what the library has decoded of a message.
type message struct {
	ID, Channel uint64
	Content     string
	File        string // the name of what is attached
	Size        int    // of it, in bytes
}

// apiError is what the library has decoded of an error that Discord has answered with.
type apiError struct {
	Status, Code int
	Message      string
	Body         string
}

// explain returns what is in a library's error, and false if it is not one of Discord's.
func explain(err error) (apiError, bool) {
	var inDiscordgo *discordgo.RESTError
	var inDisgo *rest.Error
	var inArikawa *httputil.HTTPError
	var inPlain *plainError
	switch {
	case errors.As(err, &inDiscordgo):
		e := apiError{Status: inDiscordgo.Response.StatusCode, Body: string(inDiscordgo.ResponseBody)}
		if m := inDiscordgo.Message; m != nil {
			e.Code, e.Message = m.Code, m.Message
		}
		return e, true
	case errors.As(err, &inDisgo):
		return apiError{inDisgo.Response.StatusCode, int(inDisgo.Code), inDisgo.Message, string(inDisgo.RsBody)}, true
	case errors.As(err, &inArikawa):
		return apiError{inArikawa.Status, int(inArikawa.Code), inArikawa.Message, string(inArikawa.Body)}, true
	case errors.As(err, &inPlain):
		return apiError{inPlain.Status, inPlain.Code, inPlain.Message, inPlain.Body}, true
	}
	return apiError{}, false
}
