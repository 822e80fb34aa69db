package discordsim

import (
	"bytes"
	"context"
	"errors"
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
)

const messagesURL = BaseURL + "/api/v10/channels/1/messages"

// ways are the two transports that work in virtual time.
var ways = map[string]func(*Server) http.RoundTripper{
	"in process": (*Server).RoundTripper,
	"in memory": func(s *Server) http.RoundTripper {
		return &http.Transport{DialContext: s.DialContext}
	},
}

// inVirtualTime runs a test in a synctest bubble with each of the two transports.
func inVirtualTime(t *testing.T, config Config, test func(t *testing.T, server *Server, client *http.Client)) {
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server, err := New(config)
				require.NoError(t, err)
				client := &http.Client{Transport: way(server)}
				test(t, server, client)
				client.CloseIdleConnections()
				require.NoError(t, server.Close())
			})
		})
	}
}

// ask sends a request and reads the answer. header lists the names and values of header fields in turn.
func ask(ctx context.Context, client *http.Client, method, url, body string, header ...string) (
	response *http.Response, content string, err error,
) {
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err = client.Do(request)
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response, string(text), err
}

// get sends a GET request and reads the answer.
func get(t testing.TB, client *http.Client, url string) (status int, content string) {
	t.Helper()
	response, content, err := ask(t.Context(), client, "GET", url, "")
	if !assert.NoError(t, err) {
		return 0, ""
	}
	return response.StatusCode, content
}

func TestRoundTripTakesExactlyTheLatency(t *testing.T) {
	t.Parallel()
	config := Config{
		Latency: Latency{Draw: func(*rand.Rand) (in, out time.Duration) { return 70 * ms, 30 * ms }},
	}
	inVirtualTime(t, config, func(t *testing.T, server *Server, client *http.Client) {
		for range 3 {
			began := time.Now()
			status, content := get(t, client, messagesURL)
			assert.Equal(t, []any{200, "{}"}, []any{status, content})
			assert.Equal(t, 100*ms, time.Since(began))
			events := server.Events()
			event := events[len(events)-1]
			assert.Equal(t, 70*ms, event.At.Sub(began), "processed one way after sending")
			assert.True(t, event.SentAt.Equal(began))
		}
	})
}

func TestLimitsAreEnforcedWhenTheRequestArrives(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, Config{Latency: RoundTrip(200 * ms)}, func(t *testing.T, _ *Server, client *http.Client) {
		for i := range 5 {
			response, _, err := ask(t.Context(), client, "GET", messagesURL, "")
			require.NoError(t, err)
			// The window opened at 0.1 s, and request i is processed at 0.1 + 0.2 i seconds.
			assert.Equal(t, seconds(1000-200*int64(i)), response.Header.Get(headerResetAfter))
		}
		status, _ := get(t, client, messagesURL) // sent at 1 s, processed at 1.1 s: the window has just closed
		assert.Equal(t, 200, status)
	})
}

func TestSequenceFieldsAndAuthorizationAreRead(t *testing.T) {
	t.Parallel()
	config := Config{Rules: []Rule{{
		Method: "PATCH", Path: "/channels/{id}", Quota: Fixed(5, time.Second),
		SubLimits: []SubLimit{{Fields: []string{"name"}, Quota: Fixed(1, time.Minute)}},
	}}}
	inVirtualTime(t, config, func(t *testing.T, server *Server, client *http.Client) {
		for _, test := range []struct {
			body, sequence string
			status         int
			content        string
		}{
			{`{"name":"x","nested":{"topic":1}}`, "2", 200, ""},
			{` {"name":"y"}`, "3", 429, `"retry_after":60`},
			{`{"nsfw":true}`, "1", 200, ""},
			{`["name"]`, "no number", 200, ""},
		} {
			response, content, err := ask(t.Context(), client, "PATCH", BaseURL+"/api/v10/channels/1", test.body,
				"Authorization", "Bot a", SequenceHeader, test.sequence)
			require.NoError(t, err)
			assert.Equal(t, test.status, response.StatusCode, test.body)
			assert.Contains(t, content, test.content, test.body)
		}
		report := server.Report()
		assert.Equal(t, 1, report.Inversions)
		assert.Equal(t, 1, report.Refused.SubLimit)
		assert.Equal(t, digest("Bot a"), report.Buckets[0].Authorization)
	})
}

