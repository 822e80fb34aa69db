package buckets_test

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// world is a simulated Discord with a client that sends requests when the manager grants them.
type world struct {
	*discordsim.Server
	manager *buckets.RESTBucketManager
	sent    int
	all     sync.WaitGroup
}

// trip is a round-trip time of 20 ms that varies by a millisecond, so that no two events happen at the same moment.
var trip = discordsim.Latency{RoundTrip: 20 * time.Millisecond, Jitter: time.Millisecond}

func newWorld(t *testing.T, config discordsim.Config, options ...buckets.Option) *world {
	t.Helper()
	if config.Latency.RoundTrip == 0 {
		config.Latency = trip
	}
	server, err := discordsim.New(config)
	require.NoError(t, err)
	t.Cleanup(func() { server.Close() })
	return &world{Server: server,
		manager: started(t, append([]buckets.Option{buckets.WithMaxRateLimit(time.Hour)}, options...)...)}
}

// one returns the configuration of a server with a single rule for all paths.
func one(rule discordsim.Rule) discordsim.Config {
	rule.Path = "**"
	return discordsim.Config{Rules: []discordsim.Rule{rule}, Global: discordsim.Unlimited()}
}

// send sends a request in a goroutine, again after each 429, and returns when the request has arrived at the manager.
func (w *world) send(ctx context.Context, method, path string, then func(status int, err error)) {
	w.sent++
	number := w.sent
	w.all.Go(func() {
		status, err := w.do(ctx, method, path, number)
		if then != nil {
			then(status, err)
		}
	})
	synctest.Wait()
}

func (w *world) do(ctx context.Context, method, path string, number int) (int, error) {
	route, err := routes.Match(method, path)
	if err != nil {
		return 0, err
	}
	return untilAccepted(ctx, w.manager, request(route), func() (ratelimits.Response, error) {
		return w.attempt(ctx, method, path, number)
	})
}

func (w *world) attempt(ctx context.Context, method, path string, number int) (ratelimits.Response, error) {
	return exchange(ctx, w.Server, method, path, "{}", number)
}

// untilAccepted sends a request, and again after each 429, until the server accepts it.
func untilAccepted(
	ctx context.Context, m *buckets.RESTBucketManager, request *buckets.Request,
	attempt func() (ratelimits.Response, error),
) (status int, err error) {
	for {
		lease, err := m.AcquireRequest(ctx, request)
		if err != nil {
			return 0, err
		}
		r, err := attempt()
		if err != nil {
			lease.Release()
			return 0, err
		}
		lease.Update(r)
		if r.Class == ratelimits.ClassOK {
			return r.Status, nil
		}
	}
}

// exchange sends a request to a server once and returns the response.
func exchange(
	ctx context.Context, server *discordsim.Server, method, path, body string, number int,
) (ratelimits.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, discordsim.BaseURL+path, strings.NewReader(body))
	if err != nil {
		return ratelimits.Response{}, err
	}
	r.Header.Set("Authorization", bot)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(discordsim.SequenceHeader, strconv.Itoa(number))
	response, err := server.RoundTripper().RoundTrip(r)
	if err != nil {
		return ratelimits.Response{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return ratelimits.Response{}, err
	}
	return ratelimits.ParseResponse(response.StatusCode, response.Header, text), nil
}

// post sends n messages to a channel.
func (w *world) post(channel, n int) {
	for range n {
		w.send(background, "POST", "/channels/"+strconv.Itoa(channel)+"/messages", nil)
	}
}

// finish waits until all requests have ended and returns how long that took.
func (w *world) finish() time.Duration {
	start := time.Now()
	w.all.Wait()
	return time.Since(start)
}
