package routes_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/routes"
)

// snowflake returns an id that Discord could create at the time at.
func snowflake(at time.Time) string {
	return strconv.FormatInt((at.UnixMilli()-1420070400000)<<22|0x3fffff, 10)
}

func TestDeleteMessageHasALaneForEachAge(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 4, 5, 6, 7, int(890*time.Millisecond), time.UTC)
	const day = 24 * time.Hour
	for _, c := range []struct {
		name string
		id   string
		want routes.Route
	}{
		{"from the future", snowflake(now.Add(time.Hour)), routes.DeleteYoungMessage},
		{"just sent", snowflake(now), routes.DeleteYoungMessage},
		{"almost 10 s", snowflake(now.Add(-10*time.Second + time.Millisecond)), routes.DeleteYoungMessage},
		{"10 s", snowflake(now.Add(-10 * time.Second)), routes.DeleteMessage},
		{"a day", snowflake(now.Add(-day)), routes.DeleteMessage},
		{"14 days", snowflake(now.Add(-14 * day)), routes.DeleteMessage},
		{"more than 14 days", snowflake(now.Add(-14*day - time.Millisecond)), routes.DeleteOldMessage},
		{"the documentation's example", "175928847299117063", routes.DeleteOldMessage},
		{"largest number", "18446744073709551615", routes.DeleteYoungMessage},
		{"too large", "18446744073709551616", routes.DeleteMessage},
		{"no number", "abc", routes.DeleteMessage},
		{"negative", "-1", routes.DeleteMessage},
		{"a word", "pins", routes.DeleteMessage},
	} {
		matched, err := routes.MatchAt("DELETE", "/channels/1/messages/"+c.id, now)
		require.NoError(t, err)
		assert.Equal(t, c.want, matched.Route(), "%s: got %s", c.name, matched.Route())
		compiled, err := routes.DeleteMessageAt("1", c.id, now)
		require.NoError(t, err)
		assert.Equal(t, matched, compiled, c.name)
		assert.Equal(t, "1", compiled.Major().ID, c.name)
	}
}

func TestMatchTakesTheAgeFromTheClock(t *testing.T) {
	t.Parallel()
	young := match(t, "DELETE", "/channels/1/messages/"+snowflake(time.Now()))
	assert.Equal(t, routes.DeleteYoungMessage, young.Route())
	old := match(t, "DELETE", "/channels/1/messages/"+snowflake(time.Now().AddDate(-1, 0, 0)))
	assert.Equal(t, routes.DeleteOldMessage, old.Route())
}

func TestCompiledDeleteStaysInTheLaneItWasCompiledFor(t *testing.T) {
	t.Parallel()
	id := snowflake(time.Now())
	for _, route := range []routes.Route{routes.DeleteMessage, routes.DeleteYoungMessage, routes.DeleteOldMessage} {
		assert.Equal(t, route, compile(t, route, "1", id).Route())
	}
	_, err := routes.DeleteMessageAt("1", "", time.Now())
	assert.ErrorContains(t, err, "message_id")
}

func TestOnlyMessagesOfChannelsHaveLanes(t *testing.T) {
	t.Parallel()
	id := snowflake(time.Now())
	assert.Equal(t, routes.DeleteWebhookMessage, match(t, "DELETE", "/webhooks/1/t/messages/"+id).Route())
	assert.Equal(t, routes.GetMessage, match(t, "GET", "/channels/1/messages/"+id).Route())
}
