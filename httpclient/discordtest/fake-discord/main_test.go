package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestServesTheMeasuredDiscordUntilTheEnd(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reader, writer := io.Pipe()
	status := make(chan int, 1)
	go func() {
		status <- run(ctx, []string{"-listen", "127.0.0.1:0", "-latency", "1ms"}, writer, io.Discard)
		writer.Close()
	}()
	lines := bufio.NewReader(reader)
	url, err := lines.ReadString('\n')
	require.NoError(t, err)
	assert.True(t, strings.HasPrefix(url, "http://127.0.0.1:"), url)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, want := range []int{200, 429} {
		response, err := client.Get(strings.TrimSpace(url) + "/api/v10/users/@me/guilds")
		require.NoError(t, err)
		response.Body.Close()
		assert.Equal(t, want, response.StatusCode)
		assert.Equal(t, "1", response.Header.Get("X-RateLimit-Limit"))
	}
	cancel()
	rest, err := io.ReadAll(lines)
	require.NoError(t, err)
	assert.Contains(t, string(rest), "GET /users/@me/guilds: 429 (user limit, avoidable")
	assert.Contains(t, string(rest), "2 requests, 1 of them refused, 1 of those avoidable\n")
	assert.Zero(t, <-status)
}

func TestMisuse(t *testing.T) {
	t.Parallel()
	for arguments, want := range map[string]int{
		"-h": 0, "-nope": 2, "word": 2, "-listen 127.0.0.1:x": 1, "-listen 8090": 1, "-latency -1s": 1,
	} {
		var stderr bytes.Buffer
		assert.Equal(t, want, run(t.Context(), strings.Fields(arguments), io.Discard, &stderr), arguments)
		assert.NotEmpty(t, stderr.String(), arguments)
	}
}
