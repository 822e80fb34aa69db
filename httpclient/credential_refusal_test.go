package httpclient_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient"
)

const (
	via, typeJSON, typeHTML = "Via: 1.1 google", "Content-Type: application/json", "Content-Type: text/html"

	goneWebhook = `{"message":"Unknown Webhook","code":10015}`
	brotli      = "\x8b\x00\x80{}\x03"
)

// refusalStory is a request and its response. If stops is true, the response must stop the request's credential, which
// means that the credential is not used for ten minutes.
type refusalStory struct {
	request func(t *testing.T) *http.Request
	status  int
	body    string
	header  []string
	stops   bool
}

func refusalStories() map[string]refusalStory {
	all, long := make(map[string]refusalStory), strings.Repeat(" ", 1<<20)
	request := func(method, path string) func(t *testing.T) *http.Request {
		return func(t *testing.T) *http.Request { return as(newRequest(t, method, path, ""), "") }
	}
	for name, c := range map[string]refusalStory{
		"JSON with a code":                {body: noSuchToken, header: []string{typeJSON}, stops: true},
		"JSON with another content type":  {body: ` {"code":"0"}`, header: []string{"Content-Type: text/plain"}, stops: true},
		"Via":                             {body: `{"message":"401"}`, header: []string{typeJSON, via}, stops: true},
		"Via, nothing":                    {header: []string{via}, stops: true},
		"Via, not decoded":                {body: brotli, header: []string{via, "Content-Encoding: br"}, stops: true},
		"a page that came by a proxy":     {body: "<html>log in", header: []string{typeHTML, "Via: 1.1 squid"}},
		"a page":                          {body: "<html>log in", header: []string{typeHTML}},
		"a page with a JSON content type": {body: "<html>log in", header: []string{typeJSON}},
		"JSON without a code":             {body: `{"error":"unauthorized"}`, header: []string{typeJSON}},
		"a code that is not a number":     {body: `{"code":"UNAUTHENTICATED"}`, header: []string{typeJSON}},
		"not an object":                   {body: `[{"code":0}]`, header: []string{typeJSON}},
		"half an object":                  {body: `{"code":0`, header: []string{typeJSON}},
		"nothing":                         {header: []string{typeJSON}},
		"not decoded":                     {body: brotli, header: []string{typeJSON, "Content-Encoding: br"}},
	} {
		c.status = http.StatusUnauthorized
		c.request = toHook
		all["401 of a webhook, "+name] = c
		c.request = func(t *testing.T) *http.Request { return posting(t, 1) }
		all["401 of an Authorization, "+name] = c
	}
	for name, c := range map[string]struct {
		method, path, body string
		stops              bool
	}{
		"post, unknown webhook":             {"POST", webhook, goneWebhook, true},
		"post with a query":                 {"POST", webhook + "?wait=true", goneWebhook, true},
		"post to Slack's variant":           {"POST", webhook + "/slack", goneWebhook, true},
		"edit, unknown webhook":             {"PATCH", webhook + "/messages/2", goneWebhook, true},
		"a large answer":                    {"POST", webhook, goneWebhook + long, true},
		"get, another code":                 {"GET", webhook, `{"code":10003}`, false},
		"post, unknown channel":             {"POST", webhook, `{"code":10003}`, false},
		"post without a code":               {"POST", webhook, `{"message":"404: Not Found","code":0}`, false},
		"post, no JSON":                     {"POST", webhook, "<html>10015", false},
		"post, nothing":                     {"POST", webhook, "", false},
		"post, the code too late to see":    {"POST", webhook, `{"a":"` + long + `","code":10015}`, false},
		"a message of the webhook":          {"PATCH", webhook + "/messages/2", `{"code":10008}`, false},
		"a message of the webhook, no code": {"GET", webhook + "/messages/2", `{"code":0}`, false},
		"a thread of the webhook":           {"POST", webhook + "?thread_id=3", `{"code":10003}`, false},
		"deleting a message of the webhook": {"DELETE", webhook + "/messages/2", "", false},
	} {
		all["404, "+name] = refusalStory{request(c.method, c.path), http.StatusNotFound, c.body, nil, c.stops}
	}
	// These 404s stop nothing, because a follow-up can arrive before Discord has processed the callback.
	for _, path := range []string{followUp, followUp + "/messages/@original", callback} {
		for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodPatch, http.MethodDelete} {
			all["404, "+method+" "+path] = refusalStory{request(method, path), http.StatusNotFound, goneWebhook, nil, false}
		}
	}
	for _, status := range []int{200, 204, 400, 402, 403, 404, 407, 410, 500, 502} {
		all[fmt.Sprint(status)] = refusalStory{newMessage, status, goneWebhook, nil, false}
	}
	without := func(t *testing.T) *http.Request { return as(newMessage(t), "") }
	all["401 without an Authorization"] = refusalStory{without, http.StatusUnauthorized, noSuchToken, nil, false}
	return all
}

