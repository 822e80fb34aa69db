// Package httpclient puts the limits of package buckets under an HTTP client: [Transport] is an http.RoundTripper that
// holds each request back until Discord is certain to accept it, and repeats it when it was refused all the same.
//
//	transport := httpclient.NewTransport()
//	defer transport.Close()
//	client := &http.Client{Transport: transport}
//
// # Timeouts
//
// http.Client.Timeout counts the time in the queue. Leave it zero, and bound requests by their contexts: a context whose
// deadline lies before the predicted wait fails at once instead of waiting in vain.
package httpclient
