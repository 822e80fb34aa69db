package httpclient_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient"
)

func TestA401OfATokenInAPathStopsThatTokenOnly(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		path, same, other string
		stopped           httpclient.CredentialError
	}{
		"webhook": {
			webhook, webhook + "/messages/5", "/api/v10/webhooks/1/another",
			httpclient.CredentialError{Route: "PATCH /webhooks/{webhook_id}/{webhook_token}/messages/{message_id}",
				Kind: httpclient.CredentialWebhook, Status: 401},
		},
		"interaction": {
			followUp, followUp + "/messages/@original", "/api/v10/webhooks/1/aW50ZXJhY3Rpb246another",
			httpclient.CredentialError{Route: "PATCH /webhooks/{webhook_id}/{webhook_token}/messages/@original (interaction)",
				Kind: httpclient.CredentialInteraction, Status: 401},
		},
	} {
		for _, authorization := range []string{"", "Bot " + botSecret} {
			inBubble(t, name+", "+authorization, func(t *testing.T) {
				post := func(path string) *http.Request {
					return as(newRequest(t, http.MethodPost, path, "{}"), authorization)
				}
				edit := func() *http.Request { return as(newRequest(t, http.MethodPatch, c.same, "{}"), authorization) }
				below := byCredential(http.StatusUnauthorized, `{"message":"Invalid Webhook Token","code":50027}`,
					withPath(webhookSecret, replySecret))
				transport := newTransport(t, below)
				assertStatus(t, http.StatusUnauthorized, send(transport, post(c.path)))
				assertStatus(t, http.StatusOK, send(transport, post(c.other)))
				assertStatus(t, http.StatusOK, send(transport, as(newMessage(t), "Bot "+botSecret)))

				assertRests(t, transport, below, edit, c.stopped)
				assertStatus(t, http.StatusUnauthorized, send(transport, post(c.path)))
				assertRests(t, transport, below, edit, c.stopped)
			})
		}
	}
}

func TestRestingCredentialsAreTheHundredThatRestLongest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		transport := newTransport(t, newScript(answer(http.StatusUnauthorized, `{"code":50027}`)))
		for i := range 120 {
			assertStatus(t, http.StatusUnauthorized,
				send(transport, newRequest(t, http.MethodPost, "/api/v10/webhooks/1/token"+strconv.Itoa(i), "{}")))
			time.Sleep(time.Second)
		}
		all := transport.RestingCredentials()
		require.Len(t, all, 100)
		for i, c := range all {
			assert.Equal(t, 10*time.Minute-time.Duration(i+1)*time.Second, c.RetryAfter)
		}
	})
}

// The path names the webhook by its id, without a token, so the 401 refuses the bot's Authorization.
func TestA401OfAWebhookByItsIdIsAboutTheAuthorization(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := byCredential(http.StatusUnauthorized, `{"code":0}`,
			func(r *http.Request) bool { return r.Header.Get("Authorization") != "" })
		transport := newTransport(t, below)
		assertStatus(t, http.StatusUnauthorized, send(transport, newRequest(t, http.MethodGet, "/api/v10/webhooks/1", "")))
		assertStopped(t, transport, below, newRequest(t, http.MethodGet, "/api/v10/webhooks/1", ""),
			httpclient.CredentialError{Route: "GET /webhooks/{webhook_id}", Status: 401, RetryAfter: 10 * time.Minute})
		assertStatus(t, http.StatusOK, send(transport, as(newRequest(t, http.MethodPost, webhook, "{}"), "")))
	})
}

