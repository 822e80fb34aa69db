package proxy_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/proxy"
)

// http2Server returns an HTTP/2 server on the loopback interface and a transport that trusts its certificate.
func http2Server(t *testing.T, handler http.Handler) (*httptest.Server, *http.Transport) {
	server := httptest.NewUnstartedServer(handler)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	return server, server.Client().Transport.(*http.Transport)
}

// Discord speaks HTTP/2, and the clients of the proxy may.
func TestRequestsPassOverHTTP2(t *testing.T) {
	t.Parallel()
	arrived, answered, served := make(chan struct{}), make(chan struct{}), make(chan struct{})
	discord, base := http2Server(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, 2, r.ProtoMajor)
		if r.URL.Path == "/api/v10/gateway" {
			close(arrived)
			<-answered
			return
		}
		text, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		w.Header().Set("Trailer", "X-After")
		w.Header().Set("X-Length", r.Header.Get("Content-Length"))
		_, _ = w.Write(text)
		w.Header().Set("X-After", r.Trailer.Get("X-Sum"))
	}))
	handler, err := proxy.New(proxy.WithUpstream(discord.URL), proxy.WithTransport(httpclient.WithBase(base)),
		proxy.WithMaxBufferedBody(1000))
	require.NoError(t, err)
	defer handler.Close()
	server, transport := http2Server(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/gateway" {
			defer close(served)
		}
		handler.ServeHTTP(w, r)
	}))
	client := &http.Client{Transport: transport}

	for _, size := range []int{0, 100, 5 * megabyte} {
		r, err := http.NewRequest("POST", server.URL+messages, io.NopCloser(strings.NewReader(strings.Repeat("x", size))))
		require.NoError(t, err)
		r.Trailer = http.Header{"X-Sum": {"of the request"}}
		response, err := client.Do(r)
		require.NoError(t, err)
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		response.Body.Close()
		assert.Equal(t, 2, response.ProtoMajor)
		assert.Len(t, text, size)
		assert.Equal(t, "of the request", response.Trailer.Get("X-After"))
	}

	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "GET", server.URL+"/gateway", nil)
	require.NoError(t, err)
	over := make(chan error, 1)
	go func() {
		response, err := client.Do(r)
		if err == nil {
			response.Body.Close()
		}
		over <- err
	}()
	<-arrived
	cancel()
	assert.ErrorIs(t, <-over, context.Canceled)
	close(answered) // the handler waits for this response
	<-served
	assert.Zero(t, handler.Transport().Manager().Stats().InFlight)
}

// An early response to an upload ends the request. Over HTTP/2 the proxy need not read the rest.
func TestAnEarlyAnswerOverHTTP2DoesNotWaitForTheUpload(t *testing.T) {
	t.Parallel()
	discord, base := http2Server(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	}))
	handler, err := proxy.New(proxy.WithUpstream(discord.URL), proxy.WithTransport(httpclient.WithBase(base)),
		proxy.WithMaxBufferedBody(1000))
	require.NoError(t, err)
	defer handler.Close()
	server, transport := http2Server(t, handler)
	for range 10 {
		source, writer := io.Pipe() // the body stops after its first megabyte
		go func() { _, _ = writer.Write(make([]byte, megabyte)) }()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		r, err := http.NewRequestWithContext(ctx, "POST", server.URL+messages, source)
		require.NoError(t, err)
		response, err := transport.RoundTrip(r)
		require.NoError(t, err)
		assert.Equal(t, 413, response.StatusCode)
		_, err = io.Copy(io.Discard, response.Body)
		assert.NoError(t, err)
		writer.Close()
		response.Body.Close()
		cancel()
	}
}
