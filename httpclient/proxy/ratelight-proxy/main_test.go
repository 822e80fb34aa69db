package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient/discordtest"
	"github.com/ratelight/ratelight/internal/redistest"
)

// variables lists those environment variables of other proxies which the command also accepts.
var variables = []string{
	"HOST", "PORT", "BIND_IP", "METRICS_PORT", "LOG_LEVEL", "REQUEST_TIMEOUT", "BOT_RATELIMIT_OVERRIDES",
}

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	for _, name := range variables {
		_ = os.Unsetenv(name)
	}
	goleak.VerifyTestMain(m)
}

const secret = "a-secret-of-the-proxy"

// runs starts the command, waits until it ends by itself, and returns its exit status and its output.
func runs(t *testing.T, arguments ...string) (status int, text string) {
	t.Helper()
	var out bytes.Buffer
	status = run(t.Context(), arguments, &out, &out)
	return status, out.String()
}

// check runs the command with --check, in the given environment and with the given arguments.
func check(t *testing.T, environment, arguments string) (status int, text string) {
	t.Helper()
	for pair := range strings.FieldsSeq(environment) {
		name, value, _ := strings.Cut(pair, "=")
		t.Setenv(name, value)
	}
	return runs(t, append(strings.Fields(arguments), "--check")...)
}

func TestGoodConfigurations(t *testing.T) {
	for _, c := range []struct{ environment, arguments, listen, admin string }{
		{"", "", "127.0.0.1:8080", "127.0.0.1:8081"},
		{"PORT=3000 METRICS_PORT=9000", "", "127.0.0.1:3000", "127.0.0.1:9000"},
		{"HOST=::1", "", "[::1]:8080", "127.0.0.1:8081"},
		{"HOST=my-machine", "", "127.0.0.1:8080", "127.0.0.1:8081"}, // some shells set HOST to the machine's name
		{"BIND_IP=0.0.0.0", "--insecure", "0.0.0.0:8080", "127.0.0.1:8081"},
		{"BIND_IP=0.0.0.0 RATELIGHT_SECRET=" + secret, "", "0.0.0.0:8080", "127.0.0.1:8081"},
		{"RATELIGHT_LISTEN=localhost:1 PORT=2", "--admin off", "localhost:1", ""},
		{"RATELIGHT_LISTEN=localhost:1", "--listen [::1]:3", "[::1]:3", "127.0.0.1:8081"},
		{"RATELIGHT_MAX_WAIT= LOG_LEVEL= REQUEST_TIMEOUT= RATELIGHT_SECRET_FILE= PORT=", "",
			"127.0.0.1:8080", "127.0.0.1:8081"},
		// No Redis server listens at this address, but the check does not connect.
		{"", "--redis redis://127.0.0.1:1 --application bot", "127.0.0.1:8080", "127.0.0.1:8081"},
	} {
		t.Run(c.environment+" "+c.arguments, func(t *testing.T) {
			status, text := check(t, c.environment, c.arguments)
			assert.Equal(t, 0, status, text)
			parsed, err := parse(strings.Fields(c.arguments), io.Discard, io.Discard)
			require.NoError(t, err)
			assert.Equal(t, c.listen, parsed.Listen)
			assert.Equal(t, c.admin, parsed.Admin)
		})
	}
}

func TestVariablesOfOtherProxiesMeanTheSame(t *testing.T) {
	t.Setenv("REQUEST_TIMEOUT", "5000")
	t.Setenv("BOT_RATELIMIT_OVERRIDES", "392827169497284619:100, 227115752396685313:80")
	t.Setenv("LOG_LEVEL", "Warning")
	c, err := parse(nil, io.Discard, io.Discard)
	require.NoError(t, err)
	assert.Equal(t, patience(5*time.Second), c.RequestTimeout)
	ofBots := map[string]int{"392827169497284619": 100, "227115752396685313": 80}
	assert.Equal(t, limits{buckets.DefaultGlobalLimit, ofBots}, c.GlobalLimit)
	assert.Equal(t, level(slog.LevelWarn), c.LogLevel)
	t.Setenv("RATELIGHT_REQUEST_TIMEOUT", "7s")
	c, err = parse([]string{"--log-level", "debug", "--global-limit", "60,1:70"}, io.Discard, io.Discard)
	require.NoError(t, err)
	assert.Equal(t, limits{60, map[string]int{"1": 70}}, c.GlobalLimit)
	assert.Equal(t, patience(7*time.Second), c.RequestTimeout)
	assert.Equal(t, level(slog.LevelDebug), c.LogLevel)
}

