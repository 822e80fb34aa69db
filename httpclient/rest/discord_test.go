package rest_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient/rest"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// clientOfDiscord returns a client of a simulated Discord with a round trip of 10 ms.
func clientOfDiscord(t *testing.T, config discordsim.Config,
	options ...rest.Option) (*rest.Client, *discordsim.Server) {
	t.Helper()
	config.Latency = discordsim.RoundTrip(10 * time.Millisecond)
	server, err := discordsim.New(config)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, server.Close()) })
	options = append(options, rest.WithBaseURL(discordsim.BaseURL+"/api/v10"))
	return newClient(t, server.RoundTripper(), options...), server
}

// limitedTo is a Discord where every route has this limit.
func limitedTo(quota discordsim.Quota, faults ...discordsim.Fault) discordsim.Config {
	return discordsim.Config{Default: &discordsim.Rule{Quota: quota, Faults: faults}}
}

// The first 429, and a second one, are unexpected. The client must wait for both; both requests succeed, in their
// order.
func TestClientWaitsForUnexpected429s(t *testing.T) {
	bubble(t, func(t *testing.T) {
		config := limitedTo(discordsim.Fixed(5, time.Second))
		config.Foreign = []discordsim.ForeignUse{{
			Request: discordsim.Request{Method: "POST", Path: clientMessages, Authorization: "Bot " + clientToken}, Count: 5,
			At: []time.Duration{0},
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

func TestClientStopsInTheMiddleOfABody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		client, _ := clientOfDiscord(t,
			limitedTo(discordsim.Fixed(5, time.Second), discordsim.Fault{Nth: []int{1}, BodyDelay: time.Minute}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := client.Do(ctx, "POST", clientMessages, nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, client.DoJSON(t.Context(), "POST", clientMessages, 1, nil))
	})
}
