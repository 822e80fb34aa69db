package proxy_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/proxy"
)

func TestPathsWithAndWithoutAPIAndVersionReachDiscord(t *testing.T) {
	play(t, func(t *testing.T) {
		w := newWorld(t, nil)
		for path, want := range map[string]string{
			"/api/v10/users/@me":                "/api/v10/users/@me",
			"/api/v9/users/@me":                 "/api/v9/users/@me",
			"/api/users/@me":                    "/api/v10/users/@me",
			"/v9/users/@me":                     "/api/v9/users/@me",
			"/users/@me":                        "/api/v10/users/@me",
			"//api/v10/users/@me":               "/api/v10/users/@me", // the base URL ends in a slash
			"/apis/v10/users/@me":               "/api/v10/apis/v10/users/@me",
			"/api/v10/guilds/1/members?limit=2": "/api/v10/guilds/1/members?limit=2",
			// A query that no parser accepts must pass unchanged.
			"/api/v10/guilds/1?a=%2F;b&c=+%20&d=%":                  "/api/v10/guilds/1?a=%2F;b&c=+%20&d=%",
			"/api/v10/channels/1/messages/2/reactions/%c3%BC/%40me": "/api/v10/channels/1/messages/2/reactions/%c3%BC/%40me",
			"/api/v10/invites/a%2Fb%2fc":                            "/api/v10/invites/a%2Fb%2fc",
			"/api//v10/users/@me":                                   "/api/v10/users/@me",
			"//api///v9//users/@me":                                 "/api/v9/users/@me",
			"/api//users/@me":                                       "/api/v10/users/@me",
			"/api/v10/guilds//1/":                                   "/api/v10/guilds//1/",
			"/api/v10/invites/a'b(c)!*$&+,;=:@~[x]":                 "/api/v10/invites/a'b(c)!*$&+,;=:@~[x]",
		} {
			before := len(w.paths())
			_, got := w.raw("GET " + path + " HTTP/1.1\r\nHost: proxy\r\nConnection: close\r\n\r\n")
			assert.Equal(t, 200, got.StatusCode, path)
			if all := w.paths(); assert.Len(t, all, before+1, path) {
				assert.Equal(t, "GET "+want, all[before])
			}
		}
	})
}

func TestNoPathIsAnsweredWith501(t *testing.T) {
	play(t, func(t *testing.T) {
		w := newWorld(t, nil)
		for _, path := range []string{"", "/", "//", "/api", "/api/", "/api/v10", "/api/v10/", "/v9", "/v10//"} {
			assertOwn(t, w.send("GET", path, ""), 501, "no-path")
		}
		assert.Empty(t, w.discord.Requests())
	})
}

func TestEveryMethodPasses(t *testing.T) {
	play(t, func(t *testing.T) {
		w := newWorld(t, nil)
		var want []string
		for _, method := range []string{"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "QUERY"} {
			got := w.send(method, "/api/v10/channels/1", "")
			assert.Equal(t, 200, got.StatusCode, method)
			assert.Empty(t, got.Header.Get("X-Ratelight-Proxy"), method)
			want = append(want, method+" /api/v10/channels/1")
		}
		assert.Equal(t, want, w.paths())
	})
}