func TestBadConfigurationsSayWhatWasExpected(t *testing.T) {
	for _, c := range []struct{ environment, arguments, names string }{
		{"PORT=x", "", "PORT"},
		{"METRICS_PORT=70000", "", "METRICS_PORT"},
		{"LOG_LEVEL=loud", "", "LOG_LEVEL"},
		{"REQUEST_TIMEOUT=soon", "", "REQUEST_TIMEOUT"},
		{"", "--request-timeout 0", "--request-timeout"},
		{"BOT_RATELIMIT_OVERRIDES=1:2:3", "", "BOT_RATELIMIT_OVERRIDES"},
		{"", "--global-limit -5", "--global-limit"},
		{"BOT_RATELIMIT_OVERRIDES=1:0", "", "BOT_RATELIMIT_OVERRIDES"},
		{"", "--global-limit a:5", "--global-limit"},
		{"", "--limit x", `--limit: "x": expected`},
		{"", "--limit all=0/1m", `--limit: "all=0/1m": bad options`},
		{"", "--limit all=1/25h", `--limit: "all=1/25h": bad options`},
		{"", "--limit all=5/10", `--limit: "all=5/10": the time 10 has no unit: expected 10s, 10m or 10h`},
		{"", "--limit all=5/10d", `--limit: "all=5/10d": expected`},
		{"", "--limit /x=1/5s", `--limit: "/x=1/5s": bad options`},
		{"RATELIGHT_LIMIT=all=1/5s,all=/5s", "", `"all=/5s": expected`},
		{"", "--limit all=1/5s --limit all=1/5s", `--limit: "all=1/5s, all=1/5s": bad options`},
		{"", "--known-limit x", `--known-limit: "x": bad options`},
		{"", "--listen 8080", "--listen"},
		{"", "--admin x:y", "--admin"},
		{"", "--upstream discord.com", "upstream"},
		{"", "--max-wait 10h", "--max-wait is 10h0m0s: expected 0 to 5m0s"},
		{"", "--max-body 0", "memory"},
		{"", "--max-connections -1", "ratelight-proxy: --max-connections is -1: expected 0 or more\n"},
		{"", "--max-queue -1", "ratelight-proxy: --max-queue is -1: expected 0 or more\n"},
		{"", "--max-wait -1s", "--max-wait is -1s: expected 0 to 5m0s"},
		{"", "--drain-timeout 0s", "--drain-timeout"},
		{"", "--log-format xml", "--log-format"},
		{"", "--listen 0.0.0.0:8080", "--secret"},
		{"", "--listen :8080", "--secret"},
		{"", "--listen example.com:8080", "--secret"},
		{"", "--admin 0.0.0.0:8081", "--secret"},
		{"HOST=0.0.0.0", "", "--secret"},
		{"", "--secret short", "secret"},
		{"", "--secret " + secret + " --secret-file main.go", "--secret-file"},
		{"", "--tls-cert main.go", "--tls-key"},
		{"", "--tls-cert main.go --tls-key main.go", "--tls-cert"},
		{"", "--client-ca main.go", "--client-ca"},
		{"", "--redis ftp://x", "--redis"},
		{"", "--allow-host example.com:80", "--allow-host"},
		{"", "--allow-host http://example.com", "--allow-host"},
		{"RATELIGHT_ALLOW_HOST=a,,b", "", "--allow-host"},
		{"", "--state /nowhere/state", "--state"},
		{"", "--state .", "--state"},
		{"", "--state-key " + secret, "--state-key needs --state"},
		{"", "--record /nowhere/trace.csv", "--record"},
		{"", "--redis redis://127.0.0.1:1 --application {}", "--redis"},
	} {
		t.Run(c.environment+" "+c.arguments, func(t *testing.T) {
			status, text := check(t, c.environment, c.arguments)
			assert.Equal(t, 2, status)
			assert.Contains(t, text, c.names)
		})
	}
}

