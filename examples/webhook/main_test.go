package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/discordtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestItPostsAllLinesInTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := discordtest.NewServer(t,
			discordtest.Window("execute_webhook", 5, 2*time.Second), discordtest.Latency(100*time.Millisecond))
		transport := httpclient.NewTransport(httpclient.WithBase(server.Client().Transport))
		defer transport.Close()
		var input strings.Builder
		for i := range 30 {
			fmt.Fprintf(&input, "line %d\n", i)
		}
		url := "https://discord.com/api/webhooks/1/token"
		require.NoError(t, post(t.Context(), &http.Client{Transport: transport}, url, strings.NewReader(input.String())))
		requests := server.Requests()
		require.Len(t, requests, 30)
		for i, r := range requests {
			assert.Contains(t, string(r.Body), fmt.Sprintf("line %d\"", i))
		}
		assert.Empty(t, server.Refused())
	})
}

func TestItEndsWhenTheWebhookDoesNotExist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := discordtest.NewServer(t, discordtest.Answer("execute_webhook", 404, map[string]any{"code": 10015}))
		transport := httpclient.NewTransport(httpclient.WithBase(server.Client().Transport))
		defer transport.Close()
		url := "https://discord.com/api/webhooks/1/token"
		err := post(t.Context(), &http.Client{Transport: transport}, url, strings.NewReader("1\n2\n3\n"))
		require.ErrorContains(t, err, "404")
		assert.Len(t, server.Requests(), 1)
	})
}
