package main

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/disgoorg/disgo/discord"
	"github.com/disgoorg/disgo/events"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/discordtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Twenty users ask at once in a channel that allows five messages in five seconds. Ten of them must get an answer in
// time.
func TestItAnswersAsFastAsItMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := discordtest.NewServer(t,
			discordtest.Window("create_message", 5, 5*time.Second), discordtest.Latency(100*time.Millisecond))
		transport := httpclient.NewTransport(httpclient.WithBase(server.Client().Transport))
		defer transport.Close()
		client, err := newClient("MQ.a.b", transport)
		require.NoError(t, err)
		defer client.Close(t.Context())

		var people sync.WaitGroup
		for range 20 {
			people.Go(func() {
				answer(&events.MessageCreate{GenericMessage: &events.GenericMessage{
					GenericEvent: events.NewGenericEvent(client, 0, 0), ChannelID: 1,
					Message: discord.Message{Content: "!ping"},
				}})
			})
		}
		people.Wait()
		assert.Len(t, server.Requests(), 11, "ten answers, and a request for the gateway's address")
		assert.Empty(t, server.Refused())
	})
}