// No request may reach a host other than Discord, and Discord must get no request that was meant for another host.
func TestItIsNoOpenProxy(t *testing.T) {
	play(t, func(t *testing.T) {
		w := newWorldOf(t, func(rw http.ResponseWriter, r *http.Request) {
			assert.Equal(t, "discord.com", r.Host)
			_, _ = io.WriteString(rw, r.RequestURI)
		})
		for request, want := range map[string]string{
			"GET http://evil.example/api/v10/users/@me HTTP/1.1\r\nHost: evil.example":             "400 bad-request",
			"GET http://user:password@discord.com/api/v10/users/@me HTTP/1.1\r\nHost: discord.com": "400 bad-request",
			"GET https://discord.com/api/v10/users/@me HTTP/1.1\r\nHost: discord.com":              "400 bad-request",
			"CONNECT discord.com:443 HTTP/1.1\r\nHost: discord.com:443":                            "405 method",
			"CONNECT /api/v10/users/@me HTTP/1.1\r\nHost: discord.com:443":                         "405 method",
			"GET /api/v10/../../admin HTTP/1.1\r\nHost: proxy":                                     "400 bad-request",
			"GET /api/v10/%2e%2E/admin HTTP/1.1\r\nHost: proxy":                                    "400 bad-request",
			// Some servers decode %2f and %5c, and would then see dot segments.
			"GET /api/v10/..%2f..%2Fadmin HTTP/1.1\r\nHost: proxy":        "400 bad-request",
			"GET /api/v10/users/%2e%2e%5cadmin HTTP/1.1\r\nHost: proxy":   "400 bad-request",
			"GET /api/v10/users/.%5C HTTP/1.1\r\nHost: proxy":             "400 bad-request",
			"GET /api/v10/invites/a..b%2f...%2fc HTTP/1.1\r\nHost: proxy": "200 /api/v10/invites/a..b%2f...%2fc",
			// With two Authorizations, it is not clear which one counts.
			"GET /api/v10/users/@me HTTP/1.1\r\nHost: x\r\nAuthorization: a\r\nAuthorization: b": "400 bad-request",
			"GET /.. HTTP/1.1\r\nHost: proxy":                              "400 bad-request",
			"GET /api/v10/users/%00 HTTP/1.1\r\nHost: proxy":               "400 bad-request",
			"GET //evil.example/api/v10/users/@me HTTP/1.1\r\nHost: proxy": "200 /api/v10/evil.example/api/v10/users/@me",
			"GET /http://evil.example/x HTTP/1.1\r\nHost: proxy":           "200 /api/v10/http://evil.example/x",
			"GET /@evil.example/x HTTP/1.1\r\nHost: proxy":                 "200 /api/v10/@evil.example/x",
			// No header can change where the request goes.
			"GET /api/v10/users/@me HTTP/1.1\r\nHost: evil.example":                            "200 /api/v10/users/@me",
			"GET /api/v10/users/@me HTTP/1.1\r\nHost: proxy\r\nX-Forwarded-Host: evil.example": "200 /api/v10/users/@me",
			// The proxy speaks no other protocols.
			"GET /api/v10/gateway HTTP/1.1\r\nHost: proxy\r\nConnection: Upgrade\r\nUpgrade: websocket":   "501 upgrade",
			"GET /api/v10/gateway HTTP/1.1\r\nHost: proxy\r\nConnection: x, upgrade\r\nUpgrade: h2c, tls": "501 upgrade",
		} {
			_, got := w.raw(request + "\r\n\r\n")
			text, err := io.ReadAll(io.LimitReader(got.Body, max(got.ContentLength, 0)))
			require.NoError(t, err, request)
			if reason := got.Header.Get("X-Ratelight-Proxy"); reason != "" {
				text = []byte(reason)
			}
			assert.Equal(t, want, got.Status[:4]+string(text), request)
		}
	})
}

// The handler's transport must also serve a program that uses the transport without the handler.
func TestTheTransportOfAHandlerServesItsOwner(t *testing.T) {
	play(t, func(t *testing.T) {
		w := newWorld(t, nil)
		r := newRequest(t, "GET", "/api/v10/users/@me", "")
		r.URL.Scheme, r.URL.Host = "https", "discord.com"
		got, err := w.handler.Transport().RoundTrip(r)
		require.NoError(t, err)
		require.NoError(t, got.Body.Close())
		assert.Equal(t, 200, got.StatusCode)
	})
}

// Java's client asks for an upgrade to HTTP/2 with each request. The proxy must ignore this, so that the client
// continues with HTTP/1.
func TestAnUpgradeToHTTP2IsIgnored(t *testing.T) {
	play(t, func(t *testing.T) {
		w := newWorldOf(t, func(_ http.ResponseWriter, r *http.Request) {
			for _, name := range []string{"Upgrade", "Connection", "Http2-Settings"} {
				assert.Empty(t, r.Header.Values(name), name)
			}
		})
		_, got := w.raw("GET /api/v10/gateway HTTP/1.1\r\nHost: proxy\r\nConnection: Upgrade, HTTP2-Settings\r\n" +
			"Upgrade: h2c\r\nHTTP2-Settings: x\r\n\r\n")
		assert.Equal(t, 200, got.StatusCode)
	})
}

