package httpclient_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
)

// If the credential of a queued request is stopped (not used for ten minutes), the request must fail at once.
func TestThoseInTheQueueHearAtOnceThatTheirCredentialIsStopped(t *testing.T) {
	t.Parallel()
	const late = 5 * time.Second
	message := func(t *testing.T) *http.Request { return posting(t, 1) }
	toSlack := func(t *testing.T) *http.Request {
		return as(newRequest(t, http.MethodPost, webhook+"/slack", "{}"), "")
	} // this route is of another family
	type request = func(t *testing.T) *http.Request
	for name, c := range map[string]struct {
		request request
		refused []request // in flight while other requests use up the bucket
		status  int
		body    string
		kind    httpclient.CredentialKind
	}{
		"everywhere, by two routes": {message, []request{
			func(t *testing.T) *http.Request { return getting(t, "/guilds/2") },
			func(t *testing.T) *http.Request { return getting(t, "/channels/2") },
		}, 401, `{"code":0}`, httpclient.CredentialAuthorization},
		"in its place":           {message, []request{message}, 401, `{"code":0}`, httpclient.CredentialAuthorization},
		"a token in the path":    {toHook, []request{toSlack}, 401, `{"code":50027}`, httpclient.CredentialWebhook},
		"a webhook that is gone": {toHook, []request{toSlack}, 404, `{"code":10015}`, httpclient.CredentialWebhook},
	} {
		inBubble(t, name, func(t *testing.T) {
			transport := newTransport(t, responder(func(r *http.Request) (*http.Response, error) {
				if r.Header.Get("Refuse") != "" {
					time.Sleep(late)
					return answer(c.status, c.body, "Content-Type: application/json")(r)
				}
				return usedUp(1, 2*time.Minute)(r)
			}))
			assertStatus(t, http.StatusOK, send(transport, c.request(t)))
			time.Sleep(time.Millisecond)
			if name == "in its place" {
				time.Sleep(2 * time.Minute) // after this time the bucket has room again
			}
			var early []*call
			for _, refused := range c.refused {
				r := refused(t)
				r.Header.Set("Refuse", "yes")
				early = append(early, send(transport, r))
			}
			time.Sleep(time.Second)
			queued, other := send(transport, c.request(t)), send(transport, as(posting(t, 7), "Bot another"))
			assertStatus(t, c.status, early...)
			stopped := errorAs[*httpclient.CredentialError](t, queued.wait().err)
			assert.Equal(t, c.kind, stopped.Kind)
			assert.Less(t, queued.took, 2*late)
			assertStatus(t, http.StatusOK, other)
		})
	}
}

// If the credential of a waiting request is stopped only for other routes, the request must keep its place in the
// queue.
func TestThoseInTheQueueOfAnotherPlaceGoOnWaiting(t *testing.T) {
	bubble(t, func(t *testing.T) {
		transport := newTransport(t, responder(func(r *http.Request) (*http.Response, error) {
			if strings.Contains(r.URL.Path, "/guilds/") {
				return unauthorized(r)
			}
			return usedUp(1, 2*time.Minute)(r)
		}))
		assertStatus(t, http.StatusOK, send(transport, posting(t, 1)))
		time.Sleep(time.Millisecond)
		queued := send(transport, posting(t, 1))
		time.Sleep(time.Second)
		assertStatus(t, http.StatusUnauthorized, send(transport, getting(t, "/guilds/1")))
		assertStatus(t, http.StatusOK, queued)
		assert.InDelta(t, 2*time.Minute, queued.took, float64(time.Second))
	})
}

// If a credential is stopped, its requests must also end their waits outside the manager: the pause after a failure,
// and the wait after a 429 if the limiter is not a manager.
func TestAPauseEndsWhenTheCredentialIsStopped(t *testing.T) {
	inBubbles(t, map[string]responder{
		"failure": answer(http.StatusBadGateway, "", "Retry-After: 16"), "429": refuse("user", "16"),
	}, func(t *testing.T, first responder) {
		below := newScript(first, unauthorized)
		transport := newTransport(t, below, httpclient.WithLimiter(buckets.Unlimited{}))
		pausing := send(transport, getting(t, "/guilds/1"))
		time.Sleep(100 * time.Millisecond)
		assertStatus(t, http.StatusUnauthorized, send(transport, getting(t, "/users/@me")),
			send(transport, getting(t, "/gateway/bot")))
		assert.ErrorAs(t, pausing.wait().err, new(*httpclient.CredentialError))
		assert.Less(t, pausing.took, time.Second)
	})
}

// The credential is stopped while the request is in flight. When the request then fails, the transport must not pause.
func TestNoPauseIsMadeForARequestThatWouldNotBeSent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		failing := answer(http.StatusBadGateway, "", "Retry-After: 16")
		transport := newTransport(t, responder(func(r *http.Request) (*http.Response, error) {
			if !strings.Contains(r.URL.Path, "/guilds/") {
				return unauthorized(r)
			}
			time.Sleep(time.Second)
			return failing(r)
		}))
		failed := send(transport, getting(t, "/guilds/1"))
		synctest.Wait() // the request is in flight
		assertStatus(t, http.StatusUnauthorized, send(transport, getting(t, "/users/@me")),
			send(transport, getting(t, "/gateway/bot")))
		assert.ErrorAs(t, failed.wait().err, new(*httpclient.CredentialError))
		assert.Equal(t, time.Second, failed.took)
	})
}

// A limiter grants a request, but the request's credential was stopped while the request waited. The request must give
// its permit back.
func TestAPermitThatIsGrantedTooLateIsGivenBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ends := new(turnstile)
		limiter := limiterFunc(func(_ context.Context, r *buckets.Request) (buckets.Lease, error) {
			if strings.Contains(r.Route.Route().String(), "/guilds/") {
				time.Sleep(time.Second)
				return buckets.NewLease(ends), nil
			}
			return buckets.Unlimited{}.AcquireRequest(t.Context(), r)
		})
		transport := newTransport(t, responder(unauthorized), httpclient.WithLimiter(limiter))
		late := send(transport, getting(t, "/guilds/1"))
		assertStatus(t, http.StatusUnauthorized, send(transport, getting(t, "/users/@me")),
			send(transport, getting(t, "/gateway/bot")))
		assert.ErrorAs(t, late.wait().err, new(*httpclient.CredentialError))
		assert.Equal(t, []ending{{}}, ends.ended, "not sent")
	})
}

// A limiter or a hook can keep the context of a wait in memory. That context must end with the wait.
func TestTheContextOfAWaitEndsWithIt(t *testing.T) {
	forEachParent(t, func(t *testing.T, parent context.Context) {
		var kept context.Context
		limiter := limiterFunc(func(ctx context.Context, r *buckets.Request) (buckets.Lease, error) {
			kept = ctx
			assert.NoError(t, ctx.Err())
			return buckets.Unlimited{}.AcquireRequest(ctx, r)
		})
		transport := newTransport(t, newScript(answer(http.StatusOK, "{}")), httpclient.WithLimiter(limiter))
		assertStatus(t, http.StatusOK, send(transport, newMessage(t).WithContext(parent)))
		assert.ErrorIs(t, kept.Err(), context.Canceled)
	})
}

type limiterFunc func(context.Context, *buckets.Request) (buckets.Lease, error)

func (f limiterFunc) AcquireRequest(ctx context.Context, r *buckets.Request) (buckets.Lease, error) {
	return f(ctx, r)
}
