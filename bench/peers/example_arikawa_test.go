package main

import (
	"fmt"
	"net/http"

	"github.com/diamondburned/arikawa/v3/api"
	"github.com/diamondburned/arikawa/v3/utils/httputil"
	"github.com/diamondburned/arikawa/v3/utils/httputil/httpdriver"

	"github.com/ratelight/ratelight/httpclient"
)

// arikawa takes the transport in its driver. Its limiter sits in two hooks of the client; what remains of them is the
// headers. A bot passes the client on to session.NewCustom.
func Example_arikawa() {
	discord := example()
	defer discord.server.Close()

	transport := httpclient.NewTransport(httpclient.WithBase(discord))
	defer transport.Close()
	through := httputil.NewClient()
	through.Client = httpdriver.WrapClient(http.Client{Transport: transport})
	through.Retries = 1 // the transport repeats what may be repeated
	client := api.NewCustomClient("Bot "+token, through)
	client.Client.OnResponse = nil
	client.Client.OnRequest = []httputil.RequestOption{func(r httpdriver.Request) error {
		r.AddHeader(http.Header{"Authorization": {client.Token}, "User-Agent": {client.UserAgent}})
		return nil
	}}

	message, err := client.SendMessage(1, "hello")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(message.Content)
	// Output: hello
}

// In a client that is there already, such as that of a state.State, one line changes the driver. arikawa's limiter stays above, and
// makes one call per channel and route at a time, but waits for nothing else.
func Example_arikawaDriver() {
	discord := example()
	defer discord.server.Close()
	client := api.NewClient("Bot " + token)

	transport := httpclient.NewTransport(httpclient.WithoutRateLimitHeaders(), httpclient.WithBase(discord))
	defer transport.Close()
	client.Client.Client = httpdriver.WrapClient(http.Client{Transport: transport})

	message, err := client.SendMessage(1, "hello")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(message.Content)
	// Output: hello
}
