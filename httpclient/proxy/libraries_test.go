package proxy_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/discordtest"
	"github.com/ratelight/ratelight/httpclient/proxy"
)

// Libraries send these requests if nothing but their base URL is changed. The requests are taken from the documentation
// and the sources of the libraries. All must pass.
func TestRequestsOfLibrariesPass(t *testing.T) {
	const bot = "Authorization: Bot MTIzNDU2Nzg5.canary.signature\r\n"
	const json = "Content-Type: application/json\r\nContent-Length: 15\r\n"
	const body = `{"content":"x"}`
	type story struct {
		request, body, path string
	}
	playEach(t, map[string]story{
		"discord.js, api: http://proxy/api": {
			"POST /api/v10/channels/1/messages HTTP/1.1\r\nHost: proxy\r\nConnection: keep-alive\r\n" +
				"User-Agent: DiscordBot (https://discord.js.org, 2.6.3) Node.js/20\r\n" + json + bot,
			body, "/api/v10/channels/1/messages"},
		"discord.py, Route.BASE = http://proxy/api/v10": {
			"PUT /api/v10/channels/1/messages/2/reactions/%F0%9F%94%A5/@me HTTP/1.1\r\nHost: proxy\r\n" +
				"User-Agent: DiscordBot (https://github.com/Rapptz/discord.py 2.4.0)\r\n" +
				"Accept: */*\r\nAccept-Encoding: gzip, deflate, br\r\nContent-Length: 0\r\n" + bot, "",
			"/api/v10/channels/1/messages/2/reactions/%F0%9F%94%A5/@me"},
		"hikari, rest_url=http://proxy/api/v10": {
			"POST /api/v10/channels/1/messages HTTP/1.1\r\nHost: proxy\r\n" +
				"User-Agent: DiscordBot (https://github.com/hikari-py/hikari, 2.3) Nekokatt AIOHTTP/3\r\n" +
				"X-RateLimit-Precision: millisecond\r\nAccept-Encoding: gzip, deflate\r\n" + json + bot, body,
			"/api/v10/channels/1/messages"},
		"JDA, setBaseUrl(http://proxy/api/v10/)": {
			"POST /api/v10/channels/1/messages HTTP/1.1\r\nHost: proxy\r\nConnection: Keep-Alive\r\n" +
				"Accept-Encoding: gzip\r\nX-RateLimit-Precision: millisecond\r\n" +
				"User-Agent: DiscordBot (https://github.com/discord-jda/JDA, 5.0)\r\n" + json + bot, body,
			"/api/v10/channels/1/messages"},
		"Eris, domain and baseURL": {
			"POST /api/v9/channels/1/messages HTTP/1.1\r\nHost: proxy\r\nConnection: close\r\n" +
				"Accept-Encoding: gzip,deflate\r\nUser-Agent: DiscordBot (https://github.com/abalabahaha/eris, 0.18.0)\r\n" +
				json + bot, body, "/api/v9/channels/1/messages"},
		"Discordeno, proxy.baseUrl http://proxy": {
			"DELETE /v10/channels/1/messages/3 HTTP/1.1\r\nHost: proxy\r\nX-Audit-Log-Reason: because%20of%20%C3%BC\r\n" +
				"accept-language: *\r\nsec-fetch-mode: cors\r\n" + bot, "",
			"/api/v10/channels/1/messages/3"},
		"a path without version": {"GET /channels/1 HTTP/1.1\r\nHost: proxy\r\n" + bot, "", "/api/v10/channels/1"},
		"Java's HTTP client": {
			"POST /api/v10/channels/1/messages HTTP/1.1\r\nHost: proxy\r\nConnection: Upgrade, HTTP2-Settings\r\n" +
				"Upgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAAB\r\n" + json + bot,
			body, "/api/v10/channels/1/messages"},
		"chunks": {
			"POST /api/v10/channels/1/messages HTTP/1.1\r\nHost: proxy\r\nTransfer-Encoding: chunked\r\n" +
				"Content-Type: application/json\r\n" + bot, "f\r\n" + body + "\r\n0\r\n\r\n", "/api/v10/channels/1/messages"},
	}, func(t *testing.T, c story) {
		w := newWorld(t, nil)
		_, got := w.raw(c.request + "\r\n" + c.body)
		assert.Equal(t, 200, got.StatusCode)
		all := w.discord.Requests()
		require.Len(t, all, 1)
		assert.Equal(t, c.path, all[0].Path)
		assert.Equal(t, "Bot MTIzNDU2Nzg5.canary.signature", all[0].Header.Get("Authorization"))
		if c.body != "" {
			assert.Equal(t, body, string(all[0].Body))
		}
	})
}

