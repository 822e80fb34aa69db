package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient"
)

// instant is a round tripper that answers at once. It derives a context as http.Transport does, because that costs
// more if the request's context can end.
type instant struct{}

func (instant) RoundTrip(request *http.Request) (*http.Response, error) {
	_, cancel := context.WithCancelCause(request.Context())
	cancel(nil)
	body := io.NopCloser(strings.NewReader("{}"))
	return &http.Response{StatusCode: http.StatusOK, Header: answer, Body: body, Request: request}, nil
}

// BenchmarkTransport measures what the transport adds to a round tripper that answers at once. All options but the
// global limit have their defaults.
func BenchmarkTransport(b *testing.B) {
	forever := func() (context.Context, context.CancelFunc) { return context.Background(), func() {} }
	soon := func() (context.Context, context.CancelFunc) { // ends before an attempt would
		return context.WithTimeout(context.Background(), httpclient.DefaultAttemptTimeout/2)
	}
	for _, sending := range []struct {
		name, method, body string
		newContext         func() (context.Context, context.CancelFunc)
	}{
		{"get", http.MethodGet, "", forever},
		{"post", http.MethodPost, `{"content":"hello"}`, forever},
		{"post-deadline", http.MethodPost, `{"content":"hello"}`, soon},
	} {
		measure := func(name string, transport http.RoundTripper, channels int) {
			requests := messagesTo(b, channels, sending.method, sending.body)
			send := func(i int) { roundTrip(b, transport, requests[i%len(requests)], sending.newContext) }
			for i := range requests {
				send(i)
			}
			b.Run(sending.name+"/"+name+"/serial", func(b *testing.B) {
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					send(i)
				}
			})
		}
		measure("bare", instant{}, 1)
		for _, size := range sizes {
			transport := httpclient.NewTransport(httpclient.WithBase(instant{}), httpclient.WithBuckets(patient...))
			measure("ratelight/"+size.name, transport, size.buckets)
			require.NoError(b, transport.Close())
		}
	}
}

// messagesTo returns one request for each of the channels.
func messagesTo(b *testing.B, channels int, method, content string) (list []*http.Request) {
	for i := range channels {
		var body io.Reader
		if content != "" {
			body = bytes.NewReader([]byte(content))
		}
		url := fmt.Sprintf("https://discord.com/api/v10/channels/%d/messages", firstChannel+i)
		request, err := http.NewRequest(method, url, body)
		require.NoError(b, err)
		request.Header.Set("Authorization", authorization)
		list = append(list, request)
	}
	return list
}

// roundTrip sends a copy of the request and reads the response, as callers do.
func roundTrip(b *testing.B, transport http.RoundTripper, request *http.Request,
	newContext func() (context.Context, context.CancelFunc),
) {
	ctx, cancel := newContext()
	defer cancel()
	request = request.WithContext(ctx)
	if request.GetBody != nil {
		request.Body, _ = request.GetBody() // never fails for a bytes.Reader
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		b.Error(err)
		return
	}
	if _, err = io.Copy(io.Discard, response.Body); err == nil {
		err = response.Body.Close()
	}
	if err != nil || response.StatusCode != http.StatusOK {
		b.Error(response.Status, err)
	}
}
