package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/discordtest"
	"github.com/ratelight/ratelight/httpclient/rest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Two hundred words arrive within ten seconds, and a message may be edited five times in five seconds. The last edit
// must contain all words.
func TestTheReaderSeesTheLatestWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := discordtest.NewServer(t, discordtest.Latency(100*time.Millisecond),
			discordtest.Window("update_message", 5, 5*time.Second),
			discordtest.Answer("create_message", 200, map[string]any{"id": "7"}))
		client := rest.New("Bot token", rest.WithTransport(httpclient.WithBase(server.Client().Transport)))
		defer client.Close()
		input, model := io.Pipe()
		go func() {
			for i := range 200 {
				fmt.Fprintf(model, "word%d ", i)
				time.Sleep(50 * time.Millisecond)
			}
			model.Close()
		}()
		began := time.Now()
		require.NoError(t, stream(t.Context(), client, "1", input))
		assert.Less(t, time.Since(began), 16*time.Second)

		requests := server.Requests()
		assert.LessOrEqual(t, len(requests), 1+5*3)
		var last message
		require.NoError(t, json.Unmarshal(requests[len(requests)-1].Body, &last))
		assert.Len(t, strings.Fields(last.Content), 200)
		assert.Empty(t, server.Refused())
	})
}
