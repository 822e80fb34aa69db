// Package rest is a small client of Discord's REST API on top of [httpclient.Transport]: addresses, the headers that Discord
// insists on, bodies that can be sent again, typed errors. It knows nothing of Discord's objects.
//
//	client := rest.New(token)
//	defer client.Close()
//	err := client.DoJSON(ctx, "POST", "/channels/1/messages", map[string]string{"content": "hello"}, nil)
//
// Options of the transport are passed on by [WithTransport].
package rest
