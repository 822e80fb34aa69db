package httpclient

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
)

// deriving is a limiter that waits by a context of its own making.
type deriving struct{ Limiter }

func (d deriving) AcquireRequest(ctx context.Context, r *buckets.Request) (buckets.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	return d.Limiter.AcquireRequest(ctx, r)
}

type answering func(r *http.Request) *http.Response

func (f answering) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }

// Whoever waits is granted, cancelled, stopped or let go when its credential is used again, all at the same time.
func TestNobodyIsRememberedWhoDoesNotWaitAnyMore(t *testing.T) {
	t.Parallel()
	for name, derive := range map[string]bool{"manager": false, "derived contexts": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				manager := buckets.NewRESTBucketManager()
				require.NoError(t, manager.Start())
				defer manager.Close()
				limiter := WithManager(manager)
				if derive {
					limiter = WithLimiter(deriving{manager})
				}
				transport := NewTransport(limiter, WithBase(answering(func(r *http.Request) *http.Response {
					time.Sleep(10 * time.Millisecond)
					response := &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(`{"code":0}`)), Request: r, Header: http.Header{
						"X-Ratelimit-Bucket": {"b"}, "X-Ratelimit-Limit": {"1"}, "X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset-After": {"1"}}}
					if strings.Contains(r.URL.Path, "/guilds/") || r.Header.Get("Authorization") == "Bot 3" {
						response.StatusCode = http.StatusUnauthorized
					}
					return response
				})))
				defer transport.Close()
				random := rand.New(rand.NewPCG(1, 2))
				var all sync.WaitGroup
				var mu sync.Mutex
				ends := make(map[string]int)
				for i := range 400 {
					path := []string{"/channels/1/messages", "/channels/2/messages", "/guilds/1/roles", "/webhooks/1/token", "/users/@me"}[random.IntN(5)]
					ctx, cancel := context.WithCancel(t.Context())
					r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://discord.com/api/v10"+path, nil)
					require.NoError(t, err)
					r.Header.Set("Authorization", fmt.Sprintf("Bot %d", random.IntN(4)))
					if random.IntN(4) == 0 {
						time.AfterFunc(time.Duration(random.IntN(2000))*time.Millisecond, cancel)
					}
					all.Go(func() {
						defer cancel()
						response, err := transport.RoundTrip(r)
						kind := fmt.Sprintf("%T", err)
						if err == nil {
							_, _ = io.Copy(io.Discard, response.Body)
							response.Body.Close()
						}
						mu.Lock()
						defer mu.Unlock()
						ends[kind]++
					})
					time.Sleep(time.Duration(random.IntN(30)) * time.Millisecond)
					if i%50 == 0 {
						transport.LiftHolds()
					}
				}
				all.Wait()
				assert.Zero(t, transport.credentials.waiting.Size())
				stats := manager.Stats()
				assert.Zero(t, stats.Waiting)
				assert.Zero(t, stats.InFlight)
				for _, kind := range []string{"<nil>", "*httpclient.CredentialError", "*errors.errorString"} {
					assert.NotZero(t, ends[kind], "%s of %v", kind, ends)
				}
			})
		})
	}
}