func TestClientThatLeavesBeforeProcessingIsNeverCounted(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, Config{Latency: RoundTrip(200 * ms)}, func(t *testing.T, server *Server, client *http.Client) {
		for requests, patience := range []time.Duration{99 * ms, 101 * ms} {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			began := time.Now()
			_, _, err := ask(ctx, client, "GET", messagesURL, "")
			require.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Equal(t, patience, time.Since(began), "the client must not wait longer")
			cancel()
			time.Sleep(time.Second)
			assert.Equal(t, requests, server.Report().Requests, patience)
		}
	})
}

func TestConnectionsBreakBeforeOrAfterProcessing(t *testing.T) {
	t.Parallel()
	config := Config{Latency: RoundTrip(100 * ms), Faults: []Fault{
		{Nth: []int{1}, Connection: ConnectionLostBefore}, {Nth: []int{2}, Connection: ConnectionLostAfter},
	}}
	inVirtualTime(t, config, func(t *testing.T, server *Server, client *http.Client) {
		began := time.Now()
		for _, took := range []time.Duration{50 * ms, 150 * ms} {
			_, _, err := ask(t.Context(), client, "POST", messagesURL, "{}")
			require.Error(t, err)
			assert.Equal(t, took, time.Since(began))
		}
		response, _, err := ask(t.Context(), client, "POST", messagesURL, "{}")
		require.NoError(t, err)
		assert.Equal(t, "3", response.Header.Get(headerRemaining), "only the second request was counted")
		report := server.Report()
		assert.Equal(t, []int{1, 1}, []int{report.Lost, report.Failed})
	})
}

func TestSlowBodyComesAfterItsHeaders(t *testing.T) {
	t.Parallel()
	config := Config{
		Default: &Rule{Path: "**", Body: "hello"}, Faults: []Fault{{BodyDelay: 5 * time.Second, Delay: time.Second}},
	}
	inVirtualTime(t, config, func(t *testing.T, _ *Server, client *http.Client) {
		began := time.Now()
		response, err := client.Get(messagesURL)
		require.NoError(t, err)
		assert.Equal(t, time.Second, time.Since(began))
		content, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		assert.Equal(t, "hello", string(content))
		assert.Equal(t, 6*time.Second, time.Since(began))
		require.NoError(t, response.Body.Close())

		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		response, _, err = ask(ctx, client, "GET", messagesURL, "")
		require.NotNil(t, response, "the headers come before the end of the context")
		require.ErrorIs(t, err, context.DeadlineExceeded, "the end of the context ends the reading")
	})
}

func TestBodiesMayNeverEnd(t *testing.T) {
	t.Parallel()
	for stall, want := range map[Stall]string{StallAtOnce: "", StallHalfway: "hel"} {
		config := Config{
			Default: &Rule{Path: "**", Body: "hello!"}, Faults: []Fault{{Stall: stall, BodyDelay: time.Second}},
			Latency: RoundTrip(100 * ms),
		}
		inVirtualTime(t, config, func(t *testing.T, server *Server, client *http.Client) {
			for _, giveUp := range []func(context.CancelFunc, *http.Response){
				func(cancel context.CancelFunc, _ *http.Response) { cancel() },
				func(_ context.CancelFunc, r *http.Response) { r.Body.Close() },
				func(context.CancelFunc, *http.Response) { server.Close() },
			} {
				require.Error(t, stalled(t, client, want, giveUp))
				synctest.Wait()
				assert.Zero(t, server.inFlight, "the server has ended the request")
			}
		})
	}
}

