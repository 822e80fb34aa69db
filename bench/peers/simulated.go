package main

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// simulated is a simulated Discord whose answers the libraries can decode: what is sent comes back as a message. Limits are
// the simulator's alone. It is the http.RoundTripper below everything.
type simulated struct {
	server *discordsim.Server
	next   http.RoundTripper

	mu    sync.Mutex
	last  uint64   // message id given out
	files [][]byte // of messages that were accepted
}

// firstMessage is an id as Discord gives them out.
const firstMessage = 1_000_000_000_000_000_000

// newSimulated returns a Discord with these limits. Close its server in the end.
func newSimulated(config discordsim.Config) (*simulated, error) {
	server, err := discordsim.New(config)
	if err != nil {
		return nil, err
	}
	return &simulated{server: server, next: server.RoundTripper(), last: firstMessage}, nil
}

// uploads are the files that have arrived.
func (d *simulated) uploads() [][]byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.files
}

func (d *simulated) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		defer r.Body.Close()
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	sent := r.Clone(r.Context())
	sent.Body = io.NopCloser(bytes.NewReader(body))
	response, err := d.next.RoundTrip(sent)
	if err != nil {
		return nil, err
	}
	response.Request = r
	if response.StatusCode == http.StatusOK {
		err = d.answer(response, r, body)
	}
	return response, err
}

// answer replaces the simulator's empty object.
func (d *simulated) answer(response *http.Response, r *http.Request, body []byte) error {
	_, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/api/"), "/") // without the version
	part := strings.Split(path, "/")
	wait := r.URL.Query().Get("wait") == "true"
	if part[0] == "interactions" || part[0] == "webhooks" && !wait || r.Method == http.MethodPut || r.Method == http.MethodDelete {
		response.StatusCode, response.Status = http.StatusNoContent, "204 No Content"
		response.Body, response.ContentLength = http.NoBody, 0
		return nil
	}
	content, file, err := decode(r.Header.Get("Content-Type"), body)
	if err != nil {
		return err
	}
	d.mu.Lock()
	d.last++
	id := strconv.FormatUint(d.last, 10)
	if file != nil {
		d.files = append(d.files, file.content)
	}
	d.mu.Unlock()
	if r.Method == http.MethodPatch {
		id = part[len(part)-1]
	}
	text, err := json.Marshal(echo(id, part[1], content, file))
	if err != nil {
		return err
	}
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	return nil
}

// attachment is a file of a message.
type attachment struct {
	name    string
	content []byte
}

// decode returns the content and the file, if any, of a message that is sent.
func decode(contentType string, body []byte) (content string, file *attachment, err error) {
	kind, parameters, err := mime.ParseMediaType(contentType)
	if err != nil {
		return "", nil, err
	}
	if kind != "multipart/form-data" {
		content, err = contentOf(body)
		return content, nil, err
	}
	parts := multipart.NewReader(bytes.NewReader(body), parameters["boundary"])
	for {
		part, err := parts.NextPart()
		if err == io.EOF {
			return content, file, nil
		}
		if err != nil {
			return "", nil, err
		}
		read, err := io.ReadAll(part)
		if err == nil && part.FormName() == "payload_json" {
			content, err = contentOf(read)
		} else {
			file = &attachment{part.FileName(), read}
		}
		if err != nil {
			return "", nil, err
		}
	}
}

func contentOf(body []byte) (string, error) {
	var m struct{ Content string }
	err := json.Unmarshal(body, &m)
	return m.Content, err
}

// echo is a message in Discord's JSON, with what the libraries insist on.
func echo(id, channel, content string, file *attachment) any {
	attachments := []map[string]any{}
	if file != nil {
		attachments = append(attachments, map[string]any{
			"id": id, "filename": file.name, "size": len(file.content), "url": "https://cdn.discordapp.com/a", "proxy_url": "https://cdn.discordapp.com/a",
		})
	}
	return map[string]any{
		"id": id, "channel_id": channel, "content": content, "attachments": attachments, "type": 0,
		"timestamp": "2026-01-01T00:00:00.000000+00:00", "edited_timestamp": nil, "tts": false, "pinned": false,
		"mention_everyone": false, "mentions": []any{}, "mention_roles": []any{}, "embeds": []any{},
		"author": map[string]any{"id": "80351110224678912", "username": "bot", "discriminator": "0", "avatar": nil},
	}
}

var _ http.RoundTripper = (*simulated)(nil)
