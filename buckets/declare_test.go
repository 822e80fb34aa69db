package buckets_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

func TestALimitThatCannotBeDeclaredSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	ok := buckets.ForRoute(routes.CreateMessage)
	for name, c := range map[string]struct {
		options []buckets.Option
		want    []string // the lines of the error, after "bad options: "
	}{
		"limit of 0": {[]buckets.Option{buckets.WithLimit(ok, 0, time.Second)},
			[]string{"WithLimit(POST /channels/{channel_id}/messages 0 per 1s): a limit of 0: expected 1 to 1000000000"}},
		"limit below 0": {[]buckets.Option{buckets.WithLimit(ok, -3, time.Second, buckets.PerMajor())},
			[]string{"WithLimit(POST /channels/{channel_id}/messages -3 per 1s per major parameter): " +
				"a limit of -3: expected 1 to 1000000000"}},
		"limit above the maximum": {[]buckets.Option{buckets.WithLimit(ok, 1_000_000_001, time.Second, buckets.Named("n"))},
			[]string{"WithLimit(n): a limit of 1000000001: expected 1 to 1000000000"}},
		"period of 0": {[]buckets.Option{buckets.WithLimit(ok, 1, 0, buckets.Named("n"))},
			[]string{"WithLimit(n): a period of 0s: expected more than 0 and at most 24h0m0s"}},
		"period below 0": {[]buckets.Option{buckets.WithLimit(ok, 1, -time.Second, buckets.Named("n"))},
			[]string{"WithLimit(n): a period of -1s: expected more than 0 and at most 24h0m0s"}},
		"period of more than a day": {[]buckets.Option{buckets.WithLimit(ok, 1, 24*time.Hour+1, buckets.Named("n"))},
			[]string{"WithLimit(n): a period of 24h0m0.000000001s: expected more than 0 and at most 24h0m0s"}},
		"no function": {[]buckets.Option{buckets.WithLimit(ok, 1, time.Second, buckets.PerKey(nil))},
			[]string{"WithLimit(POST /channels/{channel_id}/messages 1 per 1s per key): PerKey(nil): expected a function"}},
		"no match": {[]buckets.Option{buckets.WithLimit(buckets.Match{}, 1, time.Second, buckets.Named("n"))},
			[]string{"WithLimit(n): an empty Match: expected one of ForRoute, ForPattern or ForAll"}},
		"no route": {[]buckets.Option{buckets.WithLimit(buckets.ForRoute(), 1, time.Second)},
			[]string{"WithLimit(ForRoute 1 per 1s): ForRoute has no route: expected one or more"}},
		"empty route": {[]buckets.Option{buckets.WithLimit(buckets.ForRoute(routes.GetGuild, routes.Route{}), 1, time.Second)},
			[]string{"WithLimit(ForRoute 1 per 1s): route 2 of 2 in ForRoute is empty: expected one of package routes"}},
		"two of one name": {[]buckets.Option{buckets.WithLimit(ok, 1, time.Second), buckets.WithLimit(ok, 1, time.Second)},
			[]string{"WithLimit(POST /channels/{channel_id}/messages 1 per 1s): " +
				"two limits have this name: give one another name with Named"}},
		"unknown known limit": {[]buckets.Option{buckets.WithKnownLimits(buckets.Crossposts, "names")},
			[]string{`WithKnownLimits("names"): expected some of channel-name-and-topic, reactions, ` +
				`old-message-edits, old-message-deletes, webhook-messages, webhook-creates, ` +
				`prunes, crossposts, invites, command-creates, lobbies, lobby-links`}},
		"a known limit twice": {[]buckets.Option{buckets.WithKnownLimits(buckets.Crossposts, buckets.Crossposts)},
			[]string{"WithLimit(crossposts): two limits have this name: give one another name with Named"}},
		"all at once": {[]buckets.Option{buckets.WithLimit(ok, 0, 0, buckets.Named("a")), nil, buckets.WithLimit(ok, 1, 1),
			buckets.WithLimit(ok, -1, 1, buckets.Named("b"))},
			[]string{"WithLimit(a): a limit of 0: expected 1 to 1000000000",
				"WithLimit(a): a period of 0s: expected more than 0 and at most 24h0m0s",
				"WithLimit(b): a limit of -1: expected 1 to 1000000000"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := ""
			for _, line := range c.want {
				want += "\nbad options: " + line
			}
			m := buckets.NewRESTBucketManager(c.options...)
			err := m.Start()
			require.ErrorIs(t, err, buckets.ErrOptions)
			assert.Equal(t, want[1:], err.Error())
			assert.False(t, m.IsAlive())
		})
	}
}