// running is the command while it serves requests, on ports of its own.
type running struct {
	bots, admin string
	stop        context.CancelFunc
	status      chan int
	begin       string      // the log until both listeners are ready
	log         chan string // the rest of the log
}

func start(t *testing.T, arguments ...string) *running {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	r := &running{stop: stop, status: make(chan int, 1), log: make(chan string, 1)}
	go func() {
		r.status <- run(ctx, append([]string{"--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, arguments...), writer,
			writer)
		writer.Close()
	}()
	lines := bufio.NewReader(reader)
	for r.bots == "" || r.admin == "" {
		line, err := lines.ReadString('\n')
		require.NoError(t, err, line)
		r.begin += line
		switch _, address, _ := strings.Cut(strings.TrimSpace(line), "address="); {
		case strings.Contains(line, "listening for=bots"):
			r.bots = address
		case strings.Contains(line, "listening for=admin"):
			r.admin = address
		}
	}
	go func() {
		text, _ := io.ReadAll(lines)
		r.log <- string(text)
	}()
	t.Cleanup(func() {
		stop()
		<-r.log
	})
	return r
}

// end stops the command, and returns the rest of its log.
func (r *running) end(t *testing.T) string {
	t.Helper()
	r.stop()
	assert.Equal(t, 0, <-r.status)
	log := <-r.log
	r.log <- "" // the test's cleanup reads the log, too
	return log
}

// client keeps no connections open, so that no test leaves one behind.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// do sends a request and returns the status and the body of the response. header lists names of headers, each followed
// by its value.
func do(t *testing.T, method, address, body string, header ...string) (status int, text string) {
	t.Helper()
	request, err := http.NewRequest(method, "http://"+address, strings.NewReader(body))
	require.NoError(t, err)
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	request.Host = request.Header.Get("Host") // if it is empty, net/http uses the host of the address
	response, err := client.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(content)
}

func get(t *testing.T, address string) (status int, text string) {
	t.Helper()
	return do(t, http.MethodGet, address, "")
}

// ask sends a request without a body as a bot does, and returns the status of the response.
func (r *running) ask(t *testing.T, method, path string, header ...string) int {
	t.Helper()
	status, _ := do(t, method, r.bots+path, "", header...)
	return status
}

// post posts a form to the admin listener, and returns the status of the response.
func (r *running) post(t *testing.T, path string, form url.Values, header ...string) int {
	t.Helper()
	header = append(header, "Content-Type", "application/x-www-form-urlencoded")
	status, _ := do(t, http.MethodPost, r.admin+path, form.Encode(), header...)
	return status
}

func TestTheCommandForwardsAndTellsHowItIs(t *testing.T) {
	t.Parallel()
	discord := discordtest.NewServer(t, discordtest.Answer("GET /users/@me", 200, map[string]any{"id": "1"}))
	r := start(t, "--upstream", discord.URL)
	status, text := get(t, r.bots+"/users/@me")
	assert.Equal(t, 200, status)
	assert.JSONEq(t, `{"id":"1"}`, text)
	assert.Equal(t, "/api/v10/users/@me", discord.Requests()[0].Path)
	for path, want := range map[string]string{
		"/live": "ok", "/ready": "ok", "/upstream": `"ok":true`, "/": "<html",
		"/metrics": "ratelight_requests_granted_total 1",
	} {
		status, text := get(t, r.admin+path)
		assert.Equal(t, 200, status, path)
		assert.Contains(t, text, want)
	}
	status, _ = get(t, r.admin+"/nothing")
	assert.Equal(t, 404, status)
	discord.Close()
	status, _ = get(t, r.bots+"/users/@me")
	assert.Equal(t, 502, status)
	status, text = get(t, r.admin+"/upstream")
	assert.Equal(t, 503, status)
	assert.Contains(t, text, "failure")
	status, _ = get(t, r.admin+"/ready")
	assert.Equal(t, 200, status, "the state of the upstream must not make the command unready")
	r.end(t)
}

func TestAdminPagesAndTheLogShowNoToken(t *testing.T) {
	t.Parallel()
	const canary = "canary-canary-canary-canary-canary-canary-canary-canary-canary-canary"
	discord := discordtest.NewServer(t,
		discordtest.Answer("PATCH /webhooks/{id}/{token}", 404, map[string]any{"message": "Unknown Webhook", "code": 10015}),
		discordtest.Answer("GET /users/{id}", 401, map[string]any{"message": "401: Unauthorized", "code": 0}),
		discordtest.Cut("GET /guilds/{id}"))
	r := start(t, "--upstream", discord.URL, "--log-level", "debug")
	for _, path := range []string{
		"PATCH /webhooks/1/" + canary, "PATCH /webhooks/1/" + canary, "GET /users/1", "GET /users/1", "GET /guilds/1",
		"GET /new/" + canary,
	} {
		method, path, _ := strings.Cut(path, " ")
		r.ask(t, method, path, "Authorization", "Bot "+canary)
	}
	for _, page := range []string{"/", "/?format=json", "/metrics", "/upstream"} {
		_, text := get(t, r.admin+page)
		assert.NotEmpty(t, text)
		assert.NotContains(t, text, "canary", page)
	}
	log := r.end(t)
	assert.Contains(t, log, "upstream failed")
	assert.NotContains(t, log, "canary")
}

func TestTheSecretProtectsBothListenersButNotProbes(t *testing.T) {
	t.Parallel()
	discord := discordtest.NewServer(t)
	r := start(t, "--upstream", discord.URL, "--secret", secret)
	for url, want := range map[string]int{
		r.bots + "/users/@me":                400,
		r.bots + "/" + secret + "/gateway":   200,
		r.admin + "/upstream":                400,
		r.admin + "/" + secret + "/upstream": 200,
		r.admin + "/" + secret:               200,
		r.admin + "/" + secret + "/":         200,
		r.admin + "/live":                    200,
		r.admin + "/ready":                   200,
	} {
		status, _ := get(t, url)
		assert.Equal(t, want, status, url)
	}
	assert.Len(t, discord.Requests(), 1)
}

// By DNS rebinding, a web page's host name can point to this machine. Such a page must not be able to read anything
// from the proxy, and must not be able to send requests to Discord.
func TestOtherNamesAreNotServedWithoutASecret(t *testing.T) {
	t.Parallel()
	discord := discordtest.NewServer(t)
	for _, c := range []struct {
		arguments, header string
		hosts             map[string]int
	}{
		{"", "", map[string]int{"evil.example": 421, "localhost.evil.example": 421, "limits.example.com": 421,
			"127.0.0.1": 200, "localhost": 200, "[::1]": 200, "bot.localhost": 200, "proxy": 200}},
		{"--allow-host limits.example.com,proxy.default.svc --allow-host a.example --insecure --listen 0.0.0.0:0", "",
			map[string]int{"limits.example.com": 200, "proxy.default.svc": 200, "a.example": 200, "10.1.2.3": 200,
				"evil.example": 421}},
		{"--secret " + secret, secret, map[string]int{"evil.example": 200, "127.0.0.1": 200}},
	} {
		r := start(t, append(strings.Fields(c.arguments), "--upstream", discord.URL)...)
		_, bots, err := net.SplitHostPort(r.bots)
		require.NoError(t, err)
		for host, want := range c.hosts {
			for _, url := range []string{r.admin + "/", r.admin + "/metrics", "127.0.0.1:" + bots + "/users/@me"} {
				for _, port := range []string{"", ":8080"} {
					status, _ := do(t, "GET", url, "", "Host", host+port, "X-Ratelight-Secret", c.header)
					assert.Equal(t, want, status, "%s of %s with %q", url, host, c.arguments)
				}
			}
		}
	}
}

func TestWhoWaitsIsServedBeforeTheEnd(t *testing.T) {
	t.Parallel()
	arrived, goOn := make(chan struct{}), make(chan struct{})
	discord := discordtest.NewServer(t, discordtest.Handle("GET /users/@me", func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-goOn
		_, _ = io.WriteString(w, "{}")
	}))
	r := start(t, "--upstream", discord.URL)
	done := make(chan int, 1)
	go func() {
		status, _ := get(t, r.bots+"/users/@me")
		done <- status
	}()
	<-arrived
	r.stop()
	assert.Eventually(t, func() bool { // the admin listener stays open while requests are served
		status, _ := get(t, r.admin+"/ready")
		return status == 503
	}, 10*time.Second, time.Millisecond)
	close(goOn)
	assert.Equal(t, 200, <-done)
	assert.Equal(t, 0, <-r.status)
}

func TestRequestsAreRecordedWithoutIdsAndTokens(t *testing.T) {
	t.Parallel()
	discord := discordtest.NewServer(t)
	path := filepath.Join(t.TempDir(), "trace.csv")
	r := start(t, "--upstream", discord.URL, "--record", path)
	get(t, r.bots+"/webhooks/123456789/canary-canary-canary")
	r.end(t)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Contains(t, string(text), "webhooks")
	assert.NotContains(t, string(text), "123456789")
	assert.NotContains(t, string(text), "canary")
}

// certify writes a self-signed certificate for 127.0.0.1 and its key, and returns their paths.
func certify(t *testing.T) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	require.NoError(t, err)
	encoded, err := x509.MarshalECPrivateKey(private)
	require.NoError(t, err)
	write := func(name, kind string, content []byte) string {
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600))
		return path
	}
	return write("certificate", "CERTIFICATE", signed), write("key", "EC PRIVATE KEY", encoded)
}

