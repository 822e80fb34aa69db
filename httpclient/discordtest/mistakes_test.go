package discordtest_test

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient/discordtest"
)

func (t *tb) Errorf(format string, arguments ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failures = append(t.failures, fmt.Sprintf(format, arguments...))
}

func TestMistakesFailTheTestAtOnce(t *testing.T) {
	t.Parallel()
	const me = "GET /users/@me"
	window := func(on string) discordtest.Rule { return discordtest.Window(on, 1, time.Second) }
	list := func(rules ...discordtest.Rule) []discordtest.Rule { return rules }
	for _, c := range []struct {
		rules []discordtest.Rule
		says  string
	}{
		{list(discordtest.Window(me, 0, time.Second)), "discordtest.Window: a limit of 0 requests: want 1 or more"},
		{list(discordtest.Sliding(me, -1, time.Second)), "discordtest.Sliding: a limit of -1"},
		{list(discordtest.Leaky(me, 1, 0)), "discordtest.Leaky: a limit with a period of 0s"},
		{list(window("POST /channels/{id}/mesages")), `no operation "POST /channels/{id}/mesages" is documented`},
		{list(window("POST /channels/{id}/messages/pinss")), "is documented by Discord"},
		{list(window("/channels/{id}/messages")), "want a method and a path"},
		{list(window("get /users/@me")), "is not an operation"},
		{list(window("GET users/@me")), "is not an operation"},
		{list(window("GET /api/v10/users/@me")), "omit /api and the version"},
		{list(window("creat_message")), "no operation is named"},
		{list(window("")), "no operation is named"},
		{list(window(me), window(me)), "GET /users/@me has such a limit already"},
		{list(window("create_message"), window(create)), "POST /channels/{id}/messages has such a limit already"},
		{list(window(create).Hidden(), window("POST /channels/1/messages")), "put the wider rule after it"},
		{list(window("GET /guilds/{id}/**"), window("GET /guilds/{guild_id}/roles")), "put the wider rule after it"},
		{list(window(me).Shared(), window(me).Shared()), "has such a limit already"},
		{list(window(me).Hidden(), window(me).Hidden()), "has such a limit already"},
		{list(window(me).Hidden().Shared()), "cannot have a bucket name or be shared"},
		{list(window(me).Hidden().Bucket("b")), "cannot have a bucket name or be shared"},
		{list(window(me).Bucket("b"), discordtest.Window("GET /gateway", 2, time.Second).Bucket("b")), "different quotas"},
		{list(window(me).Bucket("")), "needs a name"},
		{list(window(me).Nth(1)), "Nth is for answers and faults"},
		{list(discordtest.Unlimited(me).Hidden()), "Hidden is for limits"},
		{list(discordtest.Cut(me).Shared()), "Shared is for limits"},
		{list(discordtest.Cut(me).Bucket("b")), "Bucket is for limits"},
		{list(discordtest.Cut(me).Header("a", "b")), "Header is for Answer, Handle and Refuse"},
		{list(discordtest.Lose(me).Nth(0)), "Nth counts from 1, not [0]"},
		{list(discordtest.Lose(me).Nth()), "Nth counts from 1"},
		{list(discordtest.Lose(me).When(nil)), "When needs a function"},
		{list(discordtest.Answer(me, 0, nil)), "discordtest.Answer: 0 is no status of an answer"},
		{list(discordtest.Answer(me, 700, nil)), "700 is no status"},
		{list(discordtest.Answer(me, 429, nil)), "use Refuse"},
		{list(discordtest.Answer(me, 204, "x")), "status 204 has no body"},
		{list(discordtest.Answer(me, 200, func() {})), "cannot be written as JSON"},
		{list(discordtest.Handle(me, nil)), "want a function"},
		{list(discordtest.Refuse(me, "bucket", time.Second)), `"bucket" is no class of a refusal`},
		{list(discordtest.Refuse(me, discordtest.User, 0)), "asks to wait for 0s"},
		{list(discordtest.SlowBody(me, -1)), "positive duration"},
		{list(discordtest.Latency(-1)), "zero or more"},
		{list(discordtest.GlobalLimit(0)), "discordtest.GlobalLimit: a limit of 0 requests"},
		{list(discordtest.InvalidLimit(0, 1, 1)), "a limit of 0"},
		{list(discordtest.InvalidLimit(1, 0, 1)), "positive durations"},
		{list(discordtest.Discord().WebhooksIn("1")), "WebhooksIn needs a channel and its webhooks"},
		{list(window(me).WebhooksIn("1", "2")), "WebhooksIn is for Discord"},
		{list(discordtest.Discord().Hidden()), "Hidden is for limits"},
		{list(window(me).Punctual()), "Punctual is for Discord"},
		{list(discordtest.Unlimited(me).Late(0, 1)), "Late is for limits"},
		{list(window(me).Late(2, 1)), "the larger one last, not 2ns and 1ns"},
		{list(discordtest.Listen("8090")), `discordtest.Listen: "8090" is no address`},
		{list(discordtest.Listen("127.0.0.1:x")), "discordtest: listen tcp"},
		{list(discordtest.Rule{}), "empty Rule"},
	} {
		fake := &tb{}
		assert.PanicsWithValue(t, fake, func() { discordtest.NewServer(fake, c.rules...) }, c.says)
		require.Len(t, fake.failures, 1)
		assert.Contains(t, fake.failures[0], c.says)
		assert.Empty(t, fake.cleanup)
		assert.Panics(t, func() { discordtest.NewServer(nil, c.rules...) })
	}
}

func TestOperationsMayBeNamedInManyWays(t *testing.T) {
	t.Parallel()
	for _, on := range []string{
		"*", "create_message", "POST /channels/{id}/messages", "POST /channels/{channel_id}/messages",
		"POST /channels/12/messages",
		"POST /webhooks/{id}/{token}", "POST /webhooks/1/secret", "GET /guilds/{id}/experiments/**",
		"PATCH /webhooks/{id}/{token}/messages/@original",
		"PUT /channels/{id}/messages/{id}/reactions/{emoji}/@me",
	} {
		discordtest.NewServer(t, discordtest.Window(on, 1, time.Second), discordtest.Cut(on))
	}
}

// Each operation must be found by its name. Otherwise a rule for that operation would never apply, and nobody would
// notice.
func TestEveryOperationIsFoundByItsName(t *testing.T) {
	t.Parallel()
	list, err := os.ReadFile("operations.txt")
	require.NoError(t, err)
	value := regexp.MustCompile(`\{[^}]*\}`)
	for line := range strings.Lines(string(list)) {
		operation := strings.Fields(line)
		path := value.ReplaceAllStringFunc(operation[1], func(name string) string {
			switch {
			case name == "{instance_id}":
				return "i-12-gc-3-4"
			case strings.Contains(name, "_id"):
				return "12"
			}
			return "abc"
		})
		inBubble(t, func(t *testing.T, server *discordtest.Server) {
			assert.Equal(t, http.StatusTeapot, answered(t, server.Client(), operation[0], base+path, "").status, line)
		}, discordtest.Answer(operation[2], http.StatusTeapot, nil))
	}
}
