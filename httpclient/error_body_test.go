package httpclient_test

import (
	"encoding/json"
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

// lateErrors are error responses whose body says which credential is refused.
var lateErrors = map[string]struct {
	status       int
	body         string
	kind         httpclient.CredentialKind
	method, path string
}{
	"401 of a bot": {
		401, `{"message":"401: Unauthorized","code":0}`, httpclient.CredentialAuthorization, http.MethodGet,
		"/api/v10/users/@me",
	},
	"401 of a webhook": {401, `{"message":"Invalid Webhook Token","code":50027}`, httpclient.CredentialWebhook, http.MethodPost, webhook},
	"404 of a webhook": {404, `{"message":"Unknown Webhook","code":10015}`, httpclient.CredentialWebhook, http.MethodPost, webhook},
}

func TestALateBodyOfAnErrorDelaysNoResponse(t *testing.T) {
	t.Parallel()
	for name, c := range lateErrors {
		inBubble(t, name, func(t *testing.T) {
			below := newScript(answerSlowly(c.status, c.body, 5*time.Second, "Content-Type: application/json"))
			transport := newTransport(t, below)
			start := time.Now()
			response := roundTrip(t, transport, as(newRequest(t, c.method, c.path, ""), bad))
			assert.Zero(t, time.Since(start))
			content, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			assert.Equal(t, c.body, string(content))
			assert.Equal(t, 5*time.Second, time.Since(start))

			stopped := lookup(t, transport, c.method, c.path)
			assert.Equal(t, c.kind, stopped.Kind)
		})
	}
}

// lookup sends a request that must not leave, and returns the error.
func lookup(t *testing.T, transport *httpclient.Transport, method, path string) (stopped *httpclient.CredentialError) {
	t.Helper()
	require.ErrorAs(t, send(transport, as(newRequest(t, method, path, ""), bad)).wait().err, &stopped)
	return stopped
}

// Many callers close an error's body unread, or read only a part. The transport must see the whole body even then.
func TestTheBodyOfAnErrorIsLookedAtHoweverItIsRead(t *testing.T) {
	t.Parallel()
	for name, c := range lateErrors {
		for how, read := range map[string]func(body io.ReadCloser){
			"not at all": func(io.ReadCloser) {},
			"a byte":     func(body io.ReadCloser) { _, _ = body.Read(make([]byte, 1)) },
			"decoded":    func(body io.ReadCloser) { _ = json.NewDecoder(body).Decode(&struct{}{}) },
			"closed twice": func(body io.ReadCloser) {
				assert.NoError(t, body.Close())
			},
		} {
			inBubble(t, name+", "+how, func(t *testing.T) {
				transport := newTransport(t,
					newScript(answer(c.status, c.body+strings.Repeat(" ", 10_000), "Content-Type: application/json")))
				response := roundTrip(t, transport, as(newRequest(t, c.method, c.path, ""), bad))
				read(response.Body)
				start := time.Now()
				require.NoError(t, response.Body.Close())
				assert.Zero(t, time.Since(start))
				assert.Equal(t, c.kind, lookup(t, transport, c.method, c.path).Kind)
			})
		}
	}
}

func TestClosingABodyEndsAReadOfIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := newScript(answerSlowly(http.StatusUnauthorized, "{}", time.Hour))
		response := roundTrip(t, newTransport(t, below, httpclient.WithAttemptTimeout(0)), posting(t, 1))
		ended := make(chan error, 1)
		go func() {
			_, err := response.Body.Read(make([]byte, 10))
			ended <- err
		}()
		synctest.Wait()
		start := time.Now()
		require.NoError(t, response.Body.Close())
		require.ErrorIs(t, <-ended, errClosedBody)
		assert.LessOrEqual(t, time.Since(start), 100*time.Millisecond)
	})
}