func TestOnlyClientsWithACertificateAreServed(t *testing.T) {
	t.Parallel()
	certificate, key := certify(t)
	discord := discordtest.NewServer(t)
	r := start(t, "--upstream", discord.URL, "--tls-cert", certificate, "--tls-key", key, "--client-ca", certificate)
	pair, err := tls.LoadX509KeyPair(certificate, key)
	require.NoError(t, err)
	authorities := x509.NewCertPool()
	text, err := os.ReadFile(certificate)
	require.NoError(t, err)
	require.True(t, authorities.AppendCertsFromPEM(text))
	for _, own := range [][]tls.Certificate{nil, {pair}} {
		base := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authorities, Certificates: own},
			ForceAttemptHTTP2: true}
		response, err := (&http.Client{Transport: base}).Get("https://" + r.bots + "/gateway")
		if own == nil {
			assert.Error(t, err)
		} else if assert.NoError(t, err) {
			assert.Equal(t, 200, response.StatusCode)
			assert.Equal(t, 2, response.ProtoMajor)
			response.Body.Close()
		}
		base.CloseIdleConnections()
	}
}

func TestAnOperatorLiftsWhatStopsABot(t *testing.T) {
	t.Parallel()
	var mended atomic.Bool
	discord := discordtest.NewServer(t, discordtest.Handle("GET /users/@me", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Via", "1.1 google")
		if !mended.Load() {
			w.WriteHeader(401)
		}
	}), discordtest.Handle("GET /channels/{id}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Via", "1.1 google")
		if !mended.Load() {
			w.Header().Set("Retry-After", "3600")
			w.Header().Set("X-RateLimit-Scope", "shared")
			w.WriteHeader(429)
			_, _ = io.WriteString(w, `{"message":"The resource is being rate limited.","retry_after":3600,"global":false}`)
		}
	}))
	const token = "Bot MTIz.canary.canary"
	for what, c := range map[string]struct{ lifts, leaves []string }{
		"all":    {[]string{"/users/@me", "/channels/1"}, nil},
		"holds":  {[]string{"/channels/1"}, []string{"/users/@me"}},
		"budget": {nil, []string{"/users/@me", "/channels/1"}},
		"#":      {[]string{"/users/@me"}, []string{"/channels/1"}}, // "#" stands for the credential's hash
	} {
		mended.Store(false)
		r := start(t, "--upstream", discord.URL)
		as := func(path string) int { return r.ask(t, "GET", path, "Authorization", token) }
		assert.Equal(t, 401, as("/users/@me"))
		assert.Equal(t, 429, as("/channels/1"))
		mended.Store(true)
		assert.Equal(t, 503, as("/users/@me"), "the credential must rest")
		assert.Equal(t, 429, as("/channels/1"), "the route must be held")

		form := url.Values{"what": {what}}
		if what == "#" {
			_, text := get(t, r.admin+"/?format=json")
			assert.NotContains(t, text, "canary")
			var page struct {
				Credentials []struct{ Hash, Kind, Route string }
			}
			require.NoError(t, json.Unmarshal([]byte(text), &page))
			require.Len(t, page.Credentials, 1)
			assert.Equal(t, "Authorization", page.Credentials[0].Kind)
			assert.Equal(t, "GET /users/@me", page.Credentials[0].Route)
			assert.Contains(t, text, `"authentication":"`+page.Credentials[0].Hash, "the page names the credential by this hash")
			form = url.Values{"credential": {page.Credentials[0].Hash}}
		}
		assert.Equal(t, 403, r.post(t, "/lift", form, "Origin", "https://evil.example"))
		assert.Equal(t, 421, r.post(t, "/lift", form, "Host", "evil.example"))
		assert.Equal(t, 404, r.post(t, "/lift", url.Values{"credential": {"#123"}}))
		assert.Equal(t, 400, r.post(t, "/lift", url.Values{"what": {"something"}}))
		assert.Equal(t, 405, r.post(t, "/metrics", form))
		assert.Equal(t, 503, as("/users/@me"), "nothing has changed")
		assert.Equal(t, 200, r.post(t, "/lift", form), what)
		assert.Equal(t, 404, r.post(t, "/lift", url.Values{"credential": {token}}), "a token is not a hash")
		for _, path := range c.lifts {
			assert.Equal(t, 200, as(path), "%s after lifting %s", path, what)
		}
		for _, path := range c.leaves {
			assert.NotEqual(t, 200, as(path), "%s after lifting %s", path, what)
		}
		log := r.end(t)
		assert.Equal(t, 1, strings.Count(log, "lifted"), log)
		assert.Contains(t, log, strings.TrimSuffix(what, "#"))
		assert.NotContains(t, log, "canary")
	}
}

