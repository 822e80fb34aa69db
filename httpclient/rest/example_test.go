package rest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/rest"
)

func ExampleNew() {
	discord := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println(r.Method, r.URL, r.Header.Get("Authorization"))
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"id":"3"}`)
	}))
	defer discord.Close()

	// Without WithBase and WithBaseURL requests go to Discord.
	client := rest.New("the-token", rest.WithTransport(httpclient.WithBase(discord.Client().Transport)), rest.WithBaseURL(discord.URL+"/api/v10"))
	defer client.Close()

	var message struct {
		ID string `json:"id"`
	}
	err := client.DoJSON(context.Background(), "POST", "/channels/1/messages", map[string]string{"content": "hello"}, &message)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("message", message.ID)
	// Output:
	// POST /api/v10/channels/1/messages Bot the-token
	// message 3
}

func ExampleClient_Do() {
	discord := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println(r.Method, r.URL, r.Header.Get("X-Audit-Log-Reason"))
		w.WriteHeader(http.StatusNoContent)
	}))
	defer discord.Close()
	client := rest.New("the-token", rest.WithTransport(httpclient.WithBase(discord.Client().Transport)), rest.WithBaseURL(discord.URL))
	defer client.Close()

	response, err := client.Do(context.Background(), "PUT", "/guilds/1/bans/2", rest.JSON(map[string]int{"delete_message_seconds": 60}),
		rest.Reason("spam, größtenteils"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(response.Status)
	// Output:
	// PUT /guilds/1/bans/2 spam%2C%20gr%C3%B6%C3%9Ftenteils
	// 204
}

func ExampleMultipart() {
	discord := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
	defer discord.Close()
	client := rest.New("the-token", rest.WithTransport(httpclient.WithBase(discord.Client().Transport)), rest.WithBaseURL(discord.URL))
	defer client.Close()

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
	discord := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"code":50035,"message":"Invalid Form Body","errors":{"embeds":{"0":{"title":{
			"_errors":[{"code":"BASE_TYPE_MAX_LENGTH","message":"Must be 256 or fewer in length."}]}}}}}`)
	}))
	defer discord.Close()
	client := rest.New("the-token", rest.WithTransport(httpclient.WithBase(discord.Client().Transport)), rest.WithBaseURL(discord.URL))
	defer client.Close()

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
