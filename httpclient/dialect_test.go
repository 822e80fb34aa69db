package httpclient_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
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

// withOther limits the server api.example with the given dialect, and discord.example without a dialect.
func withOther(dialect httpclient.Dialect) []httpclient.Option {
	return []httpclient.Option{
		httpclient.WithHosts(func(host string) (string, bool) {
			return host, host == "api.example" || host == "discord.example"
		}),
		httpclient.WithDialect("API.example", dialect),
	}
}

func TestADialectDecidesWhatIsARefusalAndHowLongToWait(t *testing.T) {
	const wait = 10 * time.Second
	ok, busy := answer(http.StatusOK, "{}"), answer(http.StatusForbidden, "busy")
	busyWith := func(status int) responder { return answer(status, "wait", "Busy: true") }
	long := strings.Repeat("no ", 1<<20)
	late := func(delay time.Duration) responder {
		return answerWith(http.StatusForbidden, func() io.ReadCloser { return stall(delay, strings.NewReader(long)) })
	}
	// doubtful takes a response with Retry-After for a refusal, unless doubtful gets the body and the body shows a failure
	// of the server.
	doubtful := func(status int, header http.Header, body []byte) ratelimits.Response {
		r := ratelimits.Response{Status: status}
		if header.Get("Retry-After") != "" && (body == nil || string(body) == "busy") {
			r.Class, r.RetryAfter, r.HasRetryAfter = ratelimits.ClassUser, wait, true
		}
		return r
	}
	patient := func(status int, _ http.Header, _ []byte) ratelimits.Response {
		return ratelimits.Response{Status: status, RetryAfter: 7 * time.Second, HasRetryAfter: status >= 500}
	}
	type story struct {
		answer  responder
		dialect httpclient.Dialect // nil: speakBusy
		options []httpclient.Option
		status  int // status and body of the response that the caller gets
		body    string
		took    time.Duration
		read    int // number of calls of the dialect; 0: any number
	}
	inBubbles(t, map[string]story{
		"by its headers":               {answer: busyWith(http.StatusTeapot), status: 200, body: "{}", took: wait},
		"a success":                    {answer: busyWith(http.StatusOK), status: 200, body: "{}", took: wait},
		"a temporary error":            {answer: busyWith(http.StatusBadGateway), status: 200, body: "{}", took: wait},
		"by its body":                  {answer: busy, status: 200, body: "{}", took: wait},
		"another 403":                  {answer: answer(http.StatusForbidden, "no"), status: 403, body: "no"},
		"a 429 that is no refusal":     {answer: answer(http.StatusTooManyRequests, "busy"), status: 429, body: "busy"},
		"the body with another status": {answer: answer(http.StatusNotFound, "busy"), status: 404, body: "busy"},
		"a long body":                  {answer: late(0), status: 403, body: long},
		"a long body after 2 s":        {answer: late(2 * time.Second), status: 403, body: long, took: 2 * time.Second},
		"a long body after a minute":   {answer: late(time.Minute), status: 403, body: long, took: 5 * time.Second},
		"a limiter that is no manager": {
			answer: busy, options: []httpclient.Option{httpclient.WithLimiter(buckets.Unlimited{})},
			status: 200, body: "{}", took: wait,
		},
		"a failure that says when to come back": {
			answer: answer(http.StatusBadGateway, ""), dialect: patient, status: 200, body: "{}", took: 7 * time.Second, read: 2,
		},
		"a failure that is no refusal after all": {
			answer:  answer(http.StatusServiceUnavailable, "down", "Retry-After: 1"),
			dialect: doubtful, status: 200, body: "{}", took: 500 * time.Millisecond,
		},
	}, func(t *testing.T, c story) {
		reads := 0
		speak := func(status int, header http.Header, body []byte) ratelimits.Response {
			reads++
			if c.dialect != nil {
				return c.dialect(status, header, body)
			}
			return speakBusy(status, header, body)
		}
		transport := newTransport(t, newScript(c.answer, ok), append(withOther(speak), c.options...)...)
		r := send(transport, to(t, other, getChannel(t)))
		assertStatus(t, c.status, r)
		assert.True(t, c.body == r.body, "%d of %d bytes", len(r.body), len(c.body))
		assert.InDelta(t, c.took, r.took, float64(125*time.Millisecond))
		if c.read > 0 {
			assert.Equal(t, c.read, reads, "the dialect must read each response this often")
		}
	})
}

