// Package httpclient puts the limits of package buckets under an HTTP client: [Transport] is an http.RoundTripper that
// holds each request back until Discord is certain to accept it, and repeats it when it was refused all the same.
//
//	transport := httpclient.NewTransport()
//	defer transport.Close()
//	client := &http.Client{Transport: transport}
//
// Package rest is a small REST client on top of a Transport, for programs that have no library which does that.
//
// # Which hosts are limited
//
// Those of Discord's API, and what [WithHosts] and [WithAPI] add: a proxy, a test, a server that is compatible with Discord. All
// other requests are passed on untouched, so a client may be used for attachments and for other services, too.
//
// # What is repeated
//
// A 429 is always waited for and repeated, within the max rate limit. Failures that will pass are repeated where that does no
// harm, see [WithRetries]. An attempt without progress is given up, see [WithAttemptTimeout].
//
// # Timeouts
//
// http.Client.Timeout counts the time in the queue. Leave it zero, and bound requests by their contexts: a context whose
// deadline lies before the predicted wait fails at once instead of waiting in vain. They bound large uploads and downloads, too:
// [WithAttemptTimeout] counts only the time in which nothing moves.
package httpclient
