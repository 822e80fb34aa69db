package httpclient_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient"
)

const (
	webhook  = "/api/v10/webhooks/1/" + webhookSecret
	followUp = "/api/v10/webhooks/1/" + replySecret
)

// as returns the request with another Authorization, without one if it is empty.
func as(r *http.Request, authorization string) *http.Request {
	r.Header.Del("Authorization")
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	return r
}

// byCredential answers with the status to requests for which the condition holds, and with 200 to all others.
func byCredential(status int, body string, bad func(r *http.Request) bool) *script {
	return newScript(func(r *http.Request) (*http.Response, error) {
		if bad(r) {
			return answer(status, body)(r)
		}
		return answer(http.StatusOK, "{}")(r)
	})
}

func withPath(parts ...string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		for _, part := range parts {
			if strings.Contains(r.URL.Path, part) {
				return true
			}
		}
		return false
	}
}

// assertStopped asserts that the request is refused without being sent, and without a trace in the limiter.
func assertStopped(t *testing.T, transport *httpclient.Transport, below *script, r *http.Request, want httpclient.CredentialError) {
	t.Helper()
	sent, before := len(below.requests()), transport.Manager().Stats()
	var bodies ledger
	if r.Body != nil {
		r.Body = bodies.open(r.Body)
		defer bodies.assertClosed(t)
	}
	c := send(transport, r).wait()
	var stopped *httpclient.CredentialError
	require.ErrorAs(t, c.err, &stopped)
	assert.Equal(t, want, *stopped)
	assert.Zero(t, c.took)
	assert.Len(t, below.requests(), sent, "it was sent")
	assert.Equal(t, before, transport.Manager().Stats())
	assertNoSecretIn(t, stopped, stopped.Error())
}

func TestA401StopsItsAuthorizationUntilItIsReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const bad, other = "Bot " + botSecret, "Bot replacement"
		below := byCredential(http.StatusUnauthorized, `{"message":"401: Unauthorized","code":0}`,
			func(r *http.Request) bool { return r.Header.Get("Authorization") == bad })
		transport := newTransport(t, below)
		first := send(transport, as(newMessage(t), bad))
		assertStatus(t, http.StatusUnauthorized, first)
		assert.JSONEq(t, `{"message":"401: Unauthorized","code":0}`, first.body)

		stopped := httpclient.CredentialError{Route: "POST /channels/{channel_id}/messages", Status: 401}
		assertStopped(t, transport, below, as(newMessage(t), bad), stopped)
		stopped.Route = "GET /guilds/{guild_id}/roles"
		assertStopped(t, transport, below, as(newRequest(t, http.MethodGet, otherRoute, ""), bad), stopped)
		time.Sleep(30 * 24 * time.Hour) // it does not get better by itself
		assertStopped(t, transport, below, as(newRequest(t, http.MethodGet, otherRoute, ""), bad), stopped)

		for _, authorization := range []string{other, "Bearer " + botSecret, ""} {
			assertStatus(t, http.StatusOK, send(transport, as(newMessage(t), authorization)))
		}
		assertStatus(t, http.StatusOK, send(transport, as(newRequest(t, http.MethodPost, webhook, "{}"), "")))

		transport.Readmit(other) // changes nothing for anybody
		transport.Readmit("")
		assertStopped(t, transport, below, as(newRequest(t, http.MethodGet, otherRoute, ""), bad), stopped)
		transport.Readmit(bad)
		assertStatus(t, http.StatusUnauthorized, send(transport, as(newMessage(t), bad))) // and it is stopped again
		assertStopped(t, transport, below, as(newRequest(t, http.MethodGet, otherRoute, ""), bad), stopped)
	})
}

