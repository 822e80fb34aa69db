package main

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bwmarrin/discordgo"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/internal/discordsim"
)

func TestDiscordgosLimiterIsQuietWithoutRateLimitHeaders(t *testing.T) {
	t.Parallel()
	for _, hidden := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			transport, end := limiting(newTestDiscord(t, slow))
			defer end()
			var through http.RoundTripper = transport
			if !hidden {
				through = newTestDiscord(t, slow)
			}
			s, err := newDiscordgo(&http.Client{Transport: through})
			require.NoError(t, err)
			_, err = s.ChannelMessageSend(text(channel), "hello")
			require.NoError(t, err)

			bucket := s.Ratelimiter.GetBucket(discordgo.EndpointChannelMessages(text(channel)))
			wait := s.Ratelimiter.GetWaitTime(bucket, 1)
			if hidden {
				assert.Zero(t, wait)
			} else {
				assert.InDelta(t, time.Minute, wait, float64(time.Second))
			}
		})
	}
}

// freeReactions takes any number of reactions.
var freeReactions = discordsim.Config{Default: &discordsim.Rule{Path: "**", Quota: discordsim.Unlimited()}}

// discordgo allows itself one reaction in 200 ms and channel, whatever Discord says.
func TestASessionOfItsOwnFreesReactionsFromDiscordgosLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		transport, end := limiting(newTestDiscord(t, freeReactions))
		defer end()
		s, err := hookedDiscordgo(transport)
		require.NoError(t, err)
		took := func(session func() *discordgo.Session) time.Duration {
			start := time.Now()
			for range 5 {
				require.NoError(t, inDiscordgo{session: session}.React(channel, firstMessage, "🔥"))
			}
			return time.Since(start)
		}
		assert.Equal(t, 250*time.Millisecond, took(func() *discordgo.Session { return withOwnLimiter(s) }), "five round trips")
		assert.GreaterOrEqual(t, took(func() *discordgo.Session { return s }), 800*time.Millisecond)
	})
}