func TestHeadersPassAndThoseOfTheWayDoNot(t *testing.T) {
	play(t, func(t *testing.T) {
		var seen http.Header
		w := newWorldOf(t, func(rw http.ResponseWriter, r *http.Request) {
			seen = r.Header.Clone()
			h := rw.Header()
			h["Set-Cookie"] = []string{"a=1", "b=2"}
			h["X-Ratelimit-Bucket"], h["Via"] = []string{"abc"}, []string{"1.1 google"}
			h["Alt-Svc"], h["Strict-Transport-Security"] = []string{`h3=":443"`}, []string{"max-age=1"}
			h["Content-Encoding"], h["Content-Type"] = []string{"gzip"}, []string{"application/json"}
			h["Keep-Alive"] = []string{"timeout=5"}
			_, _ = io.WriteString(rw, "not really gzip")
		})
		r := newRequest(t, "POST", messages, `{"content":"x"}`)
		kept := http.Header{
			"X-Audit-Log-Reason": {"because%20of"}, "X-Several": {"1", "2", ""}, "Accept-Encoding": {"gzip, br"},
			"Cookie":             {"a=b"},
			"X-Super-Properties": {"e30="}, "X-Ratelimit-Precision": {"millisecond"}, "X-Request-Id": {"7"},
		}
		for name, values := range kept {
			r.Header[name] = values
		}
		for _, name := range []string{
			"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port", "X-Forwarded-Prefix",
			"Via", "X-Real-Ip",
			"True-Client-Ip", "Cf-Connecting-Ip", "Cf-Ray", "Cdn-Loop", "X-Envoy-External-Address", "X-Original-Forwarded-For",
			"X-Client-Ip",
			"Proxy-Authorization", "Proxy-Connection", "Keep-Alive", "Te", "X-Ratelight-Secret", "X-Ratelight-Anything", "X-Hop",
		} {
			r.Header.Set(name, "gone")
		}
		r.Header.Set("Connection", "X-Hop")
		got := w.do(r)

		kept["Authorization"], kept["User-Agent"] = []string{token}, []string{"DiscordBot (https://example.com, 1)"}
		kept["Content-Type"], kept["Content-Length"] = []string{"application/json"}, []string{"15"}
		assert.Equal(t, kept, seen)
		assert.Equal(t, []string{"a=1", "b=2"}, got.Header["Set-Cookie"])
		assert.Equal(t, "abc", got.Header.Get("X-Ratelimit-Bucket"))
		assert.Equal(t, "1.1 google", got.Header.Get("Via"))
		assert.Equal(t, "gzip", got.Header.Get("Content-Encoding"))
		assert.EqualValues(t, 15, got.ContentLength)
		assert.Equal(t, "not really gzip", got.text)
		for _, name := range []string{"Alt-Svc", "Strict-Transport-Security", "Keep-Alive", "X-Ratelight-Proxy"} {
			assert.Empty(t, got.Header.Values(name), name)
		}
	})
}

func TestNoUserAgentAndNoEncodingAreAdded(t *testing.T) {
	play(t, func(t *testing.T) {
		w := newWorldOf(t, func(_ http.ResponseWriter, r *http.Request) {
			assert.Empty(t, r.Header)
		})
		_, got := w.raw("GET /api/v10/gateway HTTP/1.1\r\nHost: proxy\r\n\r\n")
		assert.Equal(t, 200, got.StatusCode)
	})
}

// Trailers must pass, except those with the name of a header that is removed.
func TestTrailersPassBothWays(t *testing.T) {
	for name, size := range map[string]int{"kept in memory": 100, "streamed": 5000} {
		playIn(t, name, func(t *testing.T) {
			var trailer http.Header
			w := newWorldOf(t, func(rw http.ResponseWriter, r *http.Request) {
				_, err := io.Copy(io.Discard, r.Body)
				assert.NoError(t, err)
				trailer = r.Trailer
				rw.Header().Set("Trailer", "X-After")
				_, _ = io.WriteString(rw, "body")
				rw.Header().Set("X-After", "response")
			}, proxy.WithMaxBufferedBody(1000))
			body := fmt.Sprintf("%x\r\n%s\r\n0\r\n", size, strings.Repeat("x", size))
			_, got := w.raw(rawPost(body+"X-Sum: sum\r\nX-Forwarded-For: 1.2.3.4\r\nCf-Ray: a\r\nX-Ratelight-Secret: b\r\n\r\n",
				"Transfer-Encoding: chunked", "Trailer: X-Sum, X-Forwarded-For, Cf-Ray"))
			assert.Equal(t, 200, got.StatusCode)
			_, err := io.Copy(io.Discard, got.Body)
			require.NoError(t, err)
			assert.Equal(t, http.Header{"X-Sum": {"sum"}}, trailer)
			assert.Equal(t, http.Header{"X-After": {"response"}}, got.Trailer)
		})
	}
}

