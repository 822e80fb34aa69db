package rest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/discordtest"
	"github.com/ratelight/ratelight/httpclient/rest"
)

// example returns a client of a fake Discord. Without WithTransport, requests are sent to Discord.
func example(rules ...discordtest.Rule) (client *rest.Client, server *discordtest.Server, end func()) {
	server = discordtest.NewServer(nil, rules...)
	client = rest.New("the-token", rest.WithTransport(httpclient.WithBase(server.Client().Transport)))
	return client, server, func() {
		client.Close()
		server.Close()
	}
}

func ExampleNew() {
	client, server, end := example(discordtest.Answer("create_message", 200, map[string]string{"id": "3"}))
	defer end()

	var message struct {
		ID string `json:"id"`
	}
	err := client.DoJSON(context.Background(), "POST", "/channels/1/messages", map[string]string{"content": "hello"},
		&message)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("message", message.ID)
	for _, r := range server.Requests() {
		fmt.Println(r.Method, r.Path, r.Header.Get("Authorization"))
	}
	// Output:
	// message 3
	// POST /api/v10/channels/1/messages Bot the-token
}

func ExampleClient_Do() {
	client, server, end := example(discordtest.Answer("ban_user_from_guild", 204, nil))
	defer end()

	response, err := client.Do(context.Background(), "PUT", "/guilds/1/bans/2",
		rest.JSON(map[string]int{"delete_message_seconds": 60}),
		rest.Reason("spam, größtenteils"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(response.Status)
	fmt.Println(server.Requests()[0].Header.Get("X-Audit-Log-Reason"))
	// Output:
	// 204
	// spam%2C%20gr%C3%B6%C3%9Ftenteils
}

func ExampleMultipart() {
	client, _, end := example(discordtest.Handle("create_message", func(w http.ResponseWriter, r *http.Request) {
		fmt.Println("payload:", r.FormValue("payload_json"))
		file, header, err := r.FormFile("files[0]")
		if err != nil {
			fmt.Println(err)
			return
		}
		content, err := io.ReadAll(file)
		fmt.Println(header.Filename, string(content), err)
		fmt.Fprint(w, "{}")
	}))
	defer end()

	body := rest.Multipart(map[string]string{"content": "see the file"},
		rest.File{Name: "notes.txt", ContentType: "text/plain", Content: strings.NewReader("a note")})
	if err := client.DoJSON(context.Background(), "POST", "/channels/1/messages", body, nil); err != nil {
		fmt.Println(err)
	}
	// Output:
	// payload: {"content":"see the file"}
	// notes.txt a note <nil>
}

func ExampleAPIError() {
	client, _, end := example(discordtest.Answer("create_message", 400, `{
		"code":50035,"message":"Invalid Form Body","errors":{"embeds":{"0":{"title":{
		"_errors":[{"code":"BASE_TYPE_MAX_LENGTH","message":"Must be 256 or fewer in length."}]}}}}}`))
	defer end()

	err := client.DoJSON(context.Background(), "POST", "/channels/1/messages", map[string]any{"embeds": []any{}}, nil)
	var failure *rest.APIError
	if errors.As(err, &failure) {
		fmt.Println(failure.Status, failure.Code, failure.Message)
		for _, field := range failure.Errors {
			fmt.Println(field.Path, field.Code, field.Message)
		}
	}
	// Output:
	// 400 50035 Invalid Form Body
	// embeds.0.title BASE_TYPE_MAX_LENGTH Must be 256 or fewer in length.
}