// Those that wait when the credential is refused would all be refused as well.
func TestA401StopsThoseInTheQueueToo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		below := newScript(answer(http.StatusUnauthorized, "{}"))
		below.takes = 100 * time.Millisecond
		transport := newTransport(t, below)
		first := send(transport, newMessage(t)) // the probe, for whose outcome the others wait
		synctest.Wait()
		var queued []*call
		for range 20 {
			queued = append(queued, send(transport, newMessage(t)))
		}
		assertStatus(t, http.StatusUnauthorized, first)
		for _, c := range queued {
			assert.ErrorAs(t, c.wait().err, new(*httpclient.CredentialError))
		}
		assert.Len(t, below.requests(), 1)
	})
}

func TestReadmittingLetsACredentialGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		below := newScript(answer(http.StatusUnauthorized, ""), answer(http.StatusOK, ""))
		transport := newTransport(t, below)
		assertStatus(t, http.StatusUnauthorized, send(transport, newMessage(t)))
		transport.Readmit(authorization)
		assertStatus(t, http.StatusOK, send(transport, newMessage(t)), send(transport, getChannel(t)))
	})
}

func TestOnlyA401StopsAnAuthorization(t *testing.T) {
	t.Parallel()
	for _, status := range []int{200, 204, 400, 402, 403, 404, 407, 410, 500, 502} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				transport := newTransport(t, newScript(answer(status, `{"code":10015}`)), httpclient.WithRetries(0))
				for range 3 {
					assertStatus(t, status, send(transport, newMessage(t)))
				}
			})
		})
	}
}

// There is nothing that could be stopped; each request is the caller's to judge.
func TestA401WithoutACredentialStopsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		transport := newTransport(t, newScript(answer(http.StatusUnauthorized, "")))
		for range 3 {
			assertStatus(t, http.StatusUnauthorized, send(transport, as(newMessage(t), "")))
		}
	})
}

func TestA401OfATokenInAPathStopsThatTokenOnly(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		path, same, other string
		stopped           httpclient.CredentialError
	}{
		"webhook": {
			webhook, webhook + "/messages/5", "/api/v10/webhooks/1/another",
			httpclient.CredentialError{Route: "PATCH /webhooks/{webhook_id}/{webhook_token}/messages/{message_id}",
				Kind: httpclient.CredentialWebhook, RetryAfter: 24 * time.Hour},
		},
		"interaction": {
			followUp, followUp + "/messages/@original", "/api/v10/webhooks/1/aW50ZXJhY3Rpb246another",
			httpclient.CredentialError{Route: "PATCH /webhooks/{webhook_id}/{webhook_token}/messages/@original (interaction)",
				Kind: httpclient.CredentialInteraction, RetryAfter: 15 * time.Minute},
		},
	} {
		for _, authorization := range []string{"", "Bot " + botSecret} {
			c := c // it is changed
			t.Run(name+", "+authorization, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					post := func(path string) *http.Request {
						return as(newRequest(t, http.MethodPost, path, "{}"), authorization)
					}
					edit := func() *http.Request { return as(newRequest(t, http.MethodPatch, c.same, "{}"), authorization) }
					below := byCredential(http.StatusUnauthorized, `{"message":"Invalid Webhook Token","code":50027}`, withPath(webhookSecret, replySecret))
					transport := newTransport(t, below)
					assertStatus(t, http.StatusUnauthorized, send(transport, post(c.path)))
					c.stopped.Status = http.StatusUnauthorized
					assertStopped(t, transport, below, edit(), c.stopped)

					assertStatus(t, http.StatusOK, send(transport, post(c.other)))
					assertStatus(t, http.StatusOK, send(transport, as(newMessage(t), "Bot "+botSecret)))

					life := c.stopped.RetryAfter
					time.Sleep(life - time.Second)
					c.stopped.RetryAfter = time.Second
					assertStopped(t, transport, below, edit(), c.stopped)
					time.Sleep(time.Second)
					assertStatus(t, http.StatusUnauthorized, send(transport, post(c.path))) // and again
					c.stopped.RetryAfter = life
					assertStopped(t, transport, below, edit(), c.stopped)
				})
			})
		}
	}
}