func TestInterimResponsesPass(t *testing.T) {
	play(t, func(t *testing.T) {
		w := newWorldOf(t, func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Link", "</x>; rel=preload")
			rw.WriteHeader(http.StatusEarlyHints)
			rw.WriteHeader(http.StatusOK)
		})
		var interim []int
		r := newRequest(t, "GET", "/api/v10/gateway", "")
		got := w.do(r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
				interim = append(interim, code)
				assert.Equal(t, "</x>; rel=preload", header.Get("Link"))
				return nil
			},
		})))
		assert.Equal(t, []int{103}, interim)
		assert.Equal(t, 200, got.StatusCode)
	})
}

func TestAClientThatExpects100ContinueGetsItAtOnce(t *testing.T) {
	play(t, func(t *testing.T) {
		w := newWorldOf(t, func(rw http.ResponseWriter, r *http.Request) {
			assert.Empty(t, r.Header.Get("Expect"))
			text, _ := io.ReadAll(r.Body)
			_, _ = rw.Write(text)
		})
		conn, got := w.raw(rawPost("", "Expect: 100-continue", "Content-Length: 4"))
		require.Equal(t, 100, got.StatusCode)
		go func() { _, _ = io.WriteString(conn, "body") }()
		buffer := make([]byte, 4096)
		n, err := conn.Read(buffer)
		require.NoError(t, err)
		assert.Contains(t, string(buffer[:n]), "200 OK")
	})
}

func TestErrorsOfDiscordPassAsTheyCame(t *testing.T) {
	play(t, func(t *testing.T) {
		for _, status := range []int{304, 400, 401, 403, 404, 413, 500, 502, 503, 504, 524} {
			calls := 0
			w := newWorldOf(t, func(rw http.ResponseWriter, _ *http.Request) {
				calls++
				rw.Header().Set("Content-Type", "text/html")
				rw.WriteHeader(status)
				if status != 304 {
					_, _ = io.WriteString(rw, "as it came")
				}
			})
			got := w.send("GET", "/api/v10/users/1", "")
			assert.Equal(t, status, got.StatusCode)
			assert.Equal(t, 1, calls, "the proxy must not repeat the request")
			assert.Empty(t, got.Header.Get("X-Ratelight-Proxy"))
			if status != 304 {
				assert.Equal(t, "as it came", got.text)
			}
		}
	})
}

func TestAnUpstreamBelowAPathIsAskedThere(t *testing.T) {
	play(t, func(t *testing.T) {
		var asked []string
		w := newWorldOf(t, func(rw http.ResponseWriter, r *http.Request) {
			asked = append(asked, r.Host+r.RequestURI)
			rw.Header()["X-Ratelimit-Bucket"], rw.Header()["X-Ratelimit-Limit"] = []string{"abc"}, []string{"5"}
			rw.Header()["X-Ratelimit-Remaining"], rw.Header()["X-Ratelimit-Reset-After"] = []string{"4"}, []string{"5"}
		},
			proxy.WithUpstream("http://compatible.example:81/a%2Fb/discord/"))
		w.send("POST", "/channels/1/messages", "{}")
		assert.Equal(t, []string{"compatible.example:81/a%2Fb/discord/api/v10/channels/1/messages"}, asked)
		found := false
		for b := range w.handler.Transport().Manager().Buckets() {
			found = found || b.Hash == "abc" && slices.Contains(b.Routes, "POST /channels/{channel_id}/messages") &&
				b.Server == ""
		}
		assert.True(t, found)
	})
}

