package proxy_test

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/ratelight/ratelight/httpclient/discordtest"
	"github.com/ratelight/ratelight/httpclient/proxy"
)

// A program that already has an HTTP server adds the proxy to it. Bots then use http://…/discord as their base URL.
func Example() {
	discord := discordtest.NewServer(nil, discordtest.Answer("GET /users/@me", 200, map[string]any{"id": "42"}))
	defer discord.Close()

	handler, err := proxy.New(proxy.WithUpstream(discord.URL)) // without WithUpstream: Discord
	if err != nil {
		log.Fatal(err)
	}
	defer handler.Close()
	server := httptest.NewServer(http.StripPrefix("/discord", handler))
	defer server.Close()

	response, err := http.Get(server.URL + "/discord/api/v10/users/@me")
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	fmt.Printf("%s %s\n", response.Status, text)
	http.DefaultClient.CloseIdleConnections()
	// Output: 200 OK {"id":"42"}
}
