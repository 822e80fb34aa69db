package httpclient_test

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/ratelimits"
)

const other = "https://api.example"

// speakBusy is a dialect in which a response with "Busy: true", or a 403 with the body "busy", refuses requests for 10
// s. A 429 is no refusal.
func speakBusy(status int, header http.Header, body []byte) ratelimits.Response {
	r := ratelimits.Response{Status: status}
	if header.Get("Busy") == "true" || status == http.StatusForbidden && string(body) == "busy" {
		r.Class, r.RetryAfter, r.HasRetryAfter = ratelimits.ClassUser, 10*time.Second, true
	}
	return r
}

// withOther limits the server api.example with this dialect, and discord.example without one.
func withOther(dialect httpclient.Dialect) []httpclient.Option {
	return []httpclient.Option{
		httpclient.WithHosts(func(host string) (string, bool) {
			return host, host == "api.example" || host == "discord.example"
		}),
		httpclient.WithDialect("API.example", dialect),
	}
}

func TestADialectDecidesWhatIsARefusal(t *testing.T) {
	t.Parallel()
	success := answer(http.StatusOK, "{}")
	for name, c := range map[string]struct {
		answer responder
		status int // status of the response that the caller gets
		body   string
		waits  bool
	}{
		"by its headers":               {answer(http.StatusTeapot, "wait", "Busy: true"), http.StatusOK, "{}", true},
		"a success":                    {answer(http.StatusOK, "wait", "Busy: true"), http.StatusOK, "{}", true},
		"a temporary error":            {answer(http.StatusBadGateway, "wait", "Busy: true"), http.StatusOK, "{}", true},
		"by its body":                  {answer(http.StatusForbidden, "busy"), http.StatusOK, "{}", true},
		"another 403":                  {answer(http.StatusForbidden, "no"), http.StatusForbidden, "no", false},
		"a 429 that is no refusal":     {answer(http.StatusTooManyRequests, "busy"), http.StatusTooManyRequests, "busy", false},
		"the body with another status": {answer(http.StatusNotFound, "busy"), http.StatusNotFound, "busy", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				transport := newTransport(t, newScript(c.answer, success), withOther(speakBusy)...)
				r := send(transport, to(t, other, getChannel(t)))
				assertStatus(t, c.status, r)
				assert.Equal(t, c.body, r.body)
				if c.waits {
					assertTook(t, 10*time.Second, r.took)
				} else {
					assert.Zero(t, r.took)
				}
			})
		})
	}
}

func TestADialectIsForItsServerOnly(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	counting := func(status int, header http.Header, body []byte) ratelimits.Response {
		calls.Add(1)
		return speakBusy(status, header, body)
	}
	synctest.Test(t, func(t *testing.T) {
		busy := answer(http.StatusForbidden, "busy", "Busy: true")
		options := append(withOther(counting),
			httpclient.WithDialect("", counting), httpclient.WithDialect("discord.example", nil))
		transport := newTransport(t, newScript(busy), options...)
		for _, address := range []string{"https://discord.com", "https://discord.example", "https://unlimited.example"} {
			r := send(transport, to(t, address, getChannel(t)))
			assertStatus(t, http.StatusForbidden, r)
			assert.Zero(t, r.took)
		}
		assert.Zero(t, calls.Load())
		limited := newTransport(t, newScript(refuse("user", "2"), answer(http.StatusOK, "{}")), options...)
		r := send(limited, to(t, "https://discord.example", getChannel(t)))
		assertStatus(t, http.StatusOK, r)
		assertTook(t, 2*time.Second, r.took)
	})
}

func TestADialectForAnAPI(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		base := address(t, "https://Proxy.example/v3")
		transport := newTransport(t, newScript(answer(http.StatusForbidden, "busy"), answer(http.StatusOK, "{}")),
			httpclient.WithAPI(base, base.Host), httpclient.WithDialect(base.Host, speakBusy))
		r := send(transport, to(t, "https://proxy.example", newRequest(t, http.MethodGet, "/v3/channels/1", "")))
		assertStatus(t, http.StatusOK, r)
		assertTook(t, 10*time.Second, r.took)
	})
}

func TestA403ThatIsNoRefusalIsReturnedWhole(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("no ", 1<<20)
	for name, c := range map[string]struct {
		delay, returns time.Duration
	}{
		"at once": {0, 0}, "after 2 s": {2 * time.Second, 2 * time.Second}, "after a minute": {time.Minute, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				below := newScript(answerWith(http.StatusForbidden, func() io.ReadCloser {
					return stall(c.delay, strings.NewReader(long))
				}))
				transport := newTransport(t, below, withOther(speakBusy)...)
				r := send(transport, to(t, other, getChannel(t)))
				assertStatus(t, http.StatusForbidden, r)
				assertTook(t, c.returns, r.took)
				assert.True(t, long == r.body, "%d of %d bytes", len(r.body), len(long))
			})
		})
	}
}

func TestARefusalOfADialectWhoseBodyCannotBeRepeatedIsReturned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		below := newScript(answer(http.StatusForbidden, "busy"), answer(http.StatusOK, "{}"))
		transport := newTransport(t, below, append(withOther(speakBusy), httpclient.WithMaxBufferedBody(0))...)
		r := to(t, other, newMessage(t))
		r.GetBody = nil
		once := send(transport, r)
		assertStatus(t, http.StatusForbidden, once)
		assert.Equal(t, "busy", once.body)
		later := send(transport, to(t, other, newMessage(t)))
		assertStatus(t, http.StatusOK, later)
		assertTook(t, 10*time.Second, later.took)
	})
}

