package discordtest_test

import (
	"cmp"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/httpclient/discordtest"
)

// inBubble runs f in a bubble with a new server.
func inBubble(t *testing.T, f func(t *testing.T, server *discordtest.Server), rules ...discordtest.Rule) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, discordtest.NewServer(t, rules...)) })
}

// turn describes some equal requests, which are sent one after the other.
type turn struct {
	after  time.Duration // pause before the first request
	on     string        // method and path
	body   string
	by     string            // authorization; "": the usual one; nobody: none
	want   string            // the outcomes of all requests, see outcome
	header map[string]string // in the last answer
	says   string            // body of the last answer; "": not checked
}

const nobody = "nobody"

// play sends the requests of some turns.
func play(t *testing.T, server *discordtest.Server, turns ...turn) {
	t.Helper()
	for _, turn := range turns {
		time.Sleep(turn.after)
		method, path, _ := strings.Cut(turn.on, " ")
		authorization := cmp.Or(turn.by, "Bot a")
		if turn.by == nobody {
			authorization = ""
		}
		var last answer
		var got []string
		for range strings.Fields(turn.want) {
			a, err := send(t, server.Client(), method, base+path, turn.body, "Authorization", authorization)
			if err != nil {
				assert.ErrorIs(t, err, io.EOF, turn.on)
			}
			last = a
			got = append(got, outcome(server, err))
		}
		assert.Equal(t, turn.want, strings.Join(got, " "), turn.on)
		for name, value := range turn.header {
			assert.Equal(t, value, last.header.Get(name), "%s: %s", turn.on, name)
		}
		if turn.says != "" {
			assert.Equal(t, turn.says, last.body, turn.on)
		}
	}
}

// outcome returns the status of the last request, or the class of its refusal, followed by "!" if the refusal was
// avoidable. If the client got no answer, the outcome begins with "lost".
func outcome(server *discordtest.Server, err error) (word string) {
	requests := server.Requests()
	last := requests[len(requests)-1]
	word = cmp.Or(string(last.Refused), strconv.Itoa(last.Status))
	if last.Avoidable {
		word += "!"
	}
	if err != nil {
		word = "lost" + word
	}
	return word
}

