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
	for _, c := range []struct {
		rules []discordtest.Rule
		says  string
	}{
		{[]discordtest.Rule{discordtest.Window(me, 0, time.Second)}, "discordtest.Window: a limit of 0 requests: want 1 or more"},
		{[]discordtest.Rule{discordtest.Sliding(me, -1, time.Second)}, "discordtest.Sliding: a limit of -1"},
		{[]discordtest.Rule{discordtest.Leaky(me, 1, 0)}, "discordtest.Leaky: a limit with a period of 0s"},
		{[]discordtest.Rule{window("POST /channels/{id}/mesages")}, `no operation "POST /channels/{id}/mesages" is documented`},
		{[]discordtest.Rule{window("POST /channels/{id}/messages/pinss")}, "is documented by Discord"},
		{[]discordtest.Rule{window("/channels/{id}/messages")}, "want a method and a path"},
		{[]discordtest.Rule{window("get /users/@me")}, "is not an operation"},
		{[]discordtest.Rule{window("GET users/@me")}, "is not an operation"},
		{[]discordtest.Rule{window("GET /api/v10/users/@me")}, "omit /api and the version"},
		{[]discordtest.Rule{window("creat_message")}, "no operation is named"},
		{[]discordtest.Rule{window("")}, "no operation is named"},
		{[]discordtest.Rule{window(me), window(me)}, "GET /users/@me has such a limit already"},
		{[]discordtest.Rule{window("create_message"), window(create)}, "POST /channels/{id}/messages has such a limit already"},
		{[]discordtest.Rule{window(create).Hidden(), window("POST /channels/1/messages")}, "put the wider rule after it"},
		{[]discordtest.Rule{window("GET /guilds/{id}/**"), window("GET /guilds/{guild_id}/roles")}, "put the wider rule after it"},
		{[]discordtest.Rule{window(me).Shared(), window(me).Shared()}, "has such a limit already"},
		{[]discordtest.Rule{window(me).Hidden(), window(me).Hidden()}, "has such a limit already"},
		{[]discordtest.Rule{window(me).Hidden().Shared()}, "cannot have a bucket name or be shared"},
		{[]discordtest.Rule{window(me).Hidden().Bucket("b")}, "cannot have a bucket name or be shared"},
		{[]discordtest.Rule{window(me).Bucket("b"), discordtest.Window("GET /gateway", 2, time.Second).Bucket("b")}, "different quotas"},
		{[]discordtest.Rule{window(me).Bucket("")}, "needs a name"},
		{[]discordtest.Rule{window(me).Nth(1)}, "Nth is for answers and faults"},
		{[]discordtest.Rule{discordtest.Unlimited(me).Hidden()}, "Hidden is for limits"},
		{[]discordtest.Rule{discordtest.Cut(me).Shared()}, "Shared is for limits"},
		{[]discordtest.Rule{discordtest.Cut(me).Bucket("b")}, "Bucket is for limits"},
		{[]discordtest.Rule{discordtest.Cut(me).Header("a", "b")}, "Header is for Answer, Handle and Refuse"},
		{[]discordtest.Rule{discordtest.Lose(me).Nth(0)}, "Nth counts from 1, not [0]"},
		{[]discordtest.Rule{discordtest.Lose(me).Nth()}, "Nth counts from 1"},
		{[]discordtest.Rule{discordtest.Lose(me).When(nil)}, "When needs a function"},
		{[]discordtest.Rule{discordtest.Answer(me, 0, nil)}, "discordtest.Answer: 0 is no status of an answer"},
		{[]discordtest.Rule{discordtest.Answer(me, 700, nil)}, "700 is no status"},
		{[]discordtest.Rule{discordtest.Answer(me, 429, nil)}, "use Refuse"},
		{[]discordtest.Rule{discordtest.Answer(me, 204, "x")}, "status 204 has no body"},
		{[]discordtest.Rule{discordtest.Answer(me, 200, func() {})}, "cannot be written as JSON"},
		{[]discordtest.Rule{discordtest.Handle(me, nil)}, "want a function"},
		{[]discordtest.Rule{discordtest.Refuse(me, "bucket", time.Second)}, `"bucket" is no class of a refusal`},
		{[]discordtest.Rule{discordtest.Refuse(me, discordtest.User, 0)}, "asks to wait for 0s"},
		{[]discordtest.Rule{discordtest.SlowBody(me, -1)}, "positive duration"},
		{[]discordtest.Rule{discordtest.Latency(-1)}, "zero or more"},
		{[]discordtest.Rule{discordtest.GlobalLimit(0)}, "discordtest.GlobalLimit: a limit of 0 requests"},
		{[]discordtest.Rule{discordtest.InvalidLimit(0, 1, 1)}, "a limit of 0"},
		{[]discordtest.Rule{discordtest.InvalidLimit(1, 0, 1)}, "positive durations"},
		{[]discordtest.Rule{discordtest.Discord().WebhooksIn("1")}, "WebhooksIn needs a channel and its webhooks"},
		{[]discordtest.Rule{window(me).WebhooksIn("1", "2")}, "WebhooksIn is for Discord"},
		{[]discordtest.Rule{discordtest.Discord().Hidden()}, "Hidden is for limits"},
		{[]discordtest.Rule{window(me).Punctual()}, "Punctual is for Discord"},
		{[]discordtest.Rule{discordtest.Unlimited(me).Late(0, 1)}, "Late is for limits"},
		{[]discordtest.Rule{window(me).Late(2, 1)}, "the larger one last, not 2ns and 1ns"},
		{[]discordtest.Rule{discordtest.Listen("8090")}, `discordtest.Listen: "8090" is no address`},
		{[]discordtest.Rule{discordtest.Listen("127.0.0.1:x")}, "discordtest: listen tcp"},
		{[]discordtest.Rule{{}}, "empty Rule"},
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

// If a name were not found, its rule would never apply and nobody would notice.
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
