package routes_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/ratelight/ratelight/routes"
)

func ExampleMatch() {
	compiled, err := routes.Match("POST", "https://discord.com/api/v10/channels/81384788765712384/messages?wait=true")
	if err != nil {
		panic(err)
	}
	fmt.Println(compiled.Route())
	fmt.Println(compiled.Route().Name())
	fmt.Println(compiled.Path())
	fmt.Println(compiled.Route().MajorKind(), compiled.Major())
	// Output:
	// POST /channels/{channel_id}/messages
	// create_message
	// /channels/81384788765712384/messages
	// channel 81384788765712384
}

// ExampleMatch_unknown shows that even an undocumented endpoint has a route and a major parameter.
func ExampleMatch_unknown() {
	compiled, err := routes.Match("PUT", "/guilds/197038439483310086/new-thing/80351110224678912")
	if err != nil {
		panic(err)
	}
	fmt.Println(compiled.Route())
	fmt.Println(compiled.Major())
	// Output:
	// PUT /guilds/{guild_id}/{value}/{id}
	// 197038439483310086
}

// ExampleMatch_media shows how Match reports requests to Discord's file servers, which need no limiter.
func ExampleMatch_media() {
	_, err := routes.Match("GET", "https://cdn.discordapp.com/avatars/80351110224678912/a.png")
	fmt.Println(errors.Is(err, routes.ErrNotAPI))
	// Output: true
}

func ExampleRoute_Compile() {
	compiled, err := routes.AddMyMessageReaction.Compile("81384788765712384", "1103049420993970196", "🔥")
	if err != nil {
		panic(err)
	}
	fmt.Println(compiled)

	_, err = routes.GetMessage.Compile("81384788765712384")
	fmt.Println(err)
	// Output:
	// PUT /channels/81384788765712384/messages/1103049420993970196/reactions/%F0%9F%94%A5/@me
	// routes: GET /channels/{channel_id}/messages/{message_id}: missing parameter message_id: got 1 parameters, expected 2
}

// ExampleCompiledRoute_String shows that the token in a path is never printed.
func ExampleCompiledRoute_String() {
	compiled, err := routes.ExecuteWebhook.Compile("223704706495545344", "a-token")
	if err != nil {
		panic(err)
	}
	fmt.Println(compiled)
	fmt.Println(compiled.Major().ID, len(compiled.Major().Token))
	// Output:
	// POST /webhooks/223704706495545344/…
	// 223704706495545344 7
}

func ExampleDeleteMessageAt() {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	compiled, err := routes.DeleteMessageAt("81384788765712384", "175928847299117063", now)
	if err != nil {
		panic(err)
	}
	fmt.Println(compiled.Route())
	// Output: DELETE /channels/{channel_id}/messages/{message_id} (older than 14 days)
}

func ExampleNew() {
	route, err := routes.New("POST", "/guilds/{guild_id}/new-thing/{thing_id}")
	if err != nil {
		panic(err)
	}
	compiled, err := route.Compile("197038439483310086", "1")
	if err != nil {
		panic(err)
	}
	fmt.Println(route.MajorKind(), compiled.Path())
	// Output: guild /guilds/197038439483310086/new-thing/1
}
