package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/ratelight/ratelight/bench/internal/load"
)

// inPlain makes calls with an http.Client and nothing else.
type inPlain struct {
	*http.Client
	// before is called before each attempt; nil: nothing is.
	before func(context.Context, kind, uint64) error
	// repeats: what is answered with 429 is sent again after its Retry-After, as often as it takes.
	repeats bool
	ctx     context.Context
}

// plainError is an answer of Discord's that is none of success.
type plainError struct{ apiError }

func (e *plainError) Error() string { return fmt.Sprintf("status %d: %s", e.Status, e.Body) }

// request is one call as it goes over the wire.
type request struct {
	kind        kind
	channel     uint64 // or webhook, which has its limit of its own
	method      string
	path        string
	contentType string
	body        []byte
}

const base = "https://discord.com/api/v10"

func (c inPlain) under(ctx context.Context) client {
	c.ctx = ctx
	return c
}

func (c inPlain) Send(channel uint64, content string) (message, error) {
	return c.sendJSON(send, channel, http.MethodPost, fmt.Sprintf("/channels/%d/messages", channel), map[string]any{"content": content})
}

func (c inPlain) Edit(channel, id uint64, content string) (message, error) {
	return c.sendJSON(edit, channel, http.MethodPatch, fmt.Sprintf("/channels/%d/messages/%d", channel, id), map[string]any{"content": content})
}

func (c inPlain) Delete(channel, id uint64) error {
	_, err := c.do(request{kind: remove, channel: channel, method: http.MethodDelete, path: fmt.Sprintf("/channels/%d/messages/%d", channel, id)})
	return err
}

func (c inPlain) React(channel, id uint64, emoji string) error {
	path := fmt.Sprintf("/channels/%d/messages/%d/reactions/%s/@me", channel, id, url.PathEscape(emoji))
	_, err := c.do(request{kind: react, channel: channel, method: http.MethodPut, path: path})
	return err
}

func (c inPlain) Upload(channel uint64, name string, content []byte) (message, error) {
	var body bytes.Buffer
	parts := multipart.NewWriter(&body)
	file, err := parts.CreateFormFile("files[0]", name)
	if err == nil {
		_, err = file.Write(content)
	}
	if err == nil {
		err = parts.Close()
	}
	if err != nil {
		return message{}, err
	}
	return c.do(request{upload, channel, http.MethodPost, fmt.Sprintf("/channels/%d/messages", channel), parts.FormDataContentType(), body.Bytes()})
}

func (c inPlain) Reply(interaction uint64, token, content string) error {
	answer := map[string]any{"type": 4, "data": map[string]any{"content": content}}
	_, err := c.sendJSON(reply, interaction, http.MethodPost, fmt.Sprintf("/interactions/%d/%s/callback", interaction, token), answer)
	return err
}

func (c inPlain) Webhook(id uint64, token, content string) (message, error) {
	return c.sendJSON(execute, id, http.MethodPost, fmt.Sprintf("/webhooks/%d/%s?wait=true", id, token), map[string]any{"content": content})
}

func (c inPlain) sendJSON(k kind, channel uint64, method, path string, content any) (message, error) {
	body, err := json.Marshal(content)
	if err != nil {
		return message{}, err
	}
	return c.do(request{k, channel, method, path, "application/json", body})
}

// do makes a request, and makes it again as long as it is refused and repeated.
func (c inPlain) do(r request) (message, error) {
	ctx := c.ctx
	if ctx == nil {
		ctx = context.Background()
	}
	for {
		if c.before != nil {
			if err := c.before(ctx, r.kind, r.channel); err != nil {
				return message{}, err
			}
		}
		m, wait, err := c.attempt(ctx, r)
		if !c.repeats || wait == 0 {
			return m, err
		}
		if err := load.Pause(ctx, wait); err != nil {
			return message{}, err
		}
	}
}

// attempt sends a request once. A wait is what the answer asks for before it is sent again.
func (c inPlain) attempt(ctx context.Context, r request) (m message, wait time.Duration, err error) {
	sent, err := http.NewRequestWithContext(ctx, r.method, base+r.path, bytes.NewReader(r.body))
	if err != nil {
		return message{}, 0, err
	}
	if r.kind.authorized() {
		sent.Header.Set("Authorization", "Bot "+token)
	}
	if r.contentType != "" {
		sent.Header.Set("Content-Type", r.contentType)
	}
	response, err := c.Do(sent)
	if err != nil {
		return message{}, 0, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return message{}, 0, err
	case response.StatusCode >= http.StatusBadRequest:
		return message{}, retryAfter(response), explained(response.StatusCode, body)
	case len(body) == 0:
		return message{}, 0, nil
	}
	m, err = decodeMessage(body)
	return m, 0, err
}

// retryAfter is the wait that a 429 asks for; at least a second, as nobody is helped by spinning.
func retryAfter(response *http.Response) time.Duration {
	if response.StatusCode != http.StatusTooManyRequests {
		return 0
	}
	seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
	return time.Duration(max(seconds, 1)) * time.Second
}

func explained(status int, body []byte) error {
	e := &plainError{apiError{Status: status, Body: string(body)}}
	_ = json.Unmarshal(body, &e.apiError) // a page of the edge has no code and no message
	e.Status, e.Body = status, string(body)
	return e
}

func decodeMessage(body []byte) (message, error) {
	var in struct {
		ID          uint64 `json:"id,string"`
		Channel     uint64 `json:"channel_id,string"`
		Content     string
		Attachments []struct {
			Filename string
			Size     int
		}
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return message{}, err
	}
	out := message{ID: in.ID, Channel: in.Channel, Content: in.Content}
	for _, a := range in.Attachments {
		out.File, out.Size = a.Filename, a.Size
	}
	return out, nil
}

var _ client = inPlain{}