func TestADialectIsForItsServerOnly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		calls := 0
		counting := func(status int, header http.Header, body []byte) ratelimits.Response {
			calls++
			return speakBusy(status, header, body)
		}
		busy := answer(http.StatusForbidden, "busy", "Busy: true")
		options := append(withOther(counting),
			httpclient.WithDialect("", counting), httpclient.WithDialect("discord.example", nil))
		transport := newTransport(t, newScript(busy), options...)
		for _, address := range []string{"https://discord.com", "https://discord.example", "https://unlimited.example"} {
			r := send(transport, to(t, address, getChannel(t)))
			assertStatus(t, http.StatusForbidden, r)
			assert.Zero(t, r.took)
		}
		assert.Zero(t, calls)
		limited := newTransport(t, newScript(refuse("user", "2"), answer(http.StatusOK, "{}")), options...)
		r := send(limited, to(t, "https://discord.example", getChannel(t)))
		assertStatus(t, http.StatusOK, r)
		assertTook(t, 2*time.Second, r.took)
	})
}

func TestADialectIsFoundHoweverTheHostOfItsAPIIsSpelled(t *testing.T) {
	inBubbles(t, map[string]string{
		"upper case, usual port": "https://API.example:443/v3", "with a dot": "https://api.example./v3",
		"usual port of HTTP": "http://api.example:80/v3", "another port": "https://Api.example:81/v3",
	}, func(t *testing.T, base string) {
		u := address(t, base)
		transport := newTransport(t, newScript(answer(http.StatusForbidden, "busy"), answer(http.StatusOK, "{}")),
			httpclient.WithAPI(u, u.Host), httpclient.WithDialect(u.Host, speakBusy))
		r := send(transport, to(t, base, newRequest(t, http.MethodGet, "/v3/channels/1", "")))
		assertStatus(t, http.StatusOK, r)
		assertTook(t, 10*time.Second, r.took)
	})
}

func TestARefusalOfADialectWhoseBodyCannotBeRepeatedIsReturned(t *testing.T) {
	bubble(t, func(t *testing.T) {
		transport := newTransport(t, newScript(answer(http.StatusForbidden, "busy"), answer(http.StatusOK, "{}")),
			append(withOther(speakBusy), eachBody(0))...)
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

func TestADialectThatPanicsKeepsNothing(t *testing.T) {
	inBubbles(t, map[string]bool{"at the headers": true, "at the body": false}, func(t *testing.T, atHeaders bool) {
		dialect := func(status int, _ http.Header, body []byte) ratelimits.Response {
			if atHeaders || body != nil {
				panic("dialect")
			}
			return ratelimits.Response{Status: status}
		}
		var bodies ledger
		transport := newTransport(t, newScript(answerWith(http.StatusForbidden, func() io.ReadCloser {
			return bodies.open(strings.NewReader("busy"))
		})), withOther(dialect)...)
		require.PanicsWithValue(t, "dialect", func() { _, _ = transport.RoundTrip(to(t, other, getChannel(t))) })
		bodies.assertClosed(t)
	})
}

func TestTheCredentialOfAnotherAPIIsSentAlsoWithPathsLikeDiscords(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, path := range []string{"/webhooks/42/deliveries", "/interactions/5/abc/callback"} {
			below := newScript(answer(http.StatusOK, "{}"))
			r := as(to(t, other, newRequest(t, http.MethodPost, path, "{}")), "Bearer secret")
			assertStatus(t, http.StatusOK, send(newTransport(t, below, withOther(speakBusy)...), r))
			assert.Equal(t, "Bearer secret", below.requests()[0].request.Header.Get("Authorization"), path)
		}
	})
}

func TestLimitHeadersOfEveryDialectAreHidden(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := newScript(answer(http.StatusForbidden, "no", `RateLimit: "a";r=0;t=60`, `RateLimit-Policy: "a";q=10;w=60`,
			"RateLimit-Remaining: 0", "X-RateLimit-Used: 10", "X-RateLimit-Resource: core", "Retry-After: 10", "X-Other: 1"))
		transport := newTransport(t, below, append(withOther(speakBusy), httpclient.WithoutRateLimitHeaders())...)
		response := roundTrip(t, transport, to(t, other, getChannel(t)))
		response.Body.Close()
		assert.Equal(t, http.Header{"X-Other": {"1"}}, response.Header)
	})
}