// The id alone is no secret: it is the bot's Authorization that does not work.
func TestA401OfAWebhookByItsIdStopsTheAuthorization(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		below := byCredential(http.StatusUnauthorized, "{}", func(r *http.Request) bool { return r.Header.Get("Authorization") != "" })
		transport := newTransport(t, below)
		assertStatus(t, http.StatusUnauthorized, send(transport, newRequest(t, http.MethodGet, "/api/v10/webhooks/1", "")))
		assertStopped(t, transport, below, newMessage(t), httpclient.CredentialError{Route: "POST /channels/{channel_id}/messages", Status: 401})
		assertStatus(t, http.StatusOK, send(transport, as(newRequest(t, http.MethodPost, webhook, "{}"), "")))
	})
}

func TestACredentialErrorSaysWhatToDo(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]*httpclient.CredentialError{
		"GET /a not sent: Discord has answered 401 to its Authorization; replace it, or call Readmit":         {Route: "GET /a", Status: 401},
		"GET /a not sent: Discord has answered 404 to its webhook; it is not tried again for 10m0s":           {Route: "GET /a", Kind: httpclient.CredentialWebhook, Status: 404, RetryAfter: 10*time.Minute - 1},
		"GET /a not sent: Discord has answered 401 to its interaction token; it is not tried again for 15m0s": {Route: "GET /a", Kind: httpclient.CredentialInteraction, Status: 401, RetryAfter: 15 * time.Minute},
		"GET /a not sent: Discord has answered 401 to its CredentialKind(9); it is not tried again for 0s":    {Route: "GET /a", Kind: 9, Status: 401},
	} {
		assert.EqualError(t, err, want)
		text, failed := json.Marshal(err)
		assert.NoError(t, failed)
		assert.NotContains(t, string(text), "SeCrEt")
		assert.NoError(t, errors.Unwrap(err))
	}
	assert.Equal(t, "CredentialKind(-1)", httpclient.CredentialKind(-1).String())
}

// Without the code of an invalid token in the path, it is the Authorization that was refused: nobody else's use of the webhook stops.
func TestA401OfTheAuthorizationOnAWebhookStopsTheAuthorization(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		below := roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Header.Get("Authorization") == "Bot bad" {
				return answer(http.StatusUnauthorized, `{"message":"401: Unauthorized","code":0}`)(r)
			}
			return answer(http.StatusOK, "{}")(r)
		})
		transport := newTransport(t, below)
		post := func(credential string) *call {
			return send(transport, as(newRequest(t, http.MethodPost, webhook, "{}"), credential))
		}
		assertStatus(t, http.StatusUnauthorized, post("Bot bad"))
		assertStatus(t, http.StatusOK, post("Bot good"))
		assertStatus(t, http.StatusOK, post(""))
		var stopped *httpclient.CredentialError
		require.ErrorAs(t, post("Bot bad").wait().err, &stopped)
		assert.Equal(t, httpclient.CredentialAuthorization, stopped.Kind)
	})
}

func TestA401ThatIsNotDiscordsStopsNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		below := newScript(answer(http.StatusUnauthorized, "<html>Log in to the hotel's network", "Content-Type: text/html"), answer(http.StatusOK, "{}"))
		transport := newTransport(t, below)
		first := send(transport, newMessage(t))
		assertStatus(t, http.StatusUnauthorized, first)
		assert.Contains(t, first.body, "hotel", "the body is whole")
		assertStatus(t, http.StatusOK, send(transport, newMessage(t)))
	})
}

func TestA401UnderWayWhenReadmittedStopsNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		below := newScript(answer(http.StatusUnauthorized, "{}"), answer(http.StatusOK, "{}"))
		below.takes = time.Second
		transport := newTransport(t, below)
		late := send(transport, newMessage(t))
		time.Sleep(500 * time.Millisecond)
		transport.Readmit(authorization)
		assertStatus(t, http.StatusUnauthorized, late)
		assertStatus(t, http.StatusOK, send(transport, newMessage(t)))
	})
}
