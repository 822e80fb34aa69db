package status_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/discordtest"
	"github.com/ratelight/ratelight/httpclient/status"
)

func ExampleHandler() {
	discord := discordtest.NewServer(nil) // instead of the real Discord
	defer discord.Close()
	transport := httpclient.NewTransport(httpclient.WithBase(discord.Client().Transport))
	defer transport.Close()

	mux := http.NewServeMux() // serve it where only operators can reach it
	mux.Handle("/ratelight", status.Handler(transport.Manager()))
	admin := httptest.NewServer(mux)
	defer admin.Close()

	bot := &http.Client{Transport: transport}
	sent, err := bot.Post("https://discord.com/api/v10/channels/1/messages", "application/json",
		strings.NewReader(`{"content": "hello"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	sent.Body.Close()

	// A person opens the page; a script asks for the same numbers as JSON.
	response, err := http.Get(admin.URL + "/ratelight?format=json")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer response.Body.Close()
	var answer struct {
		Status struct {
			State string
			Stats struct{ Granted, Waiting int }
		}
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(answer.Status.State, answer.Status.Stats.Granted, answer.Status.Stats.Waiting)
	http.DefaultClient.CloseIdleConnections()
	// Output: running 1 0
}
