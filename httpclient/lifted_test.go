package httpclient_test

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
)

func TestAResetLiftsAPlaceToo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		below := newScript(unauthorized, unauthorized, answer(http.StatusOK, "{}"))
		transport := newTransport(t, below)
		assertStatus(t, http.StatusUnauthorized, send(transport, posting(t, 1)))
		transport.ResetCredential(bad)
		assertStatus(t, http.StatusUnauthorized, send(transport, getting(t, "/guilds/1"))) // the first of them again
		assertStatus(t, http.StatusOK, send(transport, posting(t, 1)), send(transport, posting(t, 2)))
	})
}

func TestA401UnderWayAtAResetStopsNothing(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/guilds/1", "/users/@me"} {
		synctest.Test(t, func(t *testing.T) {
			below := newScript(unauthorized, answer(http.StatusOK, "{}"))
			below.takes = time.Second
			transport := newTransport(t, below)
			late := send(transport, getting(t, path))
			time.Sleep(500 * time.Millisecond)
			transport.ResetCredential(bad)
			assertStatus(t, http.StatusUnauthorized, late)
			assertStatus(t, http.StatusOK, send(transport, getting(t, path)), send(transport, posting(t, 1)))
		})
	}
}

// lifted is a limiter that counts how often its holds were lifted.
type lifted struct {
	buckets.Unlimited
	times int
}

func (l *lifted) LiftHolds() { l.times++ }

func TestAllThatIsStoppedCanBeLiftedByHand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limiter := &lifted{}
		bad := true
		below := newScript(func(r *http.Request) (*http.Response, error) {
			if bad {
				return unauthorized(r)
			}
			return answer(http.StatusOK, "{}")(r)
		})
		transport := httpclient.NewTransport(httpclient.WithBase(below), httpclient.WithLimiter(limiter))
		defer transport.Close()
		all := func() (calls []*call) {
			for _, path := range []string{"/guilds/1", "/users/@me"} {
				calls = append(calls, send(transport, getting(t, path)).wait())
			}
			for _, path := range []string{webhook, followUp, callback} {
				calls = append(calls, send(transport, as(newRequest(t, http.MethodPost, path, "{}"), "")).wait())
			}
			return calls
		}
		assertStatus(t, http.StatusUnauthorized, all()...)
		bad = false
		for _, c := range all() {
			assert.ErrorAs(t, c.err, new(*httpclient.CredentialError))
		}
		transport.LiftHolds()
		assert.Equal(t, 1, limiter.times)
		assertStatus(t, http.StatusOK, all()...)
		newTransport(t, below).LiftHolds() // of a manager
	})
}

// limiting is a limiter of somebody else's, which has no holds of its own.
type limiting struct{ buckets.Unlimited }

func TestLiftHoldsEndsWaitsAfter429sAlsoWithAnotherLimiter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		below := newScript(refuse("user", "120"), refuse("user", "3"), answer(http.StatusOK, "{}"))
		transport := httpclient.NewTransport(httpclient.WithLimiter(limiting{}), httpclient.WithBase(below))
		defer transport.Close()
		transport.LiftHolds() // of nobody
		waiting := send(transport, newMessage(t))
		time.Sleep(time.Second)
		transport.LiftHolds()
		assertStatus(t, http.StatusOK, waiting)
		assert.InDelta(t, 4*time.Second, waiting.took, float64(slack), "what it is answered then counts again")
	})
}

// What was refused before holds were lifted is in no row with what is refused afterwards.
func TestLiftHoldsEndsTheRowOf429sWithAnotherLimiter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		again := refuse("user", "0")
		below := newScript(again, again, again, again, refuse("user", "120"), again, answer(http.StatusOK, "{}"))
		transport := httpclient.NewTransport(httpclient.WithLimiter(limiting{}), httpclient.WithBase(below))
		defer transport.Close()
		waiting := send(transport, newMessage(t))
		time.Sleep(2 * time.Second)
		transport.LiftHolds()
		assertStatus(t, http.StatusOK, waiting)
		assert.InDelta(t, 2*time.Second, waiting.took, float64(slack))
	})
}

// Retry-After counts from when the server answered, and a body can take a while.
func TestTheWaitAfterA429CountsFromItsHeaderWhateverTheLimiter(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]httpclient.Option{"manager": nil, "another limiter": {httpclient.WithLimiter(limiting{})}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				late := answerWith(http.StatusTooManyRequests, func() io.ReadCloser { return stall(3*time.Second, `{"retry_after":8}`) },
					"X-RateLimit-Scope: user", "Retry-After: 8", "Via: 1.1 google")
				transport := httpclient.NewTransport(append(options, httpclient.WithBase(newScript(late, answer(http.StatusOK, "{}"))))...)
				defer transport.Close()
				c := send(transport, newMessage(t))
				assertStatus(t, http.StatusOK, c)
				assert.InDelta(t, 8*time.Second, c.took, float64(slack))
			})
		})
	}
}