func TestWhichResponsesStopACredential(t *testing.T) {
	inBubbles(t, refusalStories(), func(t *testing.T, c refusalStory) {
		var bodies ledger
		open := func() io.ReadCloser { return bodies.open(strings.NewReader(c.body)) }
		below := newScript(answerWith(c.status, open, c.header...))
		transport := newTransport(t, below, noRetries)
		for range 2 {
			first := send(transport, c.request(t))
			assertStatus(t, c.status, first)
			assert.True(t, first.body == c.body, "the body is not whole: %d of %d bytes", len(first.body), len(c.body))
			bodies.assertClosed(t)
			if c.stops {
				assert.Equal(t, c.status, lookup(t, transport, c.request(t)).Status)
				assert.Len(t, below.requests(), 1)
				return
			}
		}
	})
}

func TestTheRefusalOfATokenInAPathStopsThatTokenOnly(t *testing.T) {
	type story struct {
		path, same, other, body string
		stopped                 httpclient.CredentialError
	}
	const reply = httpclient.CredentialInteraction
	const edit = "PATCH /webhooks/{webhook_id}/{webhook_token}/messages/"
	inBubbles(t, map[string]story{
		"webhook": {
			webhook, webhook + "/messages/5", "/api/v10/webhooks/1/another", `{"code":50027}`,
			httpclient.CredentialError{Route: edit + "{message_id}", Kind: httpclient.CredentialWebhook, Status: 401},
		},
		"webhook that is gone": {
			webhook, webhook + "/messages/5", "/api/v10/webhooks/2/" + webhookSecret, goneWebhook,
			httpclient.CredentialError{Route: edit + "{message_id}", Kind: httpclient.CredentialWebhook, Status: 404},
		},
		"interaction": {
			followUp, followUp + "/messages/@original", "/api/v10/webhooks/1/aW50ZXJhY3Rpb246another", `{"code":50027}`,
			httpclient.CredentialError{Route: edit + "@original (interaction)", Kind: reply, Status: 401},
		},
	}, func(t *testing.T, c story) {
		for _, authorization := range []string{"", "Bot " + botSecret} {
			with := func(method, path string) *http.Request { return as(newRequest(t, method, path, "{}"), authorization) }
			below := byCredential(c.stopped.Status, c.body, func(r *http.Request) bool {
				return strings.HasPrefix(r.URL.Path, c.path)
			})
			transport := newTransport(t, below)
			assertStatus(t, c.stopped.Status, send(transport, with(http.MethodPost, c.path)))
			assertStatus(t, http.StatusOK, send(transport, with(http.MethodPost, c.other)))
			assertStatus(t, http.StatusOK, send(transport, as(newMessage(t), "Bot "+botSecret)))

			again := func() *http.Request { return with(http.MethodPatch, c.same) }
			assertRests(t, transport, below, again, c.stopped)
			assertStatus(t, c.stopped.Status, send(transport, with(http.MethodPost, c.path)))
			assertRests(t, transport, below, again, c.stopped)
		}
	})
}

// A 401 of another server must not keep the transport from using the token at Discord.
func TestA401OfAServerThatIsNotDiscordStopsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		transport := newTransport(t, newScript(unauthorized),
			httpclient.WithHosts(func(host string) (string, bool) { return host, true }))
		for range 2 {
			for _, r := range []*http.Request{posting(t, 1), getting(t, "/users/@me"), toHook(t)} {
				assertStatus(t, http.StatusUnauthorized, send(transport, to(t, "https://compatible.example", r)))
			}
		}
		assertStatus(t, http.StatusUnauthorized, send(transport, posting(t, 1))) // Discord's own 401 counts
		lookup(t, transport, posting(t, 1))
	})
}

func TestRestingCredentialsAreTheHundredThatRestLongest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		transport := newTransport(t, newScript(answer(http.StatusUnauthorized, `{"code":50027}`)))
		for i := range 120 {
			path := "/api/v10/webhooks/1/token" + strconv.Itoa(i)
			assertStatus(t, http.StatusUnauthorized, send(transport, newRequest(t, http.MethodPost, path, "{}")))
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
		byID := func() *http.Request { return newRequest(t, http.MethodGet, "/api/v10/webhooks/1", "") }
		assertStatus(t, http.StatusUnauthorized, send(transport, byID()))
		assertStopped(t, transport, below, byID(),
			httpclient.CredentialError{Route: "GET /webhooks/{webhook_id}", Status: 401, RetryAfter: 10 * time.Minute})
		// This path has a token, so the bot's Authorization is not sent and does not stop the request.
		assertStatus(t, http.StatusOK, send(transport, newRequest(t, http.MethodPost, webhook, "{}")))
	})
}

