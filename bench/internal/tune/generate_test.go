package tune

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/routes"
)

func TestTrafficIsWhatWasAskedFor(t *testing.T) {
	t.Parallel()
	load := generate(t, Traffic{
		Requests: 10_000, Length: time.Hour, Channels: 50, Skew: 1, Burst: 30, BurstEvery: 7 * time.Minute, Mix: messages, Seed: 1,
	})
	assert.Equal(t, 8, load.Bursts, "at 7, 14, … 56 minutes")
	assert.Equal(t, 10_000+8*30, load.Requests())
	assert.Equal(t, time.Hour, load.Length)
	assert.Equal(t, 1, load.Routes())
	assert.Equal(t, 50, load.Queues())

	last, bursts := time.Duration(0), make(map[time.Duration]map[int]int)
	for _, a := range load.arrivals {
		assert.GreaterOrEqual(t, a.at, last)
		assert.Less(t, a.at, time.Hour)
		last = a.at
		if a.at%(7*time.Minute) == 0 && a.at > 0 {
			if bursts[a.at] == nil {
				bursts[a.at] = make(map[int]int)
			}
			bursts[a.at][a.queue]++
		}
	}
	assert.Len(t, bursts, 8)
	for at, channels := range bursts {
		assert.Len(t, channels, 1, "%v: for one channel", at)
		for _, n := range channels {
			assert.Equal(t, 30, n)
		}
	}
}

func TestNoBurstWithoutBursts(t *testing.T) {
	t.Parallel()
	traffic := Traffic{Requests: 10, Length: time.Hour, Channels: 1, Burst: 30, BurstEvery: time.Hour, Mix: messages}
	assert.Zero(t, generate(t, traffic).Bursts, "it would be at the end")
	traffic.BurstEvery = 0
	assert.Zero(t, generate(t, traffic).Bursts)
	traffic.Burst, traffic.BurstEvery = 0, time.Minute
	assert.Zero(t, generate(t, traffic).Bursts)
}

func TestPopularityIsSkewed(t *testing.T) {
	t.Parallel()
	share := func(skew float64) (first, second float64) {
		load := generate(t, Traffic{Requests: 20_000, Length: time.Hour, Channels: 3, Skew: skew, Mix: messages, Seed: 1})
		for _, q := range load.queues {
			switch q.name {
			case "POST /channels/{channel_id}/messages of channel 900000000000000000":
				first = float64(q.requests) / 20_000
			case "POST /channels/{channel_id}/messages of channel 900000000000000001":
				second = float64(q.requests) / 20_000
			}
		}
		return first, second
	}
	first, second := share(0)
	assert.InDelta(t, 1.0/3, first, 0.02)
	assert.InDelta(t, 1.0/3, second, 0.02)
	first, second = share(1) // 1, 1/2, 1/3
	assert.InDelta(t, 6.0/11, first, 0.02)
	assert.InDelta(t, 3.0/11, second, 0.02)
}

func TestMixIsByWeight(t *testing.T) {
	t.Parallel()
	load := generate(t, Traffic{Requests: 8000, Length: time.Hour, Channels: 1, Seed: 1, Mix: []Share{
		{routes.CreateMessage, 3}, {routes.ListMessages, 0.75}, {routes.ListGuildEmojis, 0.25},
	}})
	got := make(map[string]int)
	for _, q := range load.queues {
		got[q.name] = q.requests
	}
	assert.Len(t, got, 3)
	assert.InDelta(t, 6000, got["POST /channels/{channel_id}/messages of channel 900000000000000000"], 200)
	assert.InDelta(t, 1500, got["GET /channels/{channel_id}/messages of channel 900000000000000000"], 200)
	assert.InDelta(t, 500, got["GET /guilds/{guild_id}/emojis of guild 900000000000000000"], 200)
}

func TestRoutesOfAllShapesCanBeRequested(t *testing.T) {
	t.Parallel()
	for _, route := range []routes.Route{routes.GetGateway, routes.GetUser, routes.ExecuteWebhook, routes.CreateMessage} {
		compiled, err := compile(route, 5)
		require.NoError(t, err, route)
		assert.Equal(t, route, compiled.Route())
	}
}