// stalled gets an answer whose body does not end. It reads the part of the body that comes, and gives up after a
// minute. It returns the error of the last Read.
func stalled(t *testing.T, client *http.Client, want string, giveUp func(context.CancelFunc, *http.Response)) error {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, "GET", messagesURL, nil)
	require.NoError(t, err)
	began := time.Now()
	response, err := client.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, 100*ms, time.Since(began), "headers come at once")
	content := make([]byte, len(want))
	_, err = io.ReadFull(response.Body, content)
	require.NoError(t, err)
	require.Equal(t, want, string(content))
	timer := time.AfterFunc(time.Minute, func() { giveUp(cancel, response) })
	defer timer.Stop()
	_, err = response.Body.Read(make([]byte, 1))
	require.Equal(t, time.Minute+100*ms+time.Duration(min(len(want), 1))*time.Second, time.Since(began),
		"no more of the body comes")
	return err
}

func TestRequestsAreProcessedInTheOrderOfArrival(t *testing.T) {
	t.Parallel()
	const n = 200
	config := Config{
		Default: &Rule{Path: "**"}, Global: Unlimited(), Latency: Latency{RoundTrip: 100 * ms, Jitter: 80 * ms},
		FullLog: true, Seed: 7,
	}
	inVirtualTime(t, config, func(t *testing.T, server *Server, client *http.Client) {
		var group sync.WaitGroup
		for range n {
			group.Go(func() { get(t, client, messagesURL) })
		}
		group.Wait()
		events := server.Events()
		require.Len(t, events, n)
		moments := make(map[time.Time]bool)
		for i, event := range events {
			moments[event.At] = true
			way := event.At.Sub(event.SentAt)
			assert.GreaterOrEqual(t, way, 10*ms)
			assert.LessOrEqual(t, way, 90*ms)
			if i > 0 {
				assert.False(t, event.At.Before(events[i-1].At))
			}
		}
		assert.Greater(t, len(moments), n/2, "jitter spreads the arrivals")
		assert.Equal(t, n, server.Report().MaxInFlight)
	})
}

// Requests that enter one after the other, but arrive at the same moment, must be processed in the order in which they
// entered.
func TestEqualArrivalsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, err := New(Config{Default: &Rule{Path: "**"}, Global: Unlimited(), Latency: RoundTrip(100 * ms)})
		require.NoError(t, err)
		client := &http.Client{Transport: server.RoundTripper()}
		var group sync.WaitGroup
		for i := range 100 {
			group.Go(func() {
				_, _, err := ask(t.Context(), client, "GET", messagesURL, "", SequenceHeader, fmt.Sprint(i+1))
				assert.NoError(t, err)
			})
			synctest.Wait() // until the request has entered the server
		}
		group.Wait()
		assert.Zero(t, server.Report().Inversions)
		require.NoError(t, server.Close())
	})
}

func TestCloseEndsEverything(t *testing.T) {
	t.Parallel()
	config := Config{Latency: RoundTrip(time.Hour)}
	inVirtualTime(t, config, func(t *testing.T, server *Server, client *http.Client) {
		failed := make(chan error)
		request := func() error {
			_, _, err := ask(t.Context(), client, "GET", messagesURL, "")
			return err
		}
		go func() { failed <- request() }()
		time.Sleep(time.Second)
		began := time.Now()
		require.NoError(t, server.Close())
		require.Error(t, <-failed)
		require.Error(t, request())
		assert.Zero(t, time.Since(began))
		assert.Zero(t, server.Report().Requests)
		_, err := server.Listen()
		require.ErrorIs(t, err, ErrClosed)
		require.NoError(t, server.Close(), "a second Close")
	})
}

func TestDeliveryIsWhatTheJudgeGoesBy(t *testing.T) {
	t.Parallel()
	config := Config{Default: &Rule{Path: "**", Quota: Fixed(2, 10*time.Second)}, Latency: RoundTrip(200 * ms)}
	inVirtualTime(t, config, func(t *testing.T, server *Server, client *http.Client) {
		server.Consume(Request{Method: "GET", Path: "/channels/1/messages"}, 2)
		var group sync.WaitGroup
		for _, pause := range []time.Duration{0, 199 * ms, 201 * ms} {
			group.Go(func() {
				time.Sleep(pause)
				status, _ := get(t, client, messagesURL)
				assert.Equal(t, 429, status)
			})
		}
		group.Wait()
		report := server.Report()
		assert.Equal(t, ByClass{User: 3}, report.Refused)
		assert.Equal(t, ByClass{User: 1}, report.Avoidable, "only one request was sent after a refusal had been read")
	})
}