func TestACredentialErrorSaysWhatToDo(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]*httpclient.CredentialError{
		"GET /a not sent: its Authorization was refused with 401; it is not used again for 5m0s": {
			Route: "GET /a", Status: 401, Everywhere: true, RetryAfter: 5 * time.Minute,
		},
		"GET /a not sent: its Authorization was refused with 401 on this route; it is not used again for 10m0s": {
			Route: "GET /a", Status: 401, RetryAfter: 10 * time.Minute,
		},
		"GET /a not sent: its webhook was refused with 404; it is not used again for 10m0s": {
			Route: "GET /a", Kind: httpclient.CredentialWebhook, Status: 404, RetryAfter: 10*time.Minute - 1,
		},
		"GET /a not sent: its interaction token was refused with 401; it is not used again for 10m0s": {
			Route: "GET /a", Kind: httpclient.CredentialInteraction, Status: 401, RetryAfter: 10 * time.Minute,
		},
		"GET /a not sent: its CredentialKind(9) was refused with 401; it is not used again for 0s": {
			Route: "GET /a", Kind: 9, Status: 401,
		},
	} {
		assert.EqualError(t, err, want)
		text, failed := json.Marshal(err)
		assert.NoError(t, failed)
		assert.NotContains(t, string(text), "SeCrEt")
		assert.NoError(t, errors.Unwrap(err))
	}
	assert.Equal(t, "CredentialKind(-1)", httpclient.CredentialKind(-1).String())
}

// net/http sends a header however its name is capitalized. So the token in it must have its own buckets, its own global
// limit and its own 401s.
func TestAnAuthorizationIsOneHoweverItsNameIsSpelled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := newScript(
			answer(http.StatusOK, "{}", "X-RateLimit-Bucket: b", "X-RateLimit-Limit: 1",
				"X-RateLimit-Remaining: 0", "X-RateLimit-Reset-After: 60"),
			answer(http.StatusOK, "{}", "X-RateLimit-Bucket: b", "X-RateLimit-Limit: 1",
				"X-RateLimit-Remaining: 0", "X-RateLimit-Reset-After: 60"),
			unauthorized)
		transport := newTransport(t, below)
		spelled := func(token string, r *http.Request) *http.Request {
			r.Header.Del("Authorization")
			r.Header["authorization"] = []string{token}
			return r
		}
		for _, token := range []string{"Bot one", "Bot two"} {
			c := send(transport, spelled(token, newMessage(t)))
			assertStatus(t, http.StatusOK, c)
			assert.Less(t, c.took, time.Second, "%s waited for the bucket of another token", token)
			time.Sleep(time.Millisecond)
		}
		assertStatus(t, http.StatusUnauthorized, send(transport, spelled("Bot one", getting(t, "/users/@me"))))
		stopped := httpclient.CredentialError{Route: "GET /users/@me", Status: 401, RetryAfter: 10 * time.Minute}
		assertStopped(t, transport, below, as(getting(t, "/users/@me"), "Bot one"), stopped)
	})
}

func TestAnAuthorizationIsLeftOutHoweverItsNameIsSpelled(t *testing.T) {
	t.Parallel()
	below := newScript(answer(http.StatusOK, ""))
	r := as(newRequest(t, http.MethodGet, webhook, ""), "")
	r.Header["AUTHORIZATION"] = []string{authorization}
	assertStatus(t, http.StatusOK, send(newTransport(t, below), r))
	assert.Empty(t, below.requests()[0].request.Header)
}

// http.Client makes this header from a name and a password in the URL. A proxy may ask for it.
func TestABasicAuthorizationIsKeptWhereThePathHasAToken(t *testing.T) {
	t.Parallel()
	below := newScript(answer(http.StatusOK, ""))
	r := newRequest(t, http.MethodGet, webhook, "")
	r.SetBasicAuth("user", "password")
	assertStatus(t, http.StatusOK, send(newTransport(t, below), r))
	_, password, _ := below.requests()[0].request.BasicAuth()
	assert.Equal(t, "password", password)
}

