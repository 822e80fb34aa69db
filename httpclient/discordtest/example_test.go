package discordtest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/ratelight/ratelight/httpclient/discordtest"
)

// Welcome is the function under test. It greets a new member and uses only net/http.
func Welcome(client *http.Client, channel, name string) error {
	body, err := json.Marshal(map[string]string{"content": "Welcome, " + name + "!"})
	if err != nil {
		return err
	}
	url := "https://discord.com/api/v10/channels/" + channel + "/messages"
	response, err := client.Post(url, "application/json", strings.NewReader(string(body)))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("welcome %s: %s", name, response.Status)
	}
	return nil
}

// The function under test gets the server's client. The example then looks at the requests that have arrived. In a
// test, pass t instead of nil, so that the server is closed when the test ends.
func Example() {
	server := discordtest.NewServer(nil)
	defer server.Close()

	if err := Welcome(server.Client(), "1", "Ada"); err != nil {
		panic(err)
	}
	for _, request := range server.Requests() {
		fmt.Println(request.Method, request.Path, string(request.Body))
	}
	// Output:
	// POST /api/v10/channels/1/messages {"content":"Welcome, Ada!"}
}

// The second message gets a scripted 429. The third message also gets a 429, because it is sent before the retry-after
// of the first 429 has passed.
func ExampleRefuse() {
	server := discordtest.NewServer(nil,
		discordtest.Refuse("create_message", discordtest.User, 5*time.Second).Nth(2))
	defer server.Close()

	for _, name := range []string{"Ada", "Grace", "Edsger"} {
		fmt.Println(Welcome(server.Client(), "1", name))
	}
	for _, request := range server.Refused() {
		fmt.Println(request.Operation, request.Refused)
	}
	// Output:
	// <nil>
	// welcome Grace: 429 Too Many Requests
	// welcome Edsger: 429 Too Many Requests
	// POST /channels/{id}/messages user
	// POST /channels/{id}/messages user
}

// The first answer of the endpoint is that the bot has no permission. The second answer is a message.
func ExampleAnswer() {
	server := discordtest.NewServer(nil,
		discordtest.Answer("POST /channels/{id}/messages", 403,
			map[string]any{"code": 50013, "message": "Missing Permissions"}).Nth(1),
		discordtest.Answer("POST /channels/{id}/messages", 200, map[string]any{"id": "3"}),
	)
	defer server.Close()
	fmt.Println(Welcome(server.Client(), "1", "Ada"))
	fmt.Println(Welcome(server.Client(), "1", "Ada"))
	// Output:
	// welcome Ada: 403 Forbidden
	// <nil>
}
