package httpclient_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient"
)

// stalling is a body that comes after a delay. Closing it ends a read that waits.
type stalling struct {
	io.Reader
	delay  time.Duration
	once   sync.Once
	closed chan struct{}
	end    error // of a read when it is closed
}

func stall(delay time.Duration, content string) *stalling {
	return &stalling{Reader: strings.NewReader(content), delay: delay, closed: make(chan struct{}), end: errClosedBody}
}

var errClosedBody = errors.New("read on closed body")

func (s *stalling) Read(p []byte) (int, error) {
	select {
	case <-time.After(s.delay):
		s.delay = 0
		return s.Reader.Read(p)
	case <-s.closed:
		return 0, s.end
	}
}

func (s *stalling) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// lateErrors are errors whose body says whose credential is refused.
var lateErrors = map[string]struct {
	status       int
	body         string
	kind         httpclient.CredentialKind
	method, path string
}{
	"401 of a bot":     {401, `{"message":"401: Unauthorized","code":0}`, httpclient.CredentialAuthorization, http.MethodGet, "/api/v10/users/@me"},
	"401 of a webhook": {401, `{"message":"Invalid Webhook Token","code":50027}`, httpclient.CredentialWebhook, http.MethodPost, webhook},
	"404 of a webhook": {404, `{"message":"Unknown Webhook","code":10015}`, httpclient.CredentialWebhook, http.MethodPost, webhook},
}

func TestALateBodyOfAnErrorDelaysNoResponse(t *testing.T) {
	t.Parallel()
	for name, c := range lateErrors {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				below := newScript(answerWith(c.status, func() io.ReadCloser { return stall(5*time.Second, c.body) }, "Content-Type: application/json"))
				transport := newTransport(t, below)
				start := time.Now()
				response, err := transport.RoundTrip(as(newRequest(t, c.method, c.path, ""), bad))
				require.NoError(t, err)
				assert.Zero(t, time.Since(start))
				content, err := io.ReadAll(response.Body)
				require.NoError(t, err)
				require.NoError(t, response.Body.Close())
				assert.Equal(t, c.body, string(content))
				assert.Equal(t, 5*time.Second, time.Since(start))

				stopped := lookup(t, transport, c.method, c.path)
				assert.Equal(t, c.kind, stopped.Kind)
				assert.Equal(t, c.kind == httpclient.CredentialAuthorization, stopped.Everywhere)
			})
		})
	}
}

// lookup returns why a request is not sent.
func lookup(t *testing.T, transport *httpclient.Transport, method, path string) (stopped *httpclient.CredentialError) {
	t.Helper()
	require.ErrorAs(t, send(transport, as(newRequest(t, method, path, ""), bad)).wait().err, &stopped)
	return stopped
}

// Many callers close the body of an error and look at its status only, or decode what they need of it.
func TestTheBodyOfAnErrorIsLookedAtHoweverItIsRead(t *testing.T) {
	t.Parallel()
	for name, c := range lateErrors {
		for how, read := range map[string]func(body io.ReadCloser){
			"not at all": func(io.ReadCloser) {},
			"a byte":     func(body io.ReadCloser) { _, _ = body.Read(make([]byte, 1)) },
			"decoded":    func(body io.ReadCloser) { _ = json.NewDecoder(body).Decode(&struct{}{}) },
			"two times closed": func(body io.ReadCloser) {
				assert.NoError(t, body.Close())
			},
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					transport := newTransport(t, newScript(answer(c.status, c.body+strings.Repeat(" ", 10_000), "Content-Type: application/json")))
					response, err := transport.RoundTrip(as(newRequest(t, c.method, c.path, ""), bad))
					require.NoError(t, err)
					read(response.Body)
					start := time.Now()
					require.NoError(t, response.Body.Close())
					assert.Zero(t, time.Since(start))
					assert.Equal(t, c.kind, lookup(t, transport, c.method, c.path).Kind)
				})
			})
		}
	}
}

// What cannot be known without the body is judged by the status and the header.
func TestABodyThatDoesNotComeIsGivenUpWhenItIsClosed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status             int
		method, path, kind string
		stops              bool
	}{
		"401, JSON":             {401, http.MethodGet, "/api/v10/users/@me", "application/json", true},
		"401, HTML":             {401, http.MethodGet, "/api/v10/users/@me", "text/html", false},
		"401, not known":        {401, http.MethodGet, "/api/v10/users/@me", "", true},
		"404 of a webhook":      {404, http.MethodGet, webhook, "application/json", true},
		"404, perhaps of it":    {404, http.MethodPost, webhook, "application/json", false},
		"404 of one of its own": {404, http.MethodPatch, webhook + "/messages/1", "application/json", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				body := stall(time.Hour, "{}")
				body.end = io.EOF // as if it had been empty
				below := newScript(answerWith(c.status, func() io.ReadCloser { return body }, "Content-Type: "+c.kind), answer(http.StatusOK, "{}"))
				transport := newTransport(t, below)
				request := func() *http.Request { return as(newRequest(t, c.method, c.path, ""), bad) }
				response, err := transport.RoundTrip(request())
				require.NoError(t, err)
				start := time.Now()
				require.NoError(t, response.Body.Close())
				assert.LessOrEqual(t, time.Since(start), 100*time.Millisecond)
				again := send(transport, request()).wait()
				if !c.stops {
					assertStatus(t, http.StatusOK, again)
					return
				}
				var stopped *httpclient.CredentialError
				require.ErrorAs(t, again.err, &stopped)
				assert.Equal(t, 10*time.Minute, stopped.RetryAfter.Round(time.Second))
				assertStatus(t, http.StatusOK, send(transport, posting(t, 1)))
			})
		})
	}
}

func TestClosingABodyEndsAReadOfIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		below := newScript(answerWith(http.StatusUnauthorized, func() io.ReadCloser { return stall(time.Hour, "{}") }))
		response, err := newTransport(t, below, httpclient.WithAttemptTimeout(0)).RoundTrip(posting(t, 1))
		require.NoError(t, err)
		ended := make(chan error, 1)
		go func() {
			_, err := response.Body.Read(make([]byte, 10))
			ended <- err
		}()
		synctest.Wait()
		start := time.Now()
		require.NoError(t, response.Body.Close())
		require.ErrorIs(t, <-ended, errClosedBody)
		assert.Zero(t, time.Since(start))
	})
}

// The header looked like Discord's.
func TestA401WhoseBodyIsNotDiscordsIsTakenBack(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"<html>", `"401: Unauthorized"`, `[{"code":0}]`, `{"code":`, "{" + strings.Repeat(" ", 10_000) + "}"} {
		for _, header := range []string{"Content-Type: application/json", "X: y", "Content-Type: text/html"} {
			t.Run(body[:min(len(body), 20)]+header, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					transport := newTransport(t, newScript(answer(http.StatusUnauthorized, body, header)))
					for range 2 {
						for _, r := range []*http.Request{posting(t, 1), getting(t, "/guilds/1"), getting(t, "/users/@me"), newRequest(t, http.MethodPost, webhook, ""),
							as(newRequest(t, http.MethodPost, webhook, ""), "")} {
							assertStatus(t, http.StatusUnauthorized, send(transport, r))
						}
					}
				})
			})
		}
	}
}

// What the beginning of a long page has shown is known before its end.
func TestALongPageIsJudgedByItsBeginning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		page := answer(http.StatusUnauthorized, "<html>"+strings.Repeat("login ", 10_000), "Content-Type: application/json")
		transport := newTransport(t, newScript(page, answer(http.StatusOK, "{}")))
		response, err := transport.RoundTrip(posting(t, 1))
		require.NoError(t, err)
		defer response.Body.Close()
		_, err = io.ReadFull(response.Body, make([]byte, 5_000))
		require.NoError(t, err)
		assertStatus(t, http.StatusOK, send(transport, posting(t, 1)))
	})
}

// slowly answers some time later.
func slowly(d time.Duration, f func(*http.Request) (*http.Response, error)) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		time.Sleep(d)
		return f(r)
	}
}

func TestTakingBackAProxysPageLeavesAnEarlier401(t *testing.T) {
	t.Parallel()
	page := answer(http.StatusUnauthorized, "<html>login", "Content-Type: application/json")
	for name, request := range map[string]func() *http.Request{
		"Authorization": func() *http.Request { return posting(t, 1) },
		"webhook":       func() *http.Request { return as(newRequest(t, http.MethodPost, webhook, "{}"), "") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				below := newScript(answer(http.StatusOK, "{}"), slowly(100*time.Millisecond, unauthorized), slowly(300*time.Millisecond, page), answer(http.StatusOK, "{}"))
				transport := newTransport(t, below)
				assertStatus(t, http.StatusOK, send(transport, request())) // the route is known then
				time.Sleep(time.Millisecond)
				first := send(transport, request())
				time.Sleep(time.Millisecond)
				second := send(transport, request())
				assertStatus(t, http.StatusUnauthorized, first, second)
				assert.ErrorAs(t, send(transport, request()).wait().err, new(*httpclient.CredentialError))
			})
		})
	}
}

func TestASuccessThatLeftBeforeA401LiftsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fine := answer(http.StatusOK, "{}")
		transport := newTransport(t, newScript(fine, slowly(300*time.Millisecond, fine), slowly(100*time.Millisecond, unauthorized), fine))
		assertStatus(t, http.StatusOK, send(transport, posting(t, 1))) // the route is known then
		time.Sleep(time.Millisecond)
		first := send(transport, posting(t, 1))
		time.Sleep(time.Millisecond)
		second := send(transport, posting(t, 1))
		assertStatus(t, http.StatusUnauthorized, second)
		assertStatus(t, http.StatusOK, first)
		assert.ErrorAs(t, send(transport, posting(t, 1)).wait().err, new(*httpclient.CredentialError))
	})
}

func TestA401InJSONCountsWhateverItCallsItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		transport := newTransport(t, newScript(answer(http.StatusUnauthorized, ` {"code":"0"}`, "Content-Type: text/plain")))
		assertStatus(t, http.StatusUnauthorized, send(transport, getting(t, "/users/@me")))
		assert.Zero(t, lookup(t, transport, http.MethodGet, "/api/v10/users/@me").RetryAfter)
	})
}