func TestA404StopsAWebhookThatIsGone(t *testing.T) {
	const gone, unknown = `{"message":"Unknown Webhook","code":10015}`, `{"message":"404: Not Found","code":0}`
	type story struct {
		method, path, body string
		stops              bool
	}
	inBubbles(t, map[string]story{
		"post, unknown webhook":             {"POST", webhook, gone, true},
		"post with a query":                 {"POST", webhook + "?wait=true", gone, true},
		"post to Slack's variant":           {"POST", webhook + "/slack", gone, true},
		"edit, unknown webhook":             {"PATCH", webhook + "/messages/2", gone, true},
		"a large answer":                    {"POST", webhook, gone + strings.Repeat(" ", 1<<20), true},
		"get, another code":                 {"GET", webhook, `{"code":10003}`, false},
		"post, unknown channel":             {"POST", webhook, `{"code":10003}`, false},
		"post without a code":               {"POST", webhook, unknown, false},
		"post, no JSON":                     {"POST", webhook, "<html>10015", false},
		"post, nothing":                     {"POST", webhook, "", false},
		"post, the code too late to see":    {"POST", webhook, `{"message":"` + strings.Repeat("x", 1<<20) + `","code":10015}`, false},
		"a message of the webhook":          {"PATCH", webhook + "/messages/2", `{"code":10008}`, false},
		"a message of the webhook, no code": {"GET", webhook + "/messages/2", unknown, false},
		"a thread of the webhook":           {"POST", webhook + "?thread_id=3", `{"code":10003}`, false},
		"deleting a message of the webhook": {"DELETE", webhook + "/messages/2", "", false},
	}, func(t *testing.T, c story) {
		var bodies ledger
		below := newScript(answerWith(http.StatusNotFound,
			func() io.ReadCloser { return bodies.open(strings.NewReader(c.body)) }))
		transport := newTransport(t, below)
		request := func() *http.Request { return as(newRequest(t, c.method, c.path, ""), "") }
		first := send(transport, request())
		assertStatus(t, http.StatusNotFound, first)
		assert.True(t, first.body == c.body, "the body is not whole: %d of %d bytes", len(first.body), len(c.body))
		bodies.assertClosed(t)

		if c.stops {
			post := func() *http.Request { return as(newRequest(t, http.MethodPost, webhook, "{}"), "Bot fine") }
			below.answers = answers(answer(http.StatusOK, ""))
			for _, other := range []string{"/api/v10/webhooks/1/another", "/api/v10/webhooks/2/" + webhookSecret} {
				assertStatus(t, http.StatusOK, send(transport, as(newRequest(t, http.MethodPost, other, "{}"), "Bot fine")))
			}
			assertRests(t, transport, below, post, httpclient.CredentialError{
				Route: "POST /webhooks/{webhook_id}/{webhook_token}", Kind: httpclient.CredentialWebhook, Status: 404,
			})
			assertStatus(t, http.StatusOK, send(transport, post()))
			return
		}
		assertStatus(t, http.StatusNotFound, send(transport, request()))
		assert.Len(t, below.requests(), 2)
	})
}

func TestA404OfAnInteractionStopsNothing(t *testing.T) {
	t.Parallel()
	for _, path := range []string{followUp, followUp + "/messages/@original", callback} {
		for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodPatch, http.MethodDelete} {
			inBubble(t, method+" "+path, func(t *testing.T) {
				transport := newTransport(t, newScript(answer(http.StatusNotFound, `{"code":10015}`)))
				for range 3 { // a follow-up may come before Discord has processed the callback
					assertStatus(t, http.StatusNotFound, send(transport, newRequest(t, method, path, "")))
				}
			})
		}
	}
}

func TestTheBodyOfA404ThatBreaksOffBreaksOffForTheCaller(t *testing.T) {
	bubble(t, func(t *testing.T) {
		lost := lostConnection()
		below := newScript(answerWith(http.StatusNotFound, func() io.ReadCloser {
			return io.NopCloser(io.MultiReader(strings.NewReader(`{"code":`), &breaking{lost}))
		}))
		c := send(newTransport(t, below), newRequest(t, http.MethodPost, webhook, "{}")).wait()
		assert.ErrorIs(t, c.err, lost)
		assert.Equal(t, `{"code":`, c.body)
	})
}

type breaking struct{ err error }

func (b *breaking) Read([]byte) (int, error) { return 0, b.err }