func TestALimiterThatIsNoManagerWaitsAsADialectSays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		below := newScript(answer(http.StatusForbidden, "busy"), answer(http.StatusOK, "{}"))
		transport := httpclient.NewTransport(append(withOther(speakBusy),
			httpclient.WithBase(below), httpclient.WithLimiter(buckets.Unlimited{}))...)
		defer transport.Close()
		r := send(transport, to(t, other, getChannel(t)))
		assertStatus(t, http.StatusOK, r)
		assertTook(t, 10*time.Second, r.took)
	})
}

func TestAFailureOfAnotherServerIsRepeatedWhenItsDialectSays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dialect := func(status int, header http.Header, body []byte) ratelimits.Response {
			return ratelimits.Response{Status: status, RetryAfter: 7 * time.Second, HasRetryAfter: status >= 500}
		}
		below := newScript(answer(http.StatusBadGateway, ""), answer(http.StatusOK, "{}"))
		transport := newTransport(t, below, withOther(dialect)...)
		r := send(transport, to(t, other, getChannel(t)))
		assertStatus(t, http.StatusOK, r)
		assertTook(t, 7*time.Second, r.took)
	})
}

func TestADialectThatPanicsKeepsNothing(t *testing.T) {
	t.Parallel()
	for name, dialect := range map[string]httpclient.Dialect{
		"at the headers": func(int, http.Header, []byte) ratelimits.Response { panic("dialect") },
		"at the body": func(status int, _ http.Header, body []byte) ratelimits.Response {
			if body != nil {
				panic("dialect")
			}
			return ratelimits.Response{Status: status}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var bodies ledger
				transport := newTransport(t, newScript(answerWith(http.StatusForbidden, func() io.ReadCloser {
					return bodies.open(strings.NewReader("busy"))
				})), withOther(dialect)...)
				require.PanicsWithValue(t, "dialect", func() { _, _ = transport.RoundTrip(to(t, other, getChannel(t))) })
				bodies.assertClosed(t)
			})
		})
	}
}

func TestTheCredentialOfAnotherAPIIsSentAlsoWithPathsLikeDiscords(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/webhooks/42/deliveries", "/interactions/5/abc/callback"} {
		synctest.Test(t, func(t *testing.T) {
			below := newScript(answer(http.StatusOK, "{}"))
			transport := newTransport(t, below, withOther(speakBusy)...)
			r := to(t, other, newRequest(t, http.MethodPost, path, "{}"))
			r.Header.Set("Authorization", "Bearer secret")
			assertStatus(t, http.StatusOK, send(transport, r))
			assert.Equal(t, "Bearer secret", below.requests()[0].request.Header.Get("Authorization"), path)
		})
	}
}

func TestADialectIsFoundHoweverTheHostOfItsAPIIsSpelled(t *testing.T) {
	t.Parallel()
	for _, base := range []string{"https://API.example:443/v3", "https://api.example./v3", "http://api.example:80/v3"} {
		synctest.Test(t, func(t *testing.T) {
			u := address(t, base)
			below := newScript(answer(http.StatusForbidden, "busy"), answer(http.StatusOK, "{}"))
			transport := newTransport(t, below, httpclient.WithAPI(u, u.Host), httpclient.WithDialect(u.Host, speakBusy))
			r := to(t, u.Scheme+"://"+u.Host, newRequest(t, http.MethodGet, "/v3/channels/1", ""))
			assertStatus(t, http.StatusOK, send(transport, r))
		})
	}
}

func TestLimitHeadersOfEveryDialectAreHidden(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		below := newScript(answer(http.StatusForbidden, "no", `RateLimit: "a";r=0;t=60`, `RateLimit-Policy: "a";q=10;w=60`,
			"RateLimit-Remaining: 0", "X-RateLimit-Used: 10", "X-RateLimit-Resource: core", "Retry-After: 10", "X-Other: 1"))
		transport := newTransport(t, below, append(withOther(speakBusy), httpclient.WithoutRateLimitHeaders())...)
		response := roundTrip(t, transport, to(t, other, getChannel(t)))
		response.Body.Close()
		assert.Equal(t, http.Header{"X-Other": {"1"}}, response.Header)
	})
}

// A response looks like a refusal by its headers, and its body shows a failure of the server. It must be retried.
func TestAFailureThatIsNoRefusalAfterAllIsRetried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		speak := func(status int, header http.Header, body []byte) ratelimits.Response {
			r := ratelimits.Response{Status: status}
			if header.Get("Retry-After") != "" && (body == nil || string(body) == "busy") {
				r.Class, r.RetryAfter, r.HasRetryAfter = ratelimits.ClassUser, 10*time.Second, true
			}
			return r
		}
		below := newScript(answer(http.StatusServiceUnavailable, "down", "Retry-After: 1"), answer(http.StatusOK, "{}"))
		transport := newTransport(t, below, withOther(speak)...)
		assertStatus(t, http.StatusOK, send(transport, to(t, other, getChannel(t))))
	})
}

func TestADialectReadsAFailedResponseOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		speak := func(status int, _ http.Header, _ []byte) ratelimits.Response {
			calls++
			return ratelimits.Response{Status: status, RetryAfter: 7 * time.Second, HasRetryAfter: true}
		}
		below := newScript(answer(http.StatusBadGateway, "down"), answer(http.StatusOK, "{}"))
		transport := newTransport(t, below, withOther(speak)...)
		r := send(transport, to(t, other, getChannel(t)))
		assertStatus(t, http.StatusOK, r)
		assertTook(t, 7*time.Second, r.took)
		assert.Equal(t, 2, calls, "once for each response")
	})
}