func TestLimitsAndFaults(t *testing.T) {
	t.Parallel()
	const (
		message, history, guild = "POST /channels/1/messages", "GET /channels/1/messages", "GET /guilds/7"
		me, gateway             = "GET /users/@me", "GET /gateway"
		edit, callback          = "PATCH /channels/1", "POST /interactions/1/token/callback"
		reaction                = "/channels/1/messages/2/reactions/%F0%9F%91%8D/@me"
		second                  = time.Second
	)
	none := map[string]string{"X-RateLimit-Limit": "", "X-RateLimit-Bucket": ""}
	left := func(n string) map[string]string { return map[string]string{"X-RateLimit-Remaining": n} }
	forbidden := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }
	banned := []turn{
		{on: me, want: "401 401 401"}, {on: message, by: "Bot b", want: "edge"},
		{after: time.Minute, on: message, want: "200"},
	}
	bannedByHandler := slices.Clone(banned)
	bannedByHandler[0].want = "403 403 403"
	abort := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	ban := discordtest.InvalidLimit(3, time.Minute, time.Minute)
	for _, c := range []struct {
		name  string
		rules []discordtest.Rule
		turns []turn
	}{
		{"without any rule", nil, []turn{
			{on: message, want: "200 200 200 200 200 user!"}, {on: guild, want: "200 200 200 200 200 user!"},
			{on: callback, body: "{}", want: "200 200 200 200 200 200", header: none},
			{on: "PUT " + reaction, want: "200"}, {on: "DELETE " + reaction, want: "user"}, // counted together
			{on: edit, body: `{"name":"a"}`, want: "200"}, {on: edit, body: `{"topic":"b"}`, want: "200"},
			{on: edit, body: `{"nsfw":true}`, want: "200"},
			{on: edit, body: `{"name":"c"}`, want: "sub-limit", header: left("1")},
		}},

		// The kind of a limit decides when requests no longer count: all at the same time, each request one period after it
		// was sent, or one after the other at a steady rate.
		{"window", []discordtest.Rule{discordtest.Window(create, 2, second)}, []turn{
			{on: message, want: "200"}, {after: second / 2, on: message, want: "200 user!"},
			{after: second / 2, on: message, want: "200 200 user!"},
		}},
		{"sliding", []discordtest.Rule{discordtest.Sliding(create, 2, second)}, []turn{
			{on: message, want: "200"}, {after: second / 2, on: message, want: "200 user!"},
			{after: second / 2, on: message, want: "200 user!"},
		}},
		{"leaky", []discordtest.Rule{discordtest.Leaky(create, 2, 2*second)}, []turn{
			{on: message, want: "200"}, {after: second / 2, on: message, want: "200 user!"},
			{after: second / 2, on: message, want: "200 user!"},
		}},

		// The first rule that matches a request applies, so channel 9 allows three messages.
		{"by major parameter and authorization", []discordtest.Rule{
			discordtest.Window("POST /channels/9/messages", 3, second), discordtest.Window("create_message", 1, second),
		}, []turn{
			{on: message, want: "200 user!"}, {on: message, by: "Bot b", want: "200"},
			{on: "POST /channels/2/messages", want: "200"}, {on: "POST /channels/9/messages", want: "200 200 200 user!"},
		}},
		// A rule for "*" limits each operation without a rule of its own separately, whatever the order of the rules.
		{"of everything", []discordtest.Rule{
			discordtest.Window("*", 1, time.Minute), discordtest.Window(create, 2, time.Minute),
		}, []turn{{on: message, want: "200 200 user!"}, {on: guild, want: "200 user!"}, {on: history, want: "200"}}},
		{"hidden, in no header", []discordtest.Rule{ // no header announces the first refusal
			discordtest.Unlimited("GET /guilds/{id}"), discordtest.Window("GET /guilds/{id}", 1, time.Minute).Hidden(),
		}, []turn{
			{on: guild, want: "200 sub-limit", header: none},
			{on: guild, want: "sub-limit!", header: map[string]string{"Retry-After": "60"}},
		}},
		{"hidden, on top of the ordinary one", []discordtest.Rule{
			discordtest.Window(create, 2, time.Minute).Hidden(),
		}, []turn{
			{on: message, want: "200 200 sub-limit"}, {on: history, want: "200", header: left("4")},
			{after: time.Minute, on: message, want: "200"},
		}},
		// A shared limit of all requests applies in addition to all other limits, including hidden ones. The two accepted
		// edits also count against it.
		{"on top of all operations", []discordtest.Rule{discordtest.Window("*", 4, time.Minute).Shared()}, []turn{
			{on: edit, body: `{"name":"a"}`, want: "200 200 sub-limit"}, {on: message, want: "200 200 shared"},
		}},
		{"shared by everybody", []discordtest.Rule{
			discordtest.Window(create, 3, time.Minute).Shared(), discordtest.Window(create, 10, second),
		}, []turn{{on: message, want: "200 200"}, {on: message, by: "Bot b", want: "200 shared"}}},
		{"a bucket of two operations", []discordtest.Rule{
			discordtest.Window(create, 2, second).Bucket("both"), discordtest.Window("list_messages", 2, second).Bucket("both"),
		}, []turn{
			{on: message, want: "200", header: map[string]string{"X-RateLimit-Bucket": "both"}},
			{on: history, want: "200", header: map[string]string{"X-RateLimit-Bucket": "both", "X-RateLimit-Remaining": "0"}},
		}},
		{"global, of the authorization", []discordtest.Rule{discordtest.GlobalLimit(3), discordtest.Unlimited("*")}, []turn{
			{on: message, want: "200 200 200 global!"}, {on: message, by: "Bot b", want: "200"},
		}},
		// Invalid responses must count, whether an Answer or a handler gives them.
		{"of invalid answers", []discordtest.Rule{discordtest.Answer(me, 401, nil), ban}, banned},
		{"of a handler's invalid answers", []discordtest.Rule{discordtest.Handle(me, forbidden), ban},
			bannedByHandler},
		// The 429s of an operation without a limit name no bucket. The first one must still count as a warning, so that the
		// next ones are avoidable.
		{"scripted, without any limit", []discordtest.Rule{
			discordtest.Unlimited(create), discordtest.Refuse(create, discordtest.User, time.Minute).Nth(1),
		}, []turn{{on: message, want: "user user! user!"}}},
		{"scripted, a later refusal does not shorten an earlier one", []discordtest.Rule{
			discordtest.Refuse(create, discordtest.Shared, 10*second).Nth(1),
			discordtest.Refuse(create, discordtest.Shared, second).Nth(2),
		}, []turn{
			{on: message, want: "shared shared!"}, {after: 9 * second, on: message, want: "shared!"},
			{after: second, on: message, want: "200"},
		}},
		{"of Discord's webhooks, by token", []discordtest.Rule{discordtest.Discord()}, []turn{
			{on: "GET /webhooks/1/secret", want: "200", header: left("4")},
			{on: "GET /webhooks/1/secret", by: nobody, want: "200", header: left("3")},
			{on: "GET /webhooks/1/secret", by: "Bot b", want: "200", header: left("2")},
			{on: "GET /webhooks/1/other", by: nobody, want: "200", header: left("4")},
		}},
		// An ordinary limit of the caller replaces the limit of the preset. A shared limit applies in addition to the limit
		// of the preset.
		{"instead of Discord's", []discordtest.Rule{
			discordtest.Window(create, 2, second), discordtest.Discord(), discordtest.Answer(me, 404, nil),
			discordtest.Window("GET /guilds/{id}/roles", 3, second).Shared(),
		}, []turn{
			{on: message, want: "200 200 user!"}, {on: me, want: "404"},
			{on: "GET /guilds/1/roles", want: "200 200 200 shared", header: map[string]string{"X-RateLimit-Limit": "1000"}},
		}},

		// A request with an Answer is counted like any other request.
		{"answers", []discordtest.Rule{
			discordtest.Answer("get_my_user", 404, map[string]int{"code": 10013}).Nth(1),
			discordtest.Answer("get_my_user", 200, "plain").Header("content-type", "text/plain"),
			discordtest.Answer(gateway, 502, nil),
			discordtest.Answer("GET /gateway/bot", 200, "").Header("X-RateLimit-Remaining", "NaN"),
		}, []turn{
			{on: me, want: "404", says: `{"code":10013}`, header: left("4")},
			{on: me, want: "200", says: "plain", header: map[string]string{"Content-Type": "text/plain"}},
			{on: gateway, want: "502", header: none},
			{on: "GET /gateway/bot", want: "200",
				header: map[string]string{"X-RateLimit-Remaining": "NaN", "Content-Length": "0"}},
		}},
		{"the first answer that applies", []discordtest.Rule{
			discordtest.Window("*", 1, time.Minute),
			discordtest.Answer(me, 200, "first").Header("X-First", "1"),
			discordtest.Answer(me, 200, "second").Header("X-Second", "2"),
		}, []turn{
			{on: me, want: "200", says: "first", header: map[string]string{"X-First": "1", "X-Second": ""}},
			{on: me, want: "user!", header: map[string]string{"X-First": ""}},
		}},
		// The server's client opens a connection for each request. On a reused connection, net/http would repeat a request
		// whose connection breaks, and the test would see no error. Only one of the two failed requests is counted.
		{"broken connections", []discordtest.Rule{discordtest.Cut(me).Nth(2), discordtest.Lose(me).Nth(3)}, []turn{
			{on: me, want: "200", header: left("4")}, {on: me, want: "lost0 lost200"}, {on: me, want: "200", header: left("2")},
		}},
		// A request whose connection a handler cuts off is counted, but the client does not know that it was counted.
		{"a connection that a handler cuts", []discordtest.Rule{
			discordtest.Window(create, 1, time.Hour), discordtest.Handle(create, abort),
		}, []turn{{on: message, want: "lost0 user"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, server *discordtest.Server) { play(t, server, c.turns...) }, c.rules...)
		})
	}
}

