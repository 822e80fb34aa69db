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

// asking is a request with this Authorization, to this path.
func asking(t *testing.T, c *credentials, authorization, method, path string) *credential {
	t.Helper()
	route, err := routes.Match(method, path)
	require.NoError(t, err)
	asking := c.of(&buckets.Request{Route: route, Authorization: authorization})
	return &asking
}

// answeredWith sends the request and takes in its answer.
func (c *credential) answeredWith(status int) {
	c.leaves()
	c.answered(&http.Response{StatusCode: status, Body: http.NoBody})
}

func webhookPost(t *testing.T, c *credentials, i int) *credential {
	t.Helper()
	return asking(t, c, "", http.MethodPost, "/webhooks/1/token"+strconv.Itoa(i))
}

func TestStopsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCredentials(nil)
		asking(t, c, "Bot bad", http.MethodGet, "/users/@me").answeredWith(http.StatusUnauthorized)
		const more = 500
		for i := range maxStopped + more {
			stopped := webhookPost(t, c, i)
			if i%2 == 0 { // a permission that is missing
				asking(t, c, "Bot good", http.MethodGet, "/users/@me").answeredWith(http.StatusOK)
				stopped = asking(t, c, "Bot good", http.MethodGet, "/channels/"+strconv.Itoa(i))
			}
			stopped.answeredWith(http.StatusUnauthorized)
			require.LessOrEqual(t, len(c.stopped), maxStopped)
			require.EqualValues(t, len(c.stopped), c.count.Load())
			require.Error(t, stopped.check(), "the latest is known")
		}
		assert.Greater(t, len(c.stopped), maxStopped/2)
		assert.Error(t, asking(t, c, "Bot bad", http.MethodGet, "/channels/1").check(), "a token that is not valid is not forgotten for them")

		time.Sleep(webhookLife + time.Hour) // all is over, and goes first
		for i := range more {
			webhookPost(t, c, i).answeredWith(http.StatusUnauthorized)
		}
		assert.Len(t, c.stopped, more)
		for i := range more {
			require.Error(t, webhookPost(t, c, i).check())
		}
	})
}

func TestATokenIsForgottenWhenItsTimeIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCredentials(nil)
		post := webhookPost(t, c, 1)
		post.answeredWith(http.StatusUnauthorized)
		require.Error(t, post.check())
		time.Sleep(webhookLife)
		require.NoError(t, post.check())
		assert.Empty(t, c.stopped)
		assert.Zero(t, c.count.Load())
	})
}

// A process that works with the tokens of many users sees them come and expire, all the time.
func TestWhatIsKnownOfAuthorizationsIsBounded(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusOK, http.StatusUnauthorized} {
		c := newCredentials(nil)
		const bad = 100 // so many that chance does not spare them all
		for i := range bad {
			asking(t, c, fmt.Sprint("Bot bad", i), http.MethodGet, "/users/@me").answeredWith(http.StatusUnauthorized)
		}
		for i := range maxStopped + 1000 {
			user := "Bearer " + strconv.Itoa(i)
			asking(t, c, user, http.MethodGet, "/users/@me").answeredWith(status)
			require.LessOrEqual(t, c.known.Size(), maxStopped)
		}
		for i := 0; i < bad && status == http.StatusOK; i++ {
			assert.Error(t, asking(t, c, fmt.Sprint("Bot bad", i), http.MethodGet, "/channels/1").check(), "those that work are forgotten first")
		}
	}
}

func TestCredentialsAreSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	c := newCredentials(nil)
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
					c.reset("Bot a")
				}
			}
		})
	}
	all.Wait()
	c.reset("Bot a")
	assert.NoError(t, asking(t, c, "Bot a", http.MethodGet, "/channels/1").check())
	assert.Len(t, c.stopped, 100)
	c.resetAll(func(credentialID) bool { return true })
	assert.Empty(t, c.stopped)
}
