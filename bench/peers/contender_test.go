package main

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/internal/discordsim"
)

const path = "/api/v10/channels/900000000000000000/messages"

// newDiscord returns a simulated Discord that is closed at the end of the test.
func newDiscord(t *testing.T, config discordsim.Config) *discordsim.Server {
	t.Helper()
	d, err := discordsim.New(config)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, d.Close()) })
	return d
}

// tenSeconds has a limit of five messages in ten seconds.
var tenSeconds = scenario{limits: messages(discordsim.Fixed(5, 10*time.Second))}

// Six messages are sent one after the other. The limit has room for five.
func TestEachContenderLimitsInItsOwnWay(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		refused int
		least   time.Duration // until the sixth message is accepted
		about   string
	}{
		"ratelight":   {0, 10 * time.Second, "waits for the window"},
		"discordgo":   {0, 10 * time.Second, "waits for the window"},
		"arikawa":     {0, 10*time.Second + 250*time.Millisecond, "waits for the window, and a bit"},
		"disgo":       {1, 9 * time.Second, "waits for whole seconds, cut off"},
		"rate-even":   {0, 10 * time.Second, "one every two seconds"},
		"rate-bursts": {1, 10 * time.Second, "has one more after two seconds"},
		"no-limiter":  {1, 10 * time.Second, "is told to wait"},
	} {
		by, err := find(name, contenders())
		require.NoError(t, err)
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDiscord(t, tenSeconds.config(0, 0))
				with, end := by[0].start(d.RoundTripper(), tenSeconds)
				defer end()
				start := time.Now()
				for n := range 6 {
					require.NoError(t, with(t.Context(), call{kind: send, channel: firstChannel, n: n}))
				}
				took := time.Since(start)
				assert.GreaterOrEqual(t, took, want.least, want.about)
				assert.Less(t, took, 13*time.Second)
				assert.Equal(t, discordsim.ByClass{User: want.refused}, d.Report().Refused, want.about)
			})
		})
	}
}

// Another client has used up the limit of the Discord channel. Every contender, with or without a limiter, must repeat
// a refused request.
func TestRefusedCallsAreRepeated(t *testing.T) {
	t.Parallel()
	for _, by := range limiters() {
		t.Run(by.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDiscord(t, tenSeconds.config(0, 0))
				bot := discordsim.Request{Method: http.MethodPost, Path: path, Authorization: "Bot " + token}
				require.Equal(t, 5, d.Consume(bot, 5))
				with, end := by.start(d.RoundTripper(), tenSeconds)
				defer end()
				require.NoError(t, with(t.Context(), call{kind: send, channel: firstChannel}))
				assert.Equal(t, discordsim.ByClass{User: 1}, d.Report().Refused)
			})
		})
	}
}

// The configured limiters keep one limit for each route and channel, and one for all requests.
func TestConfiguredLimitersCountByRouteAndChannelAndAll(t *testing.T) {
	t.Parallel()
	took := func(t *testing.T, calls ...call) (total time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			l := newConfigured(tenSeconds, bursts)
			start := time.Now()
			for _, c := range calls {
				require.NoError(t, l.wait(t.Context(), c))
			}
			total = time.Since(start)
		})
		return total
	}
	assert.Zero(t, took(t, repeated(1, 5, send, edit)...), "two routes")
	assert.Zero(t, took(t, repeated(10, 5, send)...), "as many calls as the global limit allows in a second")
	assert.InDelta(t, 20*time.Millisecond, took(t, repeated(51, 1, send)...), float64(time.Millisecond),
		"one call more")
	uploads := append(repeated(1, 5, send), repeated(1, 1, upload)...)
	assert.InDelta(t, 2*time.Second, took(t, uploads...), float64(time.Millisecond), "uploads are messages")
	assert.Zero(t, took(t, repeated(200, 1, reply)...), "no limit at all")
}