func TestAPatternThatMatchesNothingIsAnError(t *testing.T) {
	t.Parallel()
	const token = "MTk4NjIyNDgzNDcxOTI1MjQ4MTk4NjIyNDgzNDcxOTI1MjQ4"
	for _, c := range []struct{ method, pattern, named string }{
		{"GET", "/chanels/{channel_id}", `ForPattern("GET", "/chanels/{channel_id}")`},
		{"patch", "/gateway", `ForPattern("PATCH", "/gateway")`},
		{"FETCH", "/gateway", `ForPattern("FETCH", "/gateway")`},
		{"", "", `ForPattern("*", "")`},
		{"*", "gateway", `ForPattern("*", "gateway")`},
		{"*", "*", `ForPattern("*", "*")`},
		{"GET", "/gateway/", `ForPattern("GET", "/gateway/")`},
		{"GET", "/gateway/bot/*", `ForPattern("GET", "/gateway/bot/*")`},
		{"GET", "/api/v10/gateway", `ForPattern("GET", "/api/v10/gateway")`},
		{"GET", "/channels/1/messages", `ForPattern("GET", "/channels/1/messages")`},
		{"GET", "/channels/*/*/*/*/*/*/*/*", `ForPattern("GET", "/channels/*/*/*/*/*/*/*/*")`},
		{"POST", "https://discord.com/api/webhooks/1/" + token, `ForPattern("POST", "https://discord.com/api/webhooks/1/…")`},
		{"/webhooks/1/" + token, "POST", `ForPattern("/WEBHOOKS/1/…", "POST")`},
	} {
		match := buckets.ForPattern(c.method, c.pattern)
		err := buckets.NewRESTBucketManager(buckets.WithLimit(match, 1, time.Second)).Start()
		require.ErrorIs(t, err, buckets.ErrOptions, c.pattern)
		assert.Contains(t, err.Error(), "WithLimit("+c.named+" 1 per 1s): "+c.named+" matches no route: expected ")
		assert.NotContains(t, printed(match)+printed(err), token)
	}
}

// A caller that ignores Start's error must get the same error from its requests.
func TestAcquireTellsWhyTheManagerCouldNotStart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := buckets.NewRESTBucketManager(buckets.WithLimit(buckets.ForAll(), 0, time.Second))
		for range 2 {
			_, err := m.Acquire(background, message(1), bot)
			require.ErrorIs(t, err, buckets.ErrOptions)
			assert.ErrorContains(t, err, "a limit of 0")
			_, err = m.TryAcquire(message(1), bot)
			require.ErrorIs(t, err, buckets.ErrOptions)
			require.ErrorIs(t, m.Start(), buckets.ErrOptions)
		}
		m.UpdateRateLimits(message(1), bot, ratelimits.Response{Status: 200})
		require.NoError(t, m.Close())
		_, err := m.Acquire(background, message(1), bot)
		require.ErrorIs(t, err, buckets.ErrClosed)
	})
}

func TestContextsHaveAGroup(t *testing.T) {
	t.Parallel()
	ctx := background
	assert.Zero(t, buckets.OptionsOf(ctx))
	ctx = buckets.ContextWithPriority(buckets.ContextWithGroup(ctx, "guild"))
	assert.Equal(t, buckets.ContextOptions{Group: "guild", Priority: true}, buckets.OptionsOf(ctx))
	assert.True(t, buckets.OptionsOf(buckets.ContextWithOrdered(ctx)).Ordered)
	assert.Empty(t, buckets.OptionsOf(buckets.ContextWithGroup(ctx, "")).Group)
}
