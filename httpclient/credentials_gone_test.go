package httpclient_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient"
)

func TestA404StopsAWebhookThatIsGone(t *testing.T) {
	t.Parallel()
	const gone, unknown = `{"message":"Unknown Webhook","code":10015}`, `{"message":"404: Not Found","code":0}`
	for name, c := range map[string]struct {
		method, path, body string
		stops              bool
	}{
		"post, unknown webhook":           {"POST", webhook, gone, true},
		"post with a query":               {"POST", webhook + "?wait=true", gone, true},
		"post to Slack's variant":         {"POST", webhook + "/slack", gone, true},
		"edit, unknown webhook":           {"PATCH", webhook + "/messages/2", gone, true},
		"a large answer":                  {"POST", webhook, gone + strings.Repeat(" ", 1<<20), true},
		"get without a code":              {"GET", webhook, unknown, true},
		"patch without a code":            {"PATCH", webhook, "", true},
		"delete without a code":           {"DELETE", webhook, "<html>", true},
		"get, another code":               {"GET", webhook, `{"code":10003}`, false},
		"post, unknown channel":           {"POST", webhook, `{"code":10003}`, false},
		"post without a code":             {"POST", webhook, unknown, false},
		"post, no JSON":                   {"POST", webhook, "<html>10015", false},
		"post, nothing":                   {"POST", webhook, "", false},
		"post, the code too late to see":  {"POST", webhook, `{"message":"` + strings.Repeat("x", 1<<20) + `","code":10015}`, false},
		"a message of it":                 {"PATCH", webhook + "/messages/2", `{"code":10008}`, false},
		"a message of it, without a code": {"GET", webhook + "/messages/2", unknown, false},
		"a thread of it":                  {"POST", webhook + "?thread_id=3", `{"code":10003}`, false},
		"deleting a message of it":        {"DELETE", webhook + "/messages/2", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var bodies ledger
				below := newScript(answerWith(http.StatusNotFound, func() io.ReadCloser { return bodies.open(strings.NewReader(c.body)) }))
				transport := newTransport(t, below)
				request := func() *http.Request { return as(newRequest(t, c.method, c.path, ""), "") }
				first := send(transport, request())
				assertStatus(t, http.StatusNotFound, first)
				assert.True(t, first.body == c.body, "the body is not whole: %d of %d bytes", len(first.body), len(c.body))
				bodies.assertClosed(t)

				if c.stops {
					post := func() *http.Request { return as(newRequest(t, http.MethodPost, webhook, "{}"), "Bot fine") }
					stopped := httpclient.CredentialError{Route: "POST /webhooks/{webhook_id}/{webhook_token}",
						Kind: httpclient.CredentialWebhook, Status: 404, RetryAfter: 10 * time.Minute}
					assertStopped(t, transport, below, post(), stopped)
					time.Sleep(10*time.Minute - time.Second)
					stopped.RetryAfter = time.Second
					assertStopped(t, transport, below, post(), stopped)
					below.answers = answers(answer(http.StatusOK, ""))
					assertStatus(t, http.StatusOK, send(transport, as(newRequest(t, http.MethodPost, "/api/v10/webhooks/1/another", "{}"), "Bot fine")))
					assertStatus(t, http.StatusOK, send(transport, as(newRequest(t, http.MethodPost, "/api/v10/webhooks/2/"+webhookSecret, "{}"), "Bot fine")))
					time.Sleep(time.Second)
					assertStatus(t, http.StatusOK, send(transport, post()))
					return
				}
				assertStatus(t, http.StatusNotFound, send(transport, request()))
				assert.Len(t, below.requests(), 2)
			})
		})
	}
}

func TestA404OfAnInteractionStopsNothing(t *testing.T) {
	t.Parallel()
	for _, path := range []string{followUp, followUp + "/messages/@original", callback} {
		for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodPatch, http.MethodDelete} {
			t.Run(method+" "+path, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					transport := newTransport(t, newScript(answer(http.StatusNotFound, `{"code":10015}`)))
					for range 3 { // a follow-up comes too early, before the callback has been taken in
						assertStatus(t, http.StatusNotFound, send(transport, newRequest(t, method, path, "")))
					}
				})
			})
		}
	}
}

func TestTheBodyOfA404ThatBreaksOffBreaksOffForTheCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
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

// A webhook whose token is not valid is stopped for a day. A 404 that was under way at the same time does not make that shorter.
func TestALater404DoesNotShortenTheStopOfA401(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		below := roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodGet {
				time.Sleep(2 * time.Second)
				return answer(http.StatusNotFound, `{"code":10015}`)(r)
			}
			time.Sleep(time.Second)
			return answer(http.StatusUnauthorized, "{}")(r)
		})
		transport := newTransport(t, below)
		request := func(method string) *http.Request { return as(newRequest(t, method, webhook, ""), "") }
		late, early := send(transport, request(http.MethodGet)), send(transport, request(http.MethodPost))
		assertStatus(t, http.StatusUnauthorized, early)
		assertStatus(t, http.StatusNotFound, late)
		var stopped *httpclient.CredentialError
		require.ErrorAs(t, send(transport, request(http.MethodPost)).wait().err, &stopped)
		assert.Greater(t, stopped.RetryAfter, time.Hour)
	})
}
