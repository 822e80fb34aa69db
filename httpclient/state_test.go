package httpclient_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/wire"
)

// stateOf returns the state of a transport that is closed, or was killed.
func stateOf(t *testing.T, transport *httpclient.Transport, clean bool) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, transport.WriteState(&b))
	if clean {
		require.NoError(t, transport.Close())
		b.Reset()
		require.NoError(t, transport.WriteState(&b))
	}
	return b.Bytes()
}

func TestCredentialsThatAreStoppedStayStoppedInTheNextProcess(t *testing.T) {
	t.Parallel()
	const hook = "/api/v10/webhooks/5/secret-token-of-a-webhook"
	for _, clean := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			code := func(path string, status int, body string) discordsim.Rule {
				return discordsim.Rule{Path: path, Status: status, Body: body, Quota: discordsim.Unlimited()}
			}
			server := newDiscord(t, discordsim.Config{Global: discordsim.Unlimited(), Rules: []discordsim.Rule{
				code("/webhooks/5/{token}", 404, `{"code": 10015, "message": "Unknown Webhook"}`),
				code("/webhooks/6/{token}", 401, `{"code": 50027, "message": "Invalid Webhook Token"}`),
				code("/channels/3", 401, `{"code": 0, "message": "401: Unauthorized"}`),
				code("/users/@me", 401, `{"code": 0, "message": "401: Unauthorized"}`),
				code("**", 200, `{}`),
			}})
			send := func(transport *httpclient.Transport, method, path, authorization string) (int, error) {
				r := newRequest(t, method, path, "")
				r.Header.Del("Authorization")
				if authorization != "" {
					r.Header.Set("Authorization", authorization)
				}
				response, err := transport.RoundTrip(r)
				if err != nil {
					return 0, err
				}
				_, _ = io.Copy(io.Discard, response.Body)
				return response.StatusCode, response.Body.Close()
			}
			calls := []struct{ method, path, authorization string }{
				{"POST", hook, ""},
				{"POST", "/api/v10/webhooks/6/another-token-of-a-webhook", ""},
				{"GET", "/api/v10/channels/3", "Bot one"},
				{"GET", "/api/v10/users/@me", "Bot revoked"},
			}
			first := newTransport(t, server.RoundTripper())
			for _, c := range calls {
				_, err := send(first, c.method, c.path, c.authorization)
				require.NoError(t, err)
			}
			state := stateOf(t, first, clean)
			for _, secret := range []string{"secret-token", "another-token", "revoked", "Bot "} {
				assert.NotContains(t, string(state), secret)
			}
			second := newTransport(t, server.RoundTripper())
			require.NoError(t, second.RestoreState(bytes.NewReader(state)))
			before := server.Report().Requests
			for range 2 {
				for _, c := range calls {
					_, err := send(second, c.method, c.path, c.authorization)
					var stopped *httpclient.CredentialError
					require.ErrorAs(t, err, &stopped, "%s", c.path)
				}
				var everywhere *httpclient.CredentialError
				_, err := send(second, "GET", "/api/v10/channels/9", "Bot revoked")
				require.ErrorAs(t, err, &everywhere)
				assert.Zero(t, everywhere.RetryAfter)
				for range 2 { // and in the one after that, also if the one in between sent nothing
					next := newTransport(t, server.RoundTripper())
					require.NoError(t, next.RestoreState(bytes.NewReader(stateOf(t, second, clean))))
					second = next
				}
			}
			assert.Equal(t, before, server.Report().Requests, "nothing was sent")
			for _, authorization := range []string{"Bot one", "Bot two"} {
				status, err := send(second, "GET", "/api/v10/channels/9", authorization)
				require.NoError(t, err)
				assert.Equal(t, 200, status)
			}
			second.ResetCredential("Bot revoked")
			_, err := send(second, "GET", "/api/v10/channels/9", "Bot revoked")
			require.NoError(t, err)
			time.Sleep(11 * time.Minute)
			_, err = send(second, "GET", "/api/v10/channels/3", "Bot one")
			require.NoError(t, err, "not for ever")
		})
	}
}

