package httpclient

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/routes"
)

// asking returns the credential of a request with the given method, path and Authorization.
func asking(t *testing.T, c *credentials, authorization, method, path string) *credential {
	t.Helper()
	route, err := routes.Match(method, path)
	require.NoError(t, err)
	asking := c.of(&buckets.Request{Route: route, Authorization: authorization})
	return &asking
}

// answeredWith records a response of Discord with the given status.
func (c *credential) answeredWith(status int) {
	c.answered(&http.Response{StatusCode: status, Body: http.NoBody, Header: http.Header{"Via": {"1.1 google"}}},
		time.Now())
}

func webhookPost(t *testing.T, c *credentials, i int) *credential {
	t.Helper()
	return asking(t, c, "", http.MethodPost, "/webhooks/1/token"+strconv.Itoa(i))
}

// A process that works with the tokens of many users sees new tokens all the time. The memory for the states of tokens
// must be bounded.
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
			require.Error(t, invented.check(), "the latest credential must be known")
		}
		for i := range works {
			s, ok := c.known.Load(c.idOf(CredentialAuthorization, fmt.Sprint("Bot ", i)))
			require.True(t, ok, "credentials that work must be evicted last")
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
			require.Error(t, in(i).check(), "the latest credential must be known")
		}
		s := c.state(c.idOf(CredentialAuthorization, "Bot a"))
		assert.Len(t, s.refused, maxPlaces)
		time.Sleep(restTime)
		require.NoError(t, in(1).check())
		assert.Empty(t, s.refused)
		assert.True(t, s.doubtful.Load(), "a refusal on another route must count as the second")
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
				if j == 0 {
					c.resetAll()
				}
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

type answering func(r *http.Request) *http.Response

func (f answering) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }

// A wait ends when the request is granted, cancelled or cut off, or when its credential is stopped. Afterwards nothing
// of the wait may stay in memory.
func TestNobodyIsRememberedWhoDoesNotWaitAnyMore(t *testing.T) {
	t.Parallel()
	base := answering(func(r *http.Request) *http.Response {
		response := &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r, Header: http.Header{
			"X-Ratelimit-Bucket": {"b"}, "X-Ratelimit-Limit": {"1"}, "X-Ratelimit-Remaining": {"0"},
			"X-Ratelimit-Reset-After": {"60"},
		}}
		if !strings.Contains(r.URL.Path, "/channels/") {
			response.StatusCode, response.Header = http.StatusUnauthorized, http.Header{"Via": {"1.1 google"}}
		}
		return response
	})
	get := func(ctx context.Context, transport *Transport, path string) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://discord.com/api/v10"+path, nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bot 1")
		_, err = transport.RoundTrip(r)
		return err
	}
	for name, end := range map[string]func(t *testing.T, transport *Transport, cancel context.CancelFunc){
		"granted":   func(*testing.T, *Transport, context.CancelFunc) { time.Sleep(time.Hour) },
		"cancelled": func(_ *testing.T, _ *Transport, cancel context.CancelFunc) { cancel() },
		"closed":    func(_ *testing.T, transport *Transport, _ context.CancelFunc) { transport.Close() },
		"stopped": func(t *testing.T, transport *Transport, _ context.CancelFunc) {
			time.Sleep(time.Second)
			for _, path := range []string{"/users/@me", "/guilds/1"} {
				require.NoError(t, get(t.Context(), transport, path))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				transport := NewTransport(WithBase(base))
				defer transport.Close()
				require.NoError(t, get(t.Context(), transport, "/channels/1"))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				over := make(chan error, 1)
				go func() { over <- get(ctx, transport, "/channels/1") }()
				synctest.Wait()
				require.Equal(t, 1, transport.credentials.waiting.Size())
				end(t, transport, cancel)
				synctest.Wait()
				require.Len(t, over, 1)
				assert.Equal(t, name == "granted", <-over == nil)
				assert.Zero(t, transport.credentials.waiting.Size())
				assert.Zero(t, transport.Manager().Stats().Waiting)
			})
		})
	}
}