func TestACredentialErrorSaysWhatToDo(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]*httpclient.CredentialError{
		"GET /a not sent: its Authorization was refused with 401; it is not used again for 5m0s": {
			Status: 401, Everywhere: true, RetryAfter: 5 * time.Minute,
		},
		"GET /a not sent: its Authorization was refused with 401 on this route; it is not used again for 10m0s": {
			Status: 401, RetryAfter: 10 * time.Minute,
		},
		"GET /a not sent: its webhook was refused with 404; it is not used again for 10m0s": {
			Kind: httpclient.CredentialWebhook, Status: 404, RetryAfter: 10*time.Minute - 1,
		},
		"GET /a not sent: its interaction token was refused with 401; it is not used again for 10m0s": {
			Kind: httpclient.CredentialInteraction, Status: 401, RetryAfter: 10 * time.Minute,
		},
		"GET /a not sent: its CredentialKind(9) was refused with 401; it is not used again for 0s": {Kind: 9, Status: 401},
	} {
		err.Route = "GET /a"
		assert.EqualError(t, err, want)
		assert.NoError(t, errors.Unwrap(err))
	}
	assert.Equal(t, "CredentialKind(-1)", httpclient.CredentialKind(-1).String())
}

// net/http sends an Authorization header however its name is capitalized. Whatever the spelling of the name, a token
// must have its own buckets, global limit and 401s, and it must not be sent if the path has a token.
func TestAnAuthorizationIsOneHoweverItsNameIsSpelled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := newScript(usedUp(1, time.Minute), usedUp(1, time.Minute), unauthorized, answer(http.StatusOK, "{}"))
		transport := newTransport(t, below)
		spelled := func(token string, r *http.Request) *http.Request {
			r.Header = http.Header{"authorization": {token}}
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
		assertStatus(t, http.StatusOK, send(transport, spelled("Bot two", newRequest(t, http.MethodGet, webhook, ""))))
		assert.Empty(t, below.requests()[3].request.Header)
	})
}

// lateErrors are error responses whose body says which credential is refused.
var lateErrors = map[string]refusalStory{
	"401 of a bot": {
		request: func(t *testing.T) *http.Request { return getting(t, "/users/@me") }, status: 401, body: noSuchToken,
	},
	"401 of a webhook": {request: toHook, status: 401, body: `{"message":"Invalid Webhook Token","code":50027}`},
	"404 of a webhook": {request: toHook, status: 404, body: goneWebhook},
}

func TestALateBodyOfAnErrorDelaysNoResponse(t *testing.T) {
	inBubbles(t, lateErrors, func(t *testing.T, c refusalStory) {
		transport := newTransport(t, newScript(answerSlowly(c.status, c.body, 5*time.Second, typeJSON)))
		start := time.Now()
		response := roundTrip(t, transport, c.request(t))
		assert.Zero(t, time.Since(start))
		content, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		assert.Equal(t, c.body, string(content))
		assert.Equal(t, 5*time.Second, time.Since(start))
		assert.Equal(t, c.status, lookup(t, transport, c.request(t)).Status)
	})
}

// Many callers close the body of an error unread, or read only a part of it. Even then, the transport must see the
// whole body.
func TestTheBodyOfAnErrorIsLookedAtHoweverItIsRead(t *testing.T) {
	inBubbles(t, map[string]func(body io.ReadCloser){
		"not at all":   func(io.ReadCloser) {},
		"a byte":       func(body io.ReadCloser) { _, _ = body.Read(make([]byte, 1)) },
		"decoded":      func(body io.ReadCloser) { _ = json.NewDecoder(body).Decode(&struct{}{}) },
		"closed twice": func(body io.ReadCloser) { body.Close() },
	}, func(t *testing.T, read func(body io.ReadCloser)) {
		for _, c := range lateErrors {
			transport := newTransport(t, newScript(answer(c.status, c.body+strings.Repeat(" ", 10_000), typeJSON)))
			response := roundTrip(t, transport, c.request(t))
			read(response.Body)
			start := time.Now()
			require.NoError(t, response.Body.Close())
			assert.Zero(t, time.Since(start))
			assert.Equal(t, c.status, lookup(t, transport, c.request(t)).Status)
		}
	})
}

func TestClosingABodyEndsAReadOfIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := newScript(answerSlowly(http.StatusUnauthorized, "{}", time.Hour))
		response := roundTrip(t, newTransport(t, below, noTimeout), posting(t, 1))
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

