package httpclient

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type answering func(r *http.Request) *http.Response

func (f answering) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }

// A wait ends when it is granted, cancelled or cut off, or when its credential is stopped. Afterwards nothing of it may
// be kept.
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
