package httpclient

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/routes"
)

// asking returns the credential of a request with this Authorization to this path.
func asking(t *testing.T, c *credentials, authorization, method, path string) *credential {
	t.Helper()
	route, err := routes.Match(method, path)
	require.NoError(t, err)
	asking := c.of(&buckets.Request{Route: route, Authorization: authorization})
	return &asking
}

// answeredWith records a response of Discord's with this status.
func (c *credential) answeredWith(status int) {
	c.answered(&http.Response{StatusCode: status, Body: http.NoBody, Header: http.Header{"Via": {"1.1 google"}}},
		time.Now())
}

func webhookPost(t *testing.T, c *credentials, i int) *credential {
	t.Helper()
	return asking(t, c, "", http.MethodPost, "/webhooks/1/token"+strconv.Itoa(i))
}

// A process that works with the tokens of many users meets new tokens all the time. The memory for them must be
// bounded.
func TestWhatIsKnownOfCredentialsIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCredentials(nil, nil)
		time.Sleep(time.Second)
		const works = 100 // enough that random eviction does not spare all of them
		for i := range works {
			asking(t, c, fmt.Sprint("Bot ", i), http.MethodGet, "/users/@me").answeredWith(http.StatusOK)
		}
		for i := range 2 * maxCredentials {
			invented := webhookPost(t, c, i)
			invented.answeredWith(http.StatusUnauthorized)
			require.LessOrEqual(t, c.known.Size(), maxCredentials)
			require.Error(t, invented.check(), "the latest credential is known")
		}
		for i := range works {
			s, ok := c.known.Load(c.idOf(CredentialAuthorization, fmt.Sprint("Bot ", i)))
			require.True(t, ok, "credentials that work are evicted last")
			assert.EqualValues(t, time.Second, s.accepted.Load())
		}
	})
}

func TestPlacesInWhichACredentialRestsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCredentials(nil, nil)
		time.Sleep(time.Second)
		in := func(channel int) *credential {
			return asking(t, c, "Bot a", http.MethodGet, "/channels/"+strconv.Itoa(channel))
		}
		for i := range maxPlaces + 500 {
			in(i).answeredWith(http.StatusUnauthorized)
			require.Error(t, in(i).check(), "the latest credential is known")
		}
		s := c.state(c.idOf(CredentialAuthorization, "Bot a"))
		assert.Len(t, s.refused, maxPlaces)
		time.Sleep(restTime)
		require.NoError(t, in(1).check())
		assert.Empty(t, s.refused)
		assert.True(t, s.doubtful.Load(), "a refusal on another route would be the second")
		in(1).answeredWith(http.StatusOK)
		assert.False(t, s.doubtful.Load())
	})
}

func TestCredentialsAreSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	c := newCredentials(nil, nil)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for j := range 200 {
				webhookPost(t, c, j%100).answeredWith(http.StatusUnauthorized)
				status := []int{http.StatusOK, http.StatusUnauthorized, http.StatusNotFound}[(i+j)%3]
				request := asking(t, c, "Bot a", http.MethodGet, fmt.Sprint("/channels/", j%10))
				_ = request.check()
				request.answeredWith(status)
				if j%50 == 0 {
					c.reset(c.idOf(CredentialAuthorization, "Bot a"))
				}
			}
		})
	}
	all.Wait()
	c.reset(c.idOf(CredentialAuthorization, "Bot a"))
	assert.NoError(t, asking(t, c, "Bot a", http.MethodGet, "/channels/1").check())
	assert.Error(t, webhookPost(t, c, 1).check())
	c.resetAll()
	assert.NoError(t, webhookPost(t, c, 1).check())
}
