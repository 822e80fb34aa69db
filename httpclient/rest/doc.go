// Package rest is a small client of Discord's REST API. It adds to an [httpclient.Transport] what requests to Discord
// need: URLs, the required headers, bodies that can be sent again, and typed errors. It has no types for Discord's
// objects.
//
//	client := rest.New(token)
//	defer client.Close()
//	err := client.DoJSON(ctx, "POST", "/channels/1/messages", map[string]string{"content": "hello"}, nil)
//
// [WithTransport] passes options to the transport.
package rest
