package main

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/disgoorg/disgo/discord"
	"github.com/disgoorg/disgo/rest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
)

// slow takes one message in a minute.
var slow = discordsim.Config{Default: &discordsim.Rule{Path: "**", Quota: discordsim.Fixed(1, time.Minute)}}

func sendWith(t *testing.T, c client, option rest.RequestOpt) (took time.Duration, err error) {
	t.Helper()
	start := time.Now()
	_, err = c.(inDisgo).CreateMessage(channel, discord.MessageCreate{Content: "hello"}, option)
	return time.Since(start), err
}

func ends(t *testing.T, after time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), after)
	t.Cleanup(cancel)
	return ctx
}

// disgo gives the context of rest.WithCtx to its limiter and not to the request.
func TestDisgoKeepsTheContextFromTheTransport(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(http.RoundTripper) (client, func(), error){"transport": hookedDisgo, "limiter": nativeDisgo} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c, end, err := open(newTestDiscord(t, slow))
				require.NoError(t, err)
				defer end()
				_, err = sendWith(t, c, withContext(t.Context()))
				require.NoError(t, err)

				took, err := sendWith(t, c, rest.WithCtx(ends(t, time.Second)))
				if name == "transport" {
					assert.NoError(t, err, "it is not told of the deadline")
					assert.Greater(t, took, 50*time.Second)
				} else {
					assertTooLateAtOnce(t, took, err)
				}
				took, err = sendWith(t, c, withContext(ends(t, time.Second)))
				assertTooLateAtOnce(t, took, err)
			})
		})
	}
}

func assertTooLateAtOnce(t *testing.T, took time.Duration, err error) {
	t.Helper()
	var tooLong *ratelimits.TooLongError
	assert.ErrorAs(t, err, &tooLong)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Zero(t, took)
}

func TestDisgoLimiterForgetsCallsThatAreOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newTestDiscord(t, discordsim.Config{Default: &discordsim.Rule{
			Path: "**", Quota: discordsim.Fixed(5, time.Second), Shared: &discordsim.SharedLimit{Quota: discordsim.Fixed(3, 2*time.Second)},
		}})
		manager := buckets.NewRESTBucketManager()
		require.NoError(t, manager.Start())
		defer manager.Close()
		limiter := newDisgoLimiter(manager, token)
		c := newDisgo(rest.WithHTTPClient(&http.Client{Transport: d}), rest.WithRateLimiter(limiter))

		var all sync.WaitGroup
		for n := range 20 {
			all.Go(func() {
				if n%4 == 3 {
					_, _ = sendWith(t, c, rest.WithCtx(ends(t, time.Second))) // some of these are given up
					return
				}
				_, err := c.Send(channel, "hello")
				assert.NoError(t, err)
			})
		}
		// One endpoint for several calls at once.
		shared := rest.CreateMessage.Compile(nil, channel+1)
		for range 10 {
			all.Go(func() { assert.NoError(t, c.Do(shared, discord.MessageCreate{Content: "hello"}, nil)) })
		}
		all.Wait()
		assert.NotZero(t, d.server.Report().Refused.Shared)
		assert.Zero(t, d.server.Report().Avoidable.Total())
		assert.Empty(t, limiter.calls)
		stats := manager.Stats()
		assert.Zero(t, stats.Waiting)
		assert.Zero(t, stats.InFlight)
	})
}

// The response of a 429 is still there for disgo to read.
func TestDisgoLimiterLeavesTheBodyOfARefusal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newTestDiscord(t, slow)
		bot := discordsim.Request{Method: http.MethodPost, Path: path, Authorization: "Bot " + token}
		require.Equal(t, 1, d.server.Consume(bot, 1))
		manager := buckets.NewRESTBucketManager()
		require.NoError(t, manager.Start())
		defer manager.Close()
		c := newDisgo(rest.WithHTTPClient(&http.Client{Transport: d}), rest.WithRateLimiter(once{newDisgoLimiter(manager, token)}))
		_, err := c.Send(channel, "hello")
		e, ok := explain(err)
		require.True(t, ok, "%v", err)
		assert.Equal(t, http.StatusTooManyRequests, e.Status)
		assert.Equal(t, "You are being rate limited.", e.Message)
	})
}

// once is a limiter after whose first 429 disgo gives up.
type once struct{ *disgoLimiter }

func (once) MaxRetries() int { return 1 }