func TestStateOfATransportIsThatOfItsManagerToo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := newDiscord(t, discordsim.Config{Rules: []discordsim.Rule{{Path: "**", Quota: discordsim.Fixed(5, time.Minute)}}})
		key := httpclient.WithStateKey([]byte("secret"))
		first := newTransport(t, server.RoundTripper(), key)
		for range 5 {
			response, err := first.RoundTrip(newRequest(t, "GET", messages, ""))
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
		}
		state := stateOf(t, first, true)
		assert.ErrorIs(t, newTransport(t, server.RoundTripper()).RestoreState(bytes.NewReader(state)), buckets.ErrState)
		assert.ErrorIs(t, newTransport(t, server.RoundTripper(), key).RestoreState(bytes.NewReader(state[:len(state)-1])), buckets.ErrState)
		second := newTransport(t, server.RoundTripper(), key)
		require.NoError(t, second.RestoreState(bytes.NewReader(state)))
		start := time.Now()
		response, err := second.RoundTrip(newRequest(t, "GET", messages, ""))
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		assert.Equal(t, http.StatusOK, response.StatusCode)
		assert.InDelta(t, time.Minute, time.Since(start), float64(time.Second))
		assert.Error(t, second.RestoreState(bytes.NewReader(state)), "it is in use")
	})
}

func TestTransportWithAManagerOfItsOwnersKeepsCredentialsOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := newDiscord(t, discordsim.Config{Rules: []discordsim.Rule{{Path: "**", Status: 401, Body: `{"code": 0, "message": "401"}`, Quota: discordsim.Unlimited()}}})
		manager := func() *buckets.RESTBucketManager {
			m := buckets.NewRESTBucketManager()
			require.NoError(t, m.Start())
			t.Cleanup(func() { _ = m.Close() })
			return m
		}
		first := newTransport(t, server.RoundTripper(), httpclient.WithManager(manager()))
		ask := func(transport *httpclient.Transport) error {
			response, err := transport.RoundTrip(newRequest(t, "GET", messages, ""))
			if err == nil {
				_, _ = io.Copy(io.Discard, response.Body)
				err = response.Body.Close()
			}
			return err
		}
		require.NoError(t, ask(first))
		second := newTransport(t, server.RoundTripper(), httpclient.WithManager(manager()))
		require.NoError(t, second.RestoreState(strings.NewReader(string(stateOf(t, first, true)))))
		var stopped *httpclient.CredentialError
		assert.ErrorAs(t, ask(second), &stopped)
	})
}

func FuzzRestoreStateOfATransport(f *testing.F) {
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{1}, 64))
	f.Fuzz(func(t *testing.T, contents []byte) {
		if len(contents) > 1<<16 {
			return
		}
		transport := httpclient.NewTransport()
		defer transport.Close()
		var b bytes.Buffer
		require.NoError(t, transport.WriteState(&b))
		head := b.Bytes()[6 : 6+16+8] // of this transport's key
		state := wire.EndBlock(append(append(wire.BeginBlock('T', 1), head...), contents...))
		if transport.RestoreState(bytes.NewReader(state)) == nil {
			require.NoError(t, transport.WriteState(io.Discard))
		}
		_ = transport.RestoreState(bytes.NewReader(contents))
	})
}

func TestStateThatCannotBeWrittenIsAnError(t *testing.T) {
	t.Parallel()
	transport := newTransport(t, newScript(unauthorized))
	full := errors.New("disk full")
	reader, writer := io.Pipe()
	require.NoError(t, reader.CloseWithError(full))
	assert.ErrorIs(t, transport.WriteState(writer), full)

	unasked := newTransport(t, newScript(unauthorized))
	require.NoError(t, unasked.Close())
	assert.ErrorIs(t, unasked.WriteState(io.Discard), buckets.ErrClosed, "nobody has said before that it is wanted")
}

// What is known of an Authorization does not hide in the next process that it is a bot's.
func TestTokenThatWasRefusedBeforeIsProvedNotToBeValidInTheNextProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first := newTransport(t, roundTripper(unauthorized))
		assertStatus(t, http.StatusUnauthorized, send(first, getting(t, "/guilds/1")))
		second := newTransport(t, roundTripper(unauthorized))
		require.NoError(t, second.RestoreState(bytes.NewReader(stateOf(t, first, true))))
		assertStatus(t, http.StatusUnauthorized, send(second, getting(t, "/users/@me")))
		var stopped *httpclient.CredentialError
		require.ErrorAs(t, send(second, getting(t, "/channels/1")).wait().err, &stopped)
		assert.True(t, stopped.Everywhere)
		assert.Zero(t, stopped.RetryAfter, "for ever")
	})
}

// A 401 that a success has put out of date before is so in the next process, too.
func TestA401BeforeASuccessDoesNotCountInTheNextProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first := sendAll(t, step{"/guilds/1", 0, 401}, step{"/users/1", 0, 200}, step{"/channels/1", 0, 401})
		second := newTransport(t, newScript(unauthorized, answer(http.StatusOK, "{}")))
		require.NoError(t, second.RestoreState(bytes.NewReader(stateOf(t, first, true))))
		assertStatus(t, http.StatusUnauthorized, send(second, getting(t, "/channels/2")))
		assertStatus(t, http.StatusOK, send(second, getting(t, "/users/1")))
	})
}
