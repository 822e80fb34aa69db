package httpclient

import (
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/routes"
)

func webhookRoute(t *testing.T, i int) routes.CompiledRoute {
	t.Helper()
	route, err := routes.Match(http.MethodPost, "/webhooks/1/token"+strconv.Itoa(i))
	require.NoError(t, err)
	return route
}

func unauthorized() *http.Response {
	return &http.Response{StatusCode: http.StatusUnauthorized, Body: http.NoBody}
}

func TestStoppedTokensAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCredentials()
		message, err := routes.Match(http.MethodPost, "/channels/1/messages")
		require.NoError(t, err)
		c.note(time.Now(), "Bot bad", message, unauthorized())
		const more = 500
		for i := range maxStopped + more {
			c.note(time.Now(), "", webhookRoute(t, i), unauthorized())
			require.LessOrEqual(t, len(c.stopped), maxStopped)
			require.EqualValues(t, len(c.stopped), c.count.Load())
		}
		assert.Error(t, c.check("", webhookRoute(t, maxStopped+more-1)), "the latest is known")
		assert.Error(t, c.check("Bot bad", message), "an Authorization is not forgotten for tokens in paths")

		time.Sleep(webhookLife + time.Hour) // all but the Authorization are over, and go first
		for i := range more {
			c.note(time.Now(), "", webhookRoute(t, i), unauthorized())
		}
		for i := range more {
			require.Error(t, c.check("", webhookRoute(t, i)))
		}
		assert.Error(t, c.check("Bot bad", message))
	})
}

func TestATokenIsForgottenWhenItsTimeIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCredentials()
		route := webhookRoute(t, 1)
		c.note(time.Now(), "", route, unauthorized())
		require.Error(t, c.check("", route))
		time.Sleep(webhookLife)
		require.NoError(t, c.check("", route))
		assert.Empty(t, c.stopped)
		assert.Zero(t, c.count.Load())
	})
}

func TestCredentialsAreSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	c := newCredentials()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 100 {
				route := webhookRoute(t, i)
				c.note(time.Now(), "", route, unauthorized())
				_ = c.check("Bot a", route)
				c.readmit("Bot a")
			}
		})
	}
	all.Wait()
	assert.Len(t, c.stopped, 100)
}

// A process that works with the tokens of many users sees them expire, all the time. Nobody will readmit them.
func TestStoppedAuthorizationsAreBoundedToo(t *testing.T) {
	t.Parallel()
	c := newCredentials()
	route, err := routes.Match(http.MethodGet, "/users/@me")
	require.NoError(t, err)
	for i := range maxStopped + 100 {
		c.note(time.Now(), "Bearer "+strconv.Itoa(i), route, unauthorized())
	}
	require.LessOrEqual(t, len(c.stopped), maxStopped)
}