func TestTheQueueIsBoundedUnlessItIsAskedNotToBe(t *testing.T) {
	for arguments, want := range map[string]int{"": 10_000, "--max-queue 0": 0, "--max-queue 5": 5} {
		c, err := parse(strings.Fields(arguments), io.Discard, io.Discard)
		require.NoError(t, err)
		assert.Equal(t, want, c.MaxQueue, arguments)
	}
}

func TestLimitsAreDeclared(t *testing.T) {
	t.Parallel()
	var all []string
	for _, limit := range buckets.KnownLimits() {
		all = append(all, string(limit))
	}
	for arguments, names := range map[string][]string{
		"":                           nil,
		"--limit=/channels/*=9/1.5s": {"/channels/* 9 per 1.5s"},
		"--limit=PATCH /channels/{channel_id}=2/10m per major|--limit=all=100/1m per group across credentials": {
			"PATCH /channels/{channel_id} 2 per 10m0s per major parameter",
			"all requests 100 per 1m0s per group across credentials",
		},
		"--known-limit=reactions|--known-limit=invites,reactions": {"invites", "reactions"},
		"--known-limit=all|--known-limit=invites":                 all,
	} {
		split := strings.FieldsFunc(arguments, func(r rune) bool { return r == '|' })
		parsed, err := parse(append(split, "--check"), io.Discard, io.Discard)
		require.NoError(t, err)
		s, err := newService(parsed, io.Discard)
		require.NoError(t, err)
		assert.ElementsMatch(t, names, slices.Collect(maps.Keys(s.handler.Transport().Manager().Stats().Declared)))
		s.close()
	}
	for _, bad := range []string{
		"PATCH /channels/{channel_id}=2/10m per", "all=2/10m per user", "all=2/10m for all", "PATCH=2/10m",
	} {
		_, err := parse([]string{"--limit", bad}, io.Discard, io.Discard)
		require.ErrorContains(t, err, "--limit")
	}
}