// A hidden or shared limit does not replace the ordinary limit of an operation. The ordinary limit is that of the next
// rule that names the operation. Without such a rule, it is the default.
func TestOrdinaryLimitBelowOthers(t *testing.T) {
	t.Parallel()
	const callback = "POST /interactions/{id}/{token}/callback"
	hidden := func(on string) discordtest.Rule { return discordtest.Window(on, 100, time.Hour).Hidden() }
	shared := func(on string) discordtest.Rule { return discordtest.Window(on, 100, time.Hour).Shared() }
	for _, c := range []struct {
		name, operation, limit, after string
		rules                         []discordtest.Rule
	}{
		{"usual", create, "5", "5.000", []discordtest.Rule{hidden(create)}},
		{"usual, for one channel", create, "5", "5.000", []discordtest.Rule{shared("POST /channels/1/messages")}},
		{"usual, below all", create, "5", "5.000", []discordtest.Rule{hidden("*"), shared("*")}},
		{"none", callback, "", "", []discordtest.Rule{shared(callback)}},
		{"none, below all", callback, "", "", []discordtest.Rule{hidden("*")}},
		{"of all", create, "7", "60.000", []discordtest.Rule{discordtest.Window("*", 7, time.Minute), hidden(create)}},
		{
			"of the template", create, "7", "60.000",
			[]discordtest.Rule{hidden("POST /channels/1/messages"), discordtest.Window(create, 7, time.Minute)},
		},
		{
			"of the same by another name", create, "7", "60.000",
			[]discordtest.Rule{hidden("create_message"), discordtest.Window(create, 7, time.Minute)},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, server *discordtest.Server) {
				path := strings.NewReplacer("{id}", "1", "{token}", "token").Replace(strings.TrimPrefix(c.operation, "POST "))
				a := answered(t, server.Client(), http.MethodPost, base+path, "{}")
				assert.Equal(t, []string{c.limit, c.after},
					[]string{a.header.Get("X-RateLimit-Limit"), a.header.Get("X-RateLimit-Reset-After")})
			}, c.rules...)
		})
	}
}
