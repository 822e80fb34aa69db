package rest_test

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient/rest"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
)

// clientOfDiscord returns a client of a simulated Discord that is ten milliseconds away.
func clientOfDiscord(t *testing.T, config discordsim.Config, options ...rest.Option) (*rest.Client, *discordsim.Server) {
	t.Helper()
	config.Latency = discordsim.RoundTrip(10 * time.Millisecond)
	server, err := discordsim.New(config)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, server.Close()) })
	options = append(options, rest.WithBaseURL(discordsim.BaseURL+"/api/v10"))
	return newClient(t, server.RoundTripper(), options...), server
}

// limitedTo is a Discord where everything has one limit.
func limitedTo(quota discordsim.Quota, faults ...discordsim.Fault) discordsim.Config {
	return discordsim.Config{Default: &discordsim.Rule{Quota: quota, Faults: faults}}
}

func TestClientSpacesCallsByTheReset(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, server := clientOfDiscord(t, limitedTo(discordsim.Fixed(1, time.Second)))
		start := time.Now()
		for range 3 {
			require.NoError(t, client.DoJSON(t.Context(), "POST", clientMessages, map[string]string{"content": "hello"}, nil))
		}
		assert.GreaterOrEqual(t, time.Since(start), 2*time.Second)
		assert.Less(t, time.Since(start), 2500*time.Millisecond)
		assert.Zero(t, server.Report().Refused.Total())
	})
}

// A first and a second unexpected 429 are waited for; both requests succeed, in their order.
func TestClientWaitsForUnexpected429s(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		config := limitedTo(discordsim.Fixed(5, time.Second))
		config.Foreign = []discordsim.ForeignUse{{
			Request: discordsim.Request{Method: "POST", Path: clientMessages, Authorization: "Bot " + clientToken}, Count: 5, At: []time.Duration{0},
		}}
		client, server := clientOfDiscord(t, config)
		time.Sleep(100 * time.Millisecond)
		start := time.Now()
		var group sync.WaitGroup
		for i := range 2 {
			group.Go(func() {
				assert.NoError(t, client.DoJSON(t.Context(), "POST", clientMessages, map[string]int{"n": i}, nil))
			})
			synctest.Wait()
		}
		group.Wait()
		assert.GreaterOrEqual(t, time.Since(start), 900*time.Millisecond)
		report := server.Report()
		assert.Equal(t, 2, report.Accepted)
		assert.Equal(t, 1, report.Refused.Total())
		assert.Zero(t, report.Inversions)
	})
}

// Field names are seen because the body says that it is JSON: a hidden limit on names does not hold topics up.
func TestClientLetsOtherFieldsPassASubLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, _ := clientOfDiscord(t, discordsim.Config{Rules: []discordsim.Rule{{
			Method: "PATCH", Path: "/channels/{id}", Quota: discordsim.Fixed(10, 10*time.Second),
			SubLimits: []discordsim.SubLimit{{Fields: []string{"name"}, Quota: discordsim.Fixed(2, 10*time.Minute)}},
		}}})
		rename := func(i int) error {
			return client.DoJSON(t.Context(), "PATCH", "/channels/1", map[string]string{"name": strconv.Itoa(i)}, nil)
		}
		require.NoError(t, rename(1))
		require.NoError(t, rename(2))
		var tooLong *ratelimits.TooLongError
		require.ErrorAs(t, rename(3), &tooLong)
		start := time.Now()
		require.NoError(t, client.DoJSON(t.Context(), "PATCH", "/channels/1", map[string]bool{"nsfw": true}, nil))
		assert.Less(t, time.Since(start), time.Second)
		require.ErrorAs(t, rename(4), &tooLong)
	})
}

func TestClientTellsFailuresApart(t *testing.T) {
	t.Parallel()
	for _, status := range []int{403, 404, 405, 501} {
		synctest.Test(t, func(t *testing.T) {
			client, server := clientOfDiscord(t, limitedTo(discordsim.Fixed(5, time.Second), discordsim.Fault{Nth: []int{1}, Status: status}))
			var failure *rest.APIError
			require.ErrorAs(t, client.DoJSON(t.Context(), "POST", clientMessages, 1, nil), &failure)
			assert.Equal(t, status, failure.Status)
			assert.NoError(t, client.DoJSON(t.Context(), "POST", clientMessages, 1, nil))
			assert.Equal(t, 2, server.Report().Requests)
		})
	}
}

func TestClientStopsWhenTheContextEnds(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]time.Duration{"before sending": 0, "in flight": 5 * time.Millisecond, "in the queue": 500 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client, server := clientOfDiscord(t, limitedTo(discordsim.Fixed(1, time.Second)))
				if name == "in the queue" {
					require.NoError(t, client.DoJSON(t.Context(), "POST", clientMessages, 1, nil))
				}
				before := server.Report().Requests
				ctx, cancel := context.WithCancel(t.Context())
				if after == 0 {
					cancel()
				}
				time.AfterFunc(after, cancel)
				start := time.Now()
				_, err := client.Do(ctx, "POST", clientMessages, rest.JSON(1))
				require.ErrorIs(t, err, context.Canceled)
				assert.Equal(t, after, time.Since(start))
				if name != "in flight" {
					assert.Equal(t, before, server.Report().Requests)
				}
				require.NoError(t, client.DoJSON(t.Context(), "POST", clientMessages, 1, nil), "the next one goes")
			})
		})
	}
}

func TestClientStopsInTheMiddleOfABody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, _ := clientOfDiscord(t, limitedTo(discordsim.Fixed(5, time.Second), discordsim.Fault{Nth: []int{1}, BodyDelay: time.Minute}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := client.Do(ctx, "POST", clientMessages, nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, client.DoJSON(t.Context(), "POST", clientMessages, 1, nil))
	})
}

// Interactions are answered together, whatever their number, and without the bot's credential.
func TestClientAnswersInteractionsTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, server := clientOfDiscord(t, discordsim.Config{Rules: []discordsim.Rule{{
			Method: "POST", Path: "/interactions/{id}/{token}/callback", Status: http.StatusNoContent,
		}}})
		start := time.Now()
		var group sync.WaitGroup
		for i := range 20 {
			group.Go(func() {
				path := "/interactions/" + strconv.Itoa(i+1) + "/aW50ZXJhY3Rpb246abc" + strconv.Itoa(i) + "/callback"
				assert.NoError(t, client.DoJSON(t.Context(), "POST", path, map[string]int{"type": 5}, nil))
			})
		}
		group.Wait()
		assert.Equal(t, 10*time.Millisecond, time.Since(start))
		assert.Equal(t, 20, server.Report().Accepted)
	})
}