// The README must list every flag, and every environment variable of other proxies that the command accepts.
func TestHelpAndVersionEndWithSuccessAndTheREADMENamesEveryFlag(t *testing.T) {
	t.Parallel()
	status, version := runs(t, "--version")
	assert.Equal(t, 0, status)
	assert.NotEmpty(t, version)
	status, help := runs(t, "--help")
	assert.Equal(t, 0, status)
	text, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	names := append([]string{}, variables...)
	for _, flag := range regexp.MustCompile(`(?m)^ {6}(--[a-z-]+)`).FindAllStringSubmatch(help, -1) {
		if flag[1] != "--version" {
			names = append(names, flag[1])
		}
	}
	assert.Greater(t, len(names), 20+len(variables))
	for _, name := range names {
		assert.True(t, strings.Contains(string(text), "`"+name+"`"), name)
	}
}

// A request that takes too long must be cut off, and the last line of the log must count the request as lost.
func TestWhoTakesTooLongIsCutOff(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	discord := discordtest.NewServer(t, discordtest.Handle("GET /users/@me", func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
	}))
	r := start(t, "--upstream", discord.URL, "--drain-timeout", "1ms")
	go func() {
		if response, err := client.Get("http://" + r.bots + "/users/@me"); err == nil {
			response.Body.Close()
		}
	}()
	<-arrived
	r.stop()
	assert.Equal(t, 1, <-r.status)
	log := <-r.log
	r.log <- ""
	assert.Contains(t, log, "msg=stopped served=0 refused=0 failed=0 lost=1")
}

