package httpclient_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// Until 2026 two unlike routes of Discord's named one hash and were counted apart.
func TestRoutesWithOneHashAndContradictingLimitsAreSplit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, err := discordsim.New(discordsim.Config{
			Latency: discordsim.Latency{RoundTrip: 20 * time.Millisecond, Jitter: time.Millisecond},
			Rules: []discordsim.Rule{
				{Method: "GET", Path: "/channels/{id}/pins", Hash: "slow", Announce: "same", Quota: discordsim.Fixed(2, time.Second)},
				{Method: "GET", Path: "/channels/{id}/invites", Hash: "fast", Announce: "same", Quota: discordsim.Fixed(20, time.Second)},
			},
		})
		require.NoError(t, err)
		defer server.Close()
		transport := httpclient.NewTransport(httpclient.WithBase(server.RoundTripper()))
		defer transport.Close()
		client := &http.Client{Transport: transport}
		get := func(path string) {
			response, err := client.Get(discordsim.BaseURL + path)
			if assert.NoError(t, err) {
				assert.Equal(t, http.StatusOK, response.StatusCode)
				response.Body.Close()
			}
		}
		for range 5 {
			get("/channels/1/pins")
			get("/channels/1/invites")
		}

		start := time.Now()
		var all sync.WaitGroup
		for i := range 100 {
			path := "/channels/1/invites"
			if i%10 == 0 {
				path = "/channels/1/pins"
			}
			all.Go(func() { get(path) })
		}
		all.Wait()
		assert.Less(t, time.Since(start), 7*time.Second, "both at their own pace: ten at two and ninety at twenty per second")
		assert.Zero(t, server.Report().Avoidable.Total())

		limits := make(map[string]int)
		for b := range transport.Manager().Buckets() {
			if b.Hash == "same" {
				limits[strings.TrimPrefix(b.Route, "GET /channels/{channel_id}/")] += b.Limit
			}
		}
		if limits["pins"] > 0 { // one of them has left the bucket that they shared
			assert.Equal(t, map[string]int{"pins": 2, "": 20}, limits)
		} else {
			assert.Equal(t, map[string]int{"invites": 20, "": 2}, limits)
		}
	})
}

func TestRoutesWithOneHashStayTogetherWhenTheirLimitChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		quota := discordsim.Fixed(5, time.Second)
		changes := []discordsim.Change{
			{At: 2 * time.Second, Quota: discordsim.Fixed(10, time.Second)},
			{At: 4 * time.Second, Quota: discordsim.Fixed(3, time.Second)},
		}
		server, err := discordsim.New(discordsim.Config{
			Latency: discordsim.Latency{RoundTrip: 100 * time.Millisecond, Jitter: 80 * time.Millisecond},
			Rules: []discordsim.Rule{
				{Method: "GET", Path: "/channels/{id}/messages", Hash: "same", Quota: quota, Changes: changes},
				{Method: "POST", Path: "/channels/{id}/messages", Hash: "same", Quota: quota, Changes: changes},
			},
		})
		require.NoError(t, err)
		defer server.Close()
		transport := httpclient.NewTransport(httpclient.WithBase(server.RoundTripper()))
		defer transport.Close()
		client := &http.Client{Transport: transport}
		var all sync.WaitGroup
		for i := range 60 {
			method := []string{http.MethodGet, http.MethodPost}[i%2]
			all.Go(func() {
				request, err := http.NewRequest(method, discordsim.BaseURL+"/channels/1/messages", nil)
				require.NoError(t, err)
				response, err := client.Do(request)
				if assert.NoError(t, err) {
					response.Body.Close()
				}
			})
			synctest.Wait()
		}
		all.Wait()
		var shared []buckets.LimitSnapshot
		for b := range transport.Manager().Buckets() {
			if b.Hash == "same" {
				shared = append(shared, b)
			}
		}
		require.Len(t, shared, 1)
		assert.Empty(t, shared[0].Route, "both routes live there")
	})
}