func TestTheBodyOfA404ThatBreaksOffBreaksOffForTheCaller(t *testing.T) {
	bubble(t, func(t *testing.T) {
		lost := lostConnection()
		below := newScript(answerWith(http.StatusNotFound, func() io.ReadCloser {
			return io.NopCloser(io.MultiReader(strings.NewReader(`{"code":`), iotest.ErrReader(lost)))
		}))
		c := send(newTransport(t, below), newRequest(t, http.MethodPost, webhook, "{}")).wait()
		assert.ErrorIs(t, c.err, lost)
		assert.Equal(t, `{"code":`, c.body)
	})
}

// encodings are the Content-Encodings that servers use when a request has an Accept-Encoding. net/http decodes gzip
// only if net/http itself has added that header.
var encodings = map[string]func(io.Writer) io.WriteCloser{
	"gzip":    func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
	" X-GZIP": func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
	"deflate": func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) },
	"Deflate": func(w io.Writer) io.WriteCloser { // raw deflate, without the zlib frame
		raw, err := flate.NewWriter(w, flate.BestSpeed)
		if err != nil {
			panic(err)
		}
		return raw
	},
	"identity": func(w io.Writer) io.WriteCloser { return unencoded{w} },
}

type unencoded struct{ io.Writer }

func (unencoded) Close() error { return nil }

func TestABodyCountsWhenItIsEncoded(t *testing.T) {
	t.Parallel()
	for encoding, writer := range encodings {
		inBubble(t, encoding, func(t *testing.T) {
			// encoded returns an answer with an encoded body, and that body.
			encoded := func(status int, text string, header ...string) (responder, string) {
				var b bytes.Buffer
				w := writer(&b)
				_, err := io.WriteString(w, text)
				require.NoError(t, err)
				require.NoError(t, w.Close())
				return answer(status, b.String(), append(header, typeJSON, "Content-Encoding: "+encoding)...), b.String()
			}
			t.Log("# a 401 stops its Authorization")
			refusing, raw := encoded(http.StatusUnauthorized, noSuchToken)
			transport := newTransport(t, newScript(refusing))
			first := send(transport, posting(t, 1))
			assertStatus(t, http.StatusUnauthorized, first)
			assert.Equal(t, raw, first.body, "the caller must get the encoded body")
			lookup(t, transport, posting(t, 1))

			t.Log("# a page of a proxy stops nothing")
			for _, page := range []string{"<html>", strings.Repeat("<p>", 1<<20), "{" + strings.Repeat(" ", 1<<20)} {
				refusing, raw := encoded(http.StatusUnauthorized, page)
				transport := newTransport(t, newScript(refusing))
				for range 2 {
					c := send(transport, posting(t, 1))
					assertStatus(t, http.StatusUnauthorized, c)
					assert.True(t, raw == c.body)
				}
			}

			t.Log("# the precise wait of a 429 is in its body; a compatible server sends neither scope nor bucket")
			refusing, _ = encoded(http.StatusTooManyRequests, `{"retry_after":0.3,"global":false}`, "Retry-After: 1")
			transport = newTransport(t, newScript(refusing, answer(http.StatusOK, "{}")))
			refused := send(transport, posting(t, 1))
			time.Sleep(10 * time.Millisecond)
			other := send(transport, getting(t, "/guilds/1/roles")).wait()
			assertStatus(t, http.StatusOK, refused, other)
			assert.Less(t, other.took, 100*time.Millisecond, "another route waited, so the 429 was taken for one of the edge")
			assert.Less(t, refused.took, 400*time.Millisecond)

			t.Log("# a 429 that is returned is as it came")
			refusing, raw = encoded(http.StatusTooManyRequests, `{"retry_after":9}`, "Retry-After: 9", "X-RateLimit-Scope: user")
			r := newMessage(t)
			r.GetBody = nil
			c := send(newTransport(t, newScript(refusing), eachBody(0)), r)
			assertStatus(t, http.StatusTooManyRequests, c)
			assert.Equal(t, raw, c.body)
		})
	}
}

// If the transport cannot decode the body, the status and the headers must decide. See also
// TestWhichResponsesStopACredential.
func TestAnErrorInAnEncodingThatIsNotKnownIsJudgedByItsHeader(t *testing.T) {
	bubble(t, func(t *testing.T) {
		header := []string{typeJSON, "Content-Encoding: br", via}
		transport := newTransport(t, newScript(answer(http.StatusNotFound, brotli, header...),
			answer(http.StatusTooManyRequests, brotli, append(header, "Retry-After: 2")...), answer(http.StatusOK, "{}")))
		assertStatus(t, http.StatusNotFound, send(transport, toHook(t)))
		refused := send(transport, posting(t, 1))
		assertStatus(t, http.StatusOK, refused)
		assertTook(t, 2*time.Second, refused.took)
		assertStatus(t, http.StatusOK, send(transport, toHook(t)))
	})
}