// The command must not start with a port that is in use, a store that it cannot reach, or a state file that another
// process uses, because it would overwrite the state of that process. The command must not open a pipe, because opening
// a pipe blocks until another process opens the other end, and no signal ends this wait.
func TestWhatPreventsTheStartIsAnErrorThatNamesTheFlag(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	taken, state := listener.Addr().String(), filepath.Join(t.TempDir(), "state")
	start(t, "--upstream", "http://127.0.0.1:1", "--state", state)
	pipe := filepath.Join(t.TempDir(), "pipe")
	noPipes := exec.Command("mkfifo", pipe).Run() != nil
	const free = "--listen 127.0.0.1:0 --admin "
	for arguments, want := range map[string]struct {
		status int
		texts  []string
	}{
		"--listen " + taken + " --admin off": {1, []string{"--listen: ", "in use"}},
		free + taken:                         {1, []string{"--admin: "}},
		free + "off --state " + state:        {1, []string{"in use"}},
		"--redis redis://127.0.0.1:1":        {1, []string{"--redis"}},
		free + "off --state " + pipe:         {2, []string{"--state"}},
		free + "off --record " + pipe:        {2, []string{"--record"}},
	} {
		if noPipes && strings.HasSuffix(arguments, pipe) {
			continue
		}
		status, text := runs(t, strings.Fields(arguments)...)
		assert.Equal(t, want.status, status, arguments)
		for _, part := range want.texts {
			assert.Contains(t, text, part)
		}
	}
}

func TestLimitsGoOnFromTheStateFileAndAreSharedThroughRedis(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), "state")
	for name, arguments := range map[string][]string{
		"state": {"--state", state, "--state-key", secret},
		"Redis": {"--redis", redistest.NewEngine(t).URL(), "--application", "test"},
	} {
		discord := discordtest.NewServer(t, discordtest.Window("GET /users/@me", 1, time.Hour))
		for i, want := range []int{200, 429} {
			r := start(t, append(arguments, "--upstream", discord.URL)...)
			status, text := get(t, r.bots+"/users/@me")
			assert.Equal(t, want, status, "%s, run %d: %s", name, i, text)
			if name == "state" {
				r.end(t)
			}
		}
		assert.Len(t, discord.Requests(), 1)
	}
	text, err := os.ReadFile(state)
	require.NoError(t, err)
	assert.NotContains(t, string(text), secret)
}