func TestBadOptionsAreRefused(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]proxy.Option{
		"relative":    proxy.WithUpstream("discord.com"),
		"scheme":      proxy.WithUpstream("ftp://discord.com"),
		"no host":     proxy.WithUpstream("https://:80"),
		"user":        proxy.WithUpstream("https://a:b@discord.com"),
		"query":       proxy.WithUpstream("https://discord.com?x"),
		"no URL":      proxy.WithUpstream("http://[::1"),
		"media":       proxy.WithUpstream("https://cdn.discordapp.com"),
		"api":         proxy.WithUpstream("https://discord.com/api/v10"),
		"negative":    proxy.WithMaxWait(-1),
		"too long":    proxy.WithMaxWait(proxy.LongestWait + 1),
		"no buffer":   proxy.WithMaxBufferedBody(0),
		"no bot":      proxy.WithGlobalLimits(50, map[string]int{"x": 5}),
		"no limit":    proxy.WithGlobalLimits(0, nil),
		"no requests": proxy.WithGlobalLimits(50, map[string]int{"1": 0}),
	} {
		handler, err := proxy.New(nil, option)
		assert.ErrorIs(t, err, proxy.ErrOptions, name)
		assert.ErrorContains(t, err, "expected", name)
		assert.Nil(t, handler, name)
	}
}

// http2Server returns an HTTP/2 server on the loopback interface and a transport that trusts its certificate.
func http2Server(t *testing.T, handler http.Handler) (*httptest.Server, *http.Transport) {
	server := httptest.NewUnstartedServer(handler)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	return server, server.Client().Transport.(*http.Transport)
}

// Requests must pass over HTTP/2, because Discord uses HTTP/2, and the clients of the proxy may use it.
func TestRequestsPassOverHTTP2(t *testing.T) {
	t.Parallel()
	arrived, answered, served := make(chan struct{}), make(chan struct{}), make(chan struct{})
	discord, base := http2Server(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, 2, r.ProtoMajor)
		if r.URL.Path == "/api/v10/gateway" {
			close(arrived)
			<-answered
			return
		}
		text, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		w.Header().Set("Trailer", "X-After")
		w.Header().Set("X-Length", r.Header.Get("Content-Length"))
		_, _ = w.Write(text)
		w.Header().Set("X-After", r.Trailer.Get("X-Sum"))
	}))
	handler, err := proxy.New(proxy.WithUpstream(discord.URL), proxy.WithTransport(httpclient.WithBase(base)),
		proxy.WithMaxBufferedBody(1000))
	require.NoError(t, err)
	defer handler.Close()
	server, transport := http2Server(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/gateway" {
			defer close(served)
		}
		handler.ServeHTTP(w, r)
	}))
	client := &http.Client{Transport: transport}

	for _, size := range []int{0, 100, 5 * megabyte} {
		r, err := http.NewRequest("POST", server.URL+messages, io.NopCloser(strings.NewReader(strings.Repeat("x", size))))
		require.NoError(t, err)
		r.Trailer = http.Header{"X-Sum": {"of the request"}}
		response, err := client.Do(r)
		require.NoError(t, err)
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		response.Body.Close()
		assert.Equal(t, 2, response.ProtoMajor)
		assert.Len(t, text, size)
		assert.Equal(t, "of the request", response.Trailer.Get("X-After"))
	}

	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "GET", server.URL+"/gateway", nil)
	require.NoError(t, err)
	over := make(chan error, 1)
	go func() {
		response, err := client.Do(r)
		if err == nil {
			response.Body.Close()
		}
		over <- err
	}()
	<-arrived
	cancel()
	assert.ErrorIs(t, <-over, context.Canceled)
	close(answered) // the handler waits for this response
	<-served
	assert.Zero(t, handler.Transport().Manager().Stats().InFlight)
}

// Over HTTP/2, an early response to an upload must end the request at once, because the proxy need not read the rest.
func TestAnEarlyAnswerOverHTTP2DoesNotWaitForTheUpload(t *testing.T) {
	t.Parallel()
	discord, base := http2Server(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	}))
	handler, err := proxy.New(proxy.WithUpstream(discord.URL), proxy.WithTransport(httpclient.WithBase(base)),
		proxy.WithMaxBufferedBody(1000))
	require.NoError(t, err)
	defer handler.Close()
	server, transport := http2Server(t, handler)
	for range 10 {
		source, writer := io.Pipe() // the body stops after its first megabyte
		go func() { _, _ = writer.Write(make([]byte, megabyte)) }()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		r, err := http.NewRequestWithContext(ctx, "POST", server.URL+messages, source)
		require.NoError(t, err)
		response, err := transport.RoundTrip(r)
		require.NoError(t, err)
		assert.Equal(t, 413, response.StatusCode)
		_, err = io.Copy(io.Discard, response.Body)
		assert.NoError(t, err)
		writer.Close()
		response.Body.Close()
		cancel()
	}
}
