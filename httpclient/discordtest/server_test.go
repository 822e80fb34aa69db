package discordtest_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/discordtest"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // the tests cause warnings on purpose
	goleak.VerifyTestMain(m)
}

const (
	base     = "https://discord.com/api/v10"
	messages = "/channels/1/messages"
	create   = "POST /channels/{id}/messages"
)

// answer is a response as a client sees it.
type answer struct {
	status int
	header http.Header
	body   string
}

// send sends a request with a bot's Authorization.
func send(t testing.TB, client *http.Client, method, url, body string, header ...string) (answer, error) {
	t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bot a")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := client.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header, string(content)}, err
}

// answered sends a request and requires a response.
func answered(t testing.TB, client *http.Client, method, url, body string, header ...string) answer {
	t.Helper()
	a, err := send(t, client, method, url, body, header...)
	require.NoError(t, err)
	return a
}

func get(t testing.TB, client *http.Client, path string) answer {
	t.Helper()
	return answered(t, client, http.MethodGet, base+path, "")
}

// post sends n messages, one after the other, and returns their statuses.
func post(t testing.TB, client *http.Client, n int, header ...string) (statuses []int) {
	t.Helper()
	for range n {
		a := answered(t, client, http.MethodPost, base+messages, `{"content":"hello"}`, header...)
		statuses = append(statuses, a.status)
	}
	return statuses
}

func TestServerListensWhereItIsTold(t *testing.T) {
	t.Parallel()
	first := discordtest.NewServer(t)
	first.Close()
	address := strings.TrimPrefix(first.URL, "http://")
	second := discordtest.NewServer(t, discordtest.Listen(address))
	assert.Equal(t, "http://"+address, second.URL)
	assert.Equal(t, 200, get(t, second.Client(), "/users/@me").status)
	fake := &tb{}
	assert.Panics(t, func() { discordtest.NewServer(fake, discordtest.Listen(address)) }, "the port is in use")
	inBubble(t, func(t *testing.T, server *discordtest.Server) {
		assert.Equal(t, "http://discord.com", server.URL)
	}, discordtest.Listen(address))
}

// The client that Client returns and a program with the base URL of the server must reach the same server.
func TestServerIsReachedOverLoopback(t *testing.T) {
	t.Parallel()
	server := discordtest.NewServer(t, discordtest.Answer("GET /users/@me", 200, map[string]string{"id": "42"}))
	assert.True(t, strings.HasPrefix(server.URL, "http://127.0.0.1:"), server.URL)
	a := answered(t, http.DefaultClient, http.MethodGet, server.URL+"/api/v10/users/@me", "")
	assert.Equal(t, `{"id":"42"}`, a.body)
	for _, url := range []string{
		base + "/users/@me", "http://discord.com/api/users/@me", "https://canary.discord.com/api/v10/users/@me",
		server.URL + "/users/@me",
	} {
		a = answered(t, server.Client(), http.MethodGet, url, "")
		assert.Equal(t, `{"id":"42"}`, a.body, url)
		assert.Equal(t, "application/json", a.header.Get("Content-Type"))
	}
	assert.Len(t, server.Requests(), 5)
	http.DefaultClient.CloseIdleConnections()
}

// The server's client must not reach the network by accident.
func TestClientReachesNobodyElse(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	server := discordtest.NewServer(t)
	for _, url := range []string{
		"https://example.com/", "http://notdiscord.com/", "https://cdn.discordapp.com/attachments/1/2/a.png",
		strings.Replace(other.URL, "127.0.0.1", "localhost", 1),
	} {
		_, err := send(t, server.Client(), http.MethodGet, url, "")
		assert.ErrorContains(t, err, "not a host of Discord's API", url)
	}
	assert.Empty(t, server.Requests())
}

