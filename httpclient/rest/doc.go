// Package rest is a small client of Discord's REST API on top of [httpclient.Transport]: URLs, the headers that Discord
// requires, repeatable bodies, typed errors. It has no types for Discord's objects.
//
//	client := rest.New(token)
//	defer client.Close()
//	err := client.DoJSON(ctx, "POST", "/channels/1/messages", map[string]string{"content": "hello"}, nil)
//
// [WithTransport] passes options to the transport.
package rest
