package httpclient

import (
	"context"
	"io"
	"net/http"
)

//lint:file-ignore SA1019 http.Client sets Request.Cancel for its Timeout, and libraries do.

func hasCancel(request *http.Request) bool { return request.Cancel != nil }

// roundTripUntil is RoundTrip for a request whose Cancel channel, which contexts have replaced, can end it as well. It takes a
// goroutine that stays until the response's body is read or closed.
func (t *Transport) roundTripUntil(request *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(request.Context())
	goesOn := false
	defer func() { // also in a panic
		if !goesOn {
			cancel()
		}
	}()
	select {
	case <-request.Cancel:
		cancel() // now, not when the goroutine gets its turn
	default:
	}
	switched := make(chan struct{})
	go func() {
		select {
		case <-request.Cancel:
			cancel()
		case <-ctx.Done():
		case <-switched:
		}
	}()
	until := request.WithContext(ctx)
	until.Cancel = nil
	response, err := t.RoundTrip(until)
	if err != nil {
		return nil, err
	}
	response.Request = request
	switch {
	case isSwitched(response): // and nothing but its caller ends the connection
		goesOn = true
		close(switched)
	case response.Body != http.NoBody:
		goesOn = true
		response.Body = &bodyWithEnd{response.Body, cancel}
	}
	return response, nil
}

// bodyWithEnd is the body of a response with which something ends: when it has been read, or is closed.
type bodyWithEnd struct {
	io.ReadCloser
	end func() // may be called often
}

func (b *bodyWithEnd) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.end()
	}
	return n, err
}

func (b *bodyWithEnd) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}