// In a bubble, hours take no time, and the server opens no socket.
func TestServerLivesInTheTimeOfABubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := discordtest.NewServer(t,
			discordtest.Window(create, 2, time.Hour),
			discordtest.Latency(100*time.Millisecond),
			discordtest.Handle("GET /users/@me", func(w http.ResponseWriter, _ *http.Request) {
				time.Sleep(10 * time.Minute)
				w.WriteHeader(http.StatusNoContent)
			}))
		began := time.Now()
		assert.Equal(t, []int{200, 200, 429}, post(t, server.Client(), 3))
		assert.Equal(t, 300*time.Millisecond, time.Since(began).Truncate(time.Microsecond))
		assert.Equal(t, http.StatusNoContent,
			answered(t, server.Client(), http.MethodGet, server.URL+"/api/v10/users/@me", "").status)
		assert.Equal(t, 10*time.Minute+400*time.Millisecond, time.Since(began).Truncate(time.Microsecond))
		time.Sleep(time.Hour)
		assert.Equal(t, []int{200}, post(t, server.Client(), 1))
		assert.Equal(t, began.Add(50*time.Millisecond), server.Requests()[0].Time)
	})
}

// In virtual time, a 429 must not arrive at the same instant as a response after which the client sends a request.
// Otherwise it would not be clear whether the client had read the 429 before it sent.
func TestManyRequestsAtOnceAvoidEverythingAvoidable(t *testing.T) {
	t.Parallel()
	for _, latency := range []time.Duration{0, 100 * time.Millisecond} {
		for nth := range 12 {
			inBubble(t, func(t *testing.T, server *discordtest.Server) {
				transport := httpclient.NewTransport(httpclient.WithBase(server.Client().Transport))
				defer transport.Close()
				client := &http.Client{Transport: transport}
				var all sync.WaitGroup
				for i := range 30 {
					all.Go(func() {
						path := []string{messages, "/channels/2/messages"}[i%2]
						_, err := send(t, client, http.MethodPost, base+path, "{}")
						assert.NoError(t, err)
					})
				}
				all.Wait()
				assert.Len(t, server.Requests(), 30+len(server.Refused()))
				assert.NotEmpty(t, server.Refused())
				assert.Empty(t, server.Avoidable())
			},
				discordtest.Latency(latency), discordtest.Sliding(create, 5, 5*time.Second),
				discordtest.Window(create, 7, 10*time.Second).Shared(),
				discordtest.Refuse(create, discordtest.User, 2*time.Second).Nth(nth+1))
		}
	}
}

func TestRequestsTellWhatWasSeen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := discordtest.NewServer(t, discordtest.Window(create, 1, time.Second))
		_, err := send(t, server.Client(), http.MethodPost, base+messages+"?wait=true", `{"content":"hello"}`, "X-Mine",
			"yes")
		require.NoError(t, err)
		post(t, server.Client(), 1)
		seen := server.Requests()
		require.Len(t, seen, 2)
		first, second := seen[0], seen[1]
		assert.Equal(t, []string{"POST", "/api/v10/channels/1/messages", "wait=true", create},
			[]string{first.Method, first.Path, first.Query, first.Operation})
		assert.Equal(t, "yes", first.Header.Get("X-Mine"))
		assert.Empty(t, first.Header.Get("Connection"))
		assert.JSONEq(t, `{"content":"hello"}`, string(first.Body))
		assert.Equal(t, 200, first.Status)
		assert.Empty(t, first.Refused)
		assert.Equal(t, create+": 200", first.String())
		assert.Equal(t, discordtest.User, second.Refused)
		assert.True(t, second.Avoidable)
		assert.Equal(t, create+": 429 (user limit, avoidable: the client had been told to wait)", second.String())
		assert.Equal(t, seen[1:], server.Refused())
		assert.Equal(t, seen[1:], server.Avoidable())
	})
}

func TestWhatWasSeenStaysReadableAfterClose(t *testing.T) {
	t.Parallel()
	server := discordtest.NewServer(nil)
	client := server.Client()
	assert.Equal(t, []int{200}, post(t, client, 1))
	server.Close()
	server.Close()
	assert.Len(t, server.Requests(), 1)
	_, err := send(t, client, http.MethodGet, base+"/users/@me", "")
	assert.Error(t, err)
}

func TestAnAnswerWithoutContentIsNotSaidToBeJSON(t *testing.T) {
	t.Parallel()
	server := discordtest.NewServer(t, discordtest.Answer("DELETE /channels/{id}", 204, nil))
	a := ask(t, server, "DELETE /channels/1")
	assert.Equal(t, 204, a.status)
	assert.Equal(t, "text/html; charset=utf-8", a.header.Get("Content-Type"))
}
