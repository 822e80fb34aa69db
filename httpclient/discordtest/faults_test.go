package discordtest_test

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient/discordtest"
)

func TestHandlerAnswersWhatTheLimitsLetThrough(t *testing.T) {
	t.Parallel()
	var handled []string
	var server *discordtest.Server
	handler := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		handled = append(handled, r.URL.Path+" "+string(body))
		w.Header().Set("X-RateLimit-Remaining", "100")
		w.Header().Set("X-Seen", strings.Repeat("I", len(server.Requests())))
		w.WriteHeader(http.StatusCreated)
		io.WriteString(w, "made")
	}
	inBubble(t, func(t *testing.T, s *discordtest.Server) {
		server = s
		a := answered(t, s.Client(), http.MethodPost, base+messages, "hello")
		assert.Equal(t, []any{201, "made", "0", "I"},
			[]any{a.status, a.body, a.header.Get("X-RateLimit-Remaining"), a.header.Get("X-Seen")})
		assert.Equal(t, []int{429}, post(t, s.Client(), 1))
		assert.Equal(t, []string{"/api/v10" + messages + " hello"}, handled)
		assert.Equal(t, 201, s.Requests()[0].Status)
	}, discordtest.Window(create, 1, time.Second), discordtest.Handle(create, handler))
}

// tb is a testing.TB that records failures. Its Fatalf panics, because it must not return.
type tb struct {
	testing.TB
	mu       sync.Mutex
	failures []string
	cleanup  []func()
}

func (t *tb) Helper()          {}
func (t *tb) Cleanup(f func()) { t.cleanup = append(t.cleanup, f) }
func (t *tb) Fatalf(format string, arguments ...any) {
	t.Errorf(format, arguments...)
	panic(t)
}

// If a function of the test panics, net/http must not hide the panic: the test must fail. The server must continue to
// work.
func TestFunctionThatPanicsFailsTheTest(t *testing.T) {
	t.Parallel()
	fake := &tb{}
	server := discordtest.NewServer(fake,
		discordtest.Handle("GET /users/@me", func(http.ResponseWriter, *http.Request) { panic("oops") }),
		discordtest.Cut("GET /guilds/{id}").When(func(*http.Request) bool { panic("ouch") }),
		discordtest.Handle("GET /gateway", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	for _, path := range []string{"/users/@me", "/guilds/1", "/gateway"} {
		_, err := send(t, server.Client(), http.MethodGet, base+path, "")
		assert.ErrorIs(t, err, io.EOF)
	}
	assert.Equal(t, []int{200}, post(t, server.Client(), 1))
	require.Len(t, fake.cleanup, 1)
	fake.cleanup[0]()
	assert.Equal(t, []string{
		"discordtest: the function of Handle panicked at GET /api/v10/users/@me: oops",
		"discordtest: the function of When panicked at GET /api/v10/guilds/1: ouch",
	}, fake.failures)
}

// After a scripted 429, the server must refuse the same requests as Discord does after a 429 of that class. It must
// refuse them until the wait that the 429 asks for is over.
func TestScriptedRefusalHoldsWhatItIsAbout(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		class                                     discordtest.Class
		scope                                     string
		fields, channel, authorization, operation bool // whether other requests are also refused
	}{
		{class: discordtest.User, scope: "user", fields: true},
		{class: discordtest.SubLimit, scope: "user"},
		{class: discordtest.Shared, scope: "shared", fields: true, authorization: true},
		{class: discordtest.Global, scope: "global", fields: true, channel: true, operation: true},
		{class: discordtest.Edge, fields: true, channel: true, operation: true, authorization: true},
	} {
		t.Run(string(c.class), func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, server *discordtest.Server) {
				client := server.Client()
				a := answered(t, client, http.MethodPost, base+messages, `{"content":"hello"}`)
				assert.Equal(t, 429, a.status)
				assert.Equal(t, "2", a.header.Get("Retry-After"))
				assert.Equal(t, c.scope, a.header.Get("X-RateLimit-Scope"))
				assert.Equal(t, c.class == discordtest.Global, a.header.Get("X-RateLimit-Global") == "true")
				if c.class == discordtest.User {
					assert.Equal(t, "0", a.header.Get("X-RateLimit-Remaining"))
				}
				time.Sleep(time.Second)
				for _, other := range []struct {
					name, method, path, body, authorization string
					refused                                 bool
				}{
					{"the same", "POST", messages, `{"content":"again"}`, "Bot a", true},
					{"other fields", "POST", messages, `{"embeds":[]}`, "Bot a", c.fields},
					{"other channel", "POST", "/channels/2/messages", `{"content":"hello"}`, "Bot a", c.channel},
					{"other operation", "GET", messages, "", "Bot a", c.operation},
					{"other authorization", "POST", messages, `{"content":"hello"}`, "Bot b", c.authorization},
				} {
					a := answered(t, client, other.method, base+other.path, other.body, "Authorization", other.authorization)
					assert.Equal(t, other.refused, a.status == 429, other.name)
				}
				refused := server.Refused()
				assert.Equal(t, c.class, refused[0].Refused)
				assert.False(t, refused[0].Avoidable, refused[0].Because)
				assert.True(t, refused[1].Avoidable, refused[1].Because)
				time.Sleep(time.Second)
				assert.Equal(t, []int{200}, post(t, client, 1))
			}, discordtest.Refuse(create, c.class, 2*time.Second).Nth(1))
		})
	}
}

func TestSlowBody(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, server *discordtest.Server) {
		began := time.Now()
		response, err := server.Client().Get(base + "/users/@me")
		require.NoError(t, err)
		defer response.Body.Close()
		assert.Less(t, time.Since(began), time.Microsecond)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		assert.Equal(t, "{}", string(body))
		assert.Equal(t, time.Minute, time.Since(began).Truncate(time.Microsecond))
	}, discordtest.SlowBody("GET /users/@me", time.Minute))
}

// The function of When can read the body, and must be called only for the operation of its rule. Nth must count only
// the requests for which that function returns true.
func TestFaultsByFunction(t *testing.T) {
	t.Parallel()
	asked := 0
	long := func(r *http.Request) bool {
		asked++
		body, _ := io.ReadAll(r.Body)
		return len(body) > 10
	}
	inBubble(t, func(t *testing.T, server *discordtest.Server) {
		const on = "POST " + messages
		play(t, server, turn{on: "GET " + messages, want: "200"}, turn{on: on, body: "long enough", want: "200"},
			turn{on: on, body: "short", want: "200"}, turn{on: on, body: "long enough", want: "500 200"})
		assert.Equal(t, 4, asked)
	}, discordtest.Answer(create, 500, nil).When(long).Nth(2))
}