// This test runs the libraries themselves. RATELIGHT_LIBRARIES lists the installed ones, such as "discordjs discordeno
// eris discordpy", and NODE_PATH is the directory of Node's modules.
func TestLibrariesThemselves(t *testing.T) {
	names := strings.Fields(os.Getenv("RATELIGHT_LIBRARIES"))
	if len(names) == 0 {
		t.Skip("RATELIGHT_LIBRARIES names no libraries")
	}
	seen := make(map[string]bool)
	for _, name := range slices.Concat(names, names) {
		hidden := !seen[name] // the first run hides limit headers, so that the library gets 429s of the proxy
		seen[name] = true
		t.Run(name, func(t *testing.T) {
			message := map[string]any{"id": "9", "channel_id": "1", "content": "", "type": 0, "attachments": []any{},
				"embeds": []any{}, "mentions": []any{},
				"mention_roles": []any{}, "timestamp": "2026-01-01T00:00:00+00:00",
				"author": map[string]any{"id": "123456789", "username": "bot", "discriminator": "0"}}
			me := map[string]any{"id": "123456789", "username": "bot", "discriminator": "0", "avatar": nil, "bot": true}
			discord := discordtest.NewServer(t,
				discordtest.Window("POST /channels/{id}/messages", 5, 2*time.Second), discordtest.Latency(20*time.Millisecond),
				discordtest.Answer("POST /channels/{id}/messages", 200, message), discordtest.Answer("GET /users/@me", 200, me),
				discordtest.Answer("GET /oauth2/applications/@me", 200,
					map[string]any{"id": "1", "name": "x", "flags": 0, "bot_public": true, "description": "",
						"bot_require_code_grant": false, "verify_key": "", "owner": me, "icon": nil, "rpc_origins": nil, "summary": ""}),
				discordtest.Answer("execute_webhook", 200, message), discordtest.Answer("add_my_message_reaction", 204, nil),
				discordtest.Answer("delete_message", 204, nil))
			options := []proxy.Option{proxy.WithUpstream(discord.URL), proxy.WithMaxWait(500 * time.Millisecond)}
			if hidden {
				options = append(options, proxy.WithTransport(httpclient.WithoutRateLimitHeaders()))
			}
			handler, err := proxy.New(options...)
			require.NoError(t, err)
			defer handler.Close()
			refused := make(chan string, 1000)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				handler.ServeHTTP(w, r)
				if reason := w.Header().Get("X-Ratelight-Proxy"); reason != "" {
					refused <- reason
				}
			}))
			defer server.Close()
			programs := map[string][]string{
				"discordjs": {"node", "discordjs.cjs"}, "discordeno": {"node", "discordeno.mjs"}, "eris": {"node", "eris.cjs"},
				"discordpy": {"/usr/bin/python3", "discordpy.py"},
			}
			command := exec.Command(programs[name][0], "testdata/libraries/"+programs[name][1], server.URL)
			text, err := command.CombinedOutput()
			require.NoError(t, err, "%s", text)
			assert.Contains(t, string(text), "done")
			assert.Empty(t, discord.Refused())
			counts := make(map[string]int)
			for _, r := range discord.Requests() {
				counts[fmt.Sprint(r.Operation, " ", r.Status)]++
			}
			assert.Equal(t, 13, counts["POST /channels/{id}/messages 200"], "%v", counts)
			if hidden && name != "discordeno" { // discordeno asks for a longer wait
				assert.NotEmpty(t, refused)
			}
			t.Logf("%v; answers of the proxy's own: %d", counts, len(refused))
		})
	}
}
