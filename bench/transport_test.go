package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient"
)

// What the transport costs above one that answers at once. All options but the global limit are the usual ones.

// instant answers at once. It derives a context as http.Transport does, which costs more if the request's can end.
type instant struct{}

func (instant) RoundTrip(request *http.Request) (*http.Response, error) {
	_, cancel := context.WithCancelCause(request.Context())
	cancel(nil)
	body := io.NopCloser(strings.NewReader("{}"))
	return &http.Response{StatusCode: http.StatusOK, Header: answer, Body: body, Request: request}, nil
}

// sending is one way to send requests.
type sending struct {
	name    string
	method  string
	body    string
	context func() (context.Context, context.CancelFunc)
}

var sendings = []sending{
	{"get", http.MethodGet, "", forever},
	{"post", http.MethodPost, `{"content":"hello"}`, forever},
	{"post-cancellable", http.MethodPost, `{"content":"hello"}`, cancellable},
	{"post-deadline", http.MethodPost, `{"content":"hello"}`, soon},
}

func forever() (context.Context, context.CancelFunc) { return context.Background(), func() {} }

func cancellable() (context.Context, context.CancelFunc) {
	return context.WithCancel(context.Background())
}

// soon returns a context that ends before an attempt would.
func soon() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), httpclient.DefaultAttemptTimeout/2)
}

func BenchmarkTransport(b *testing.B) {
	for _, s := range sendings {
		b.Run(s.name+"/bare", func(b *testing.B) { s.measure(b, instant{}, 1) })
		for _, size := range sizes {
			b.Run(s.name+"/ratelight/"+size.name, func(b *testing.B) {
				transport := httpclient.NewTransport(httpclient.WithBase(instant{}), httpclient.WithBuckets(patient...))
				defer transport.Close()
				s.measure(b, transport, size.buckets)
			})
		}
	}
}

// measure sends requests in so many buckets, one after the other and side by side.
func (s sending) measure(b *testing.B, transport http.RoundTripper, buckets int) {
	requests := s.requests(b, "https://discord.com", buckets)
	for _, request := range requests {
		s.roundTrip(b, transport, request)
	}
	b.Run("serial", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			s.roundTrip(b, transport, requests[i%len(requests)])
		}
	})
	b.Run("parallel", func(b *testing.B) {
		var workers atomic.Int64
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			const stride = 7919 // a prime, so that workers do not follow each other
			for i := int(workers.Add(1)) * stride; pb.Next(); i++ {
				s.roundTrip(b, transport, requests[i%len(requests)])
			}
		})
	})
}

// requests returns one request for each of so many channels.
func (s sending) requests(b *testing.B, host string, channels int) (list []*http.Request) {
	for i := range channels {
		var body io.Reader
		if s.body != "" {
			body = bytes.NewReader([]byte(s.body))
		}
		url := fmt.Sprintf("%s/api/v10/channels/%d/messages", host, 900_000_000_000_000_000+i)
		request, err := http.NewRequest(s.method, url, body)
		require.NoError(b, err)
		request.Header.Set("Authorization", authorization)
		list = append(list, request)
	}
	return list
}

// roundTrip sends a copy of the request and reads the answer, as callers do.
func (s sending) roundTrip(b *testing.B, transport http.RoundTripper, request *http.Request) {
	ctx, cancel := s.context()
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