func TestRoundTripperHonoursItsContract(t *testing.T) {
	t.Parallel()
	server, err := New(Config{})
	require.NoError(t, err)
	defer server.Close()
	body := &watchedBody{Reader: bytes.NewReader(make([]byte, 3<<20))}
	request, err := http.NewRequest("POST", messagesURL, body)
	require.NoError(t, err)
	response, err := server.RoundTripper().RoundTrip(request)
	require.NoError(t, err)
	assert.Same(t, request, response.Request)
	assert.Equal(t, "200 OK", response.Status)
	assert.Equal(t, int64(2), response.ContentLength)
	assert.True(t, body.closed, "the body is closed")
	assert.Zero(t, body.Reader.Len(), "the whole body was read")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	request = request.Clone(ctx)
	request.Body = io.NopCloser(strings.NewReader("{}"))
	_, err = server.RoundTripper().RoundTrip(request)
	require.ErrorIs(t, err, context.Canceled)

	broken := errors.New("disk on fire")
	request.Body = io.NopCloser(io.MultiReader(strings.NewReader("{"), &failingReader{broken}))
	_, err = server.RoundTripper().RoundTrip(request.WithContext(t.Context()))
	require.ErrorIs(t, err, broken)
	assert.Equal(t, 1, server.Report().Requests)

	head, err := server.RoundTripper().RoundTrip(&http.Request{Method: "HEAD", URL: request.URL, Header: http.Header{}})
	require.NoError(t, err)
	assert.Equal(t, http.NoBody, head.Body)
}

type watchedBody struct {
	*bytes.Reader
	closed bool
}

func (b *watchedBody) Close() error {
	b.closed = true
	return nil
}

type failingReader struct{ err error }

func (r *failingReader) Read([]byte) (int, error) { return 0, r.err }

func TestListenServesRealSockets(t *testing.T) {
	t.Parallel()
	server, err := New(Config{})
	require.NoError(t, err)
	base, err := server.Listen()
	require.NoError(t, err)
	transport := &http.Transport{}
	client := &http.Client{Transport: transport}
	var group sync.WaitGroup
	for i := range 20 {
		emoji := []string{"%F0%9F%91%8D", "a%2Fb"}[i%2]
		group.Go(func() { get(t, client, base+"/api/v10/channels/1/messages/2/reactions/"+emoji+"/@me") })
	}
	group.Wait()
	report := server.Report()
	assert.Equal(t, 20, report.Requests)
	assert.Equal(t, report.Refused, report.Avoidable)
	assert.Len(t, report.Buckets, 1, "an escaped slash is part of the emoji")
	transport.CloseIdleConnections()
	require.NoError(t, server.Close())
}

func TestLatencyIsSpreadEvenly(t *testing.T) {
	t.Parallel()
	for _, latency := range []Latency{
		{RoundTrip: 100 * ms, Jitter: 20 * ms},
		RoundTrip(100 * ms),
		{RoundTrip: 10 * ms, Jitter: 50 * ms},
	} {
		rng := rand.New(rand.NewPCG(1, 1))
		var sum, smallest time.Duration = 0, time.Hour
		const n = 20_000
		for range n {
			in, out := latency.draw(rng)
			require.GreaterOrEqual(t, min(in, out), time.Duration(0))
			sum += in + out
			smallest = min(smallest, in+out)
		}
		assert.GreaterOrEqual(t, smallest, latency.Smallest())
		if latency.Jitter < latency.RoundTrip {
			assert.InDelta(t, latency.RoundTrip, sum/n, float64(ms))
			assert.LessOrEqual(t, smallest, latency.RoundTrip-latency.Jitter/2)
		}
	}
}

func BenchmarkRoundTripper(b *testing.B) {
	server, err := New(Config{Default: &Rule{Path: "**"}, Global: Unlimited()})
	require.NoError(b, err)
	defer server.Close()
	client := &http.Client{Transport: server.RoundTripper()}
	b.ReportAllocs()
	for b.Loop() {
		get(b, client, messagesURL)
	}
}
