// Package librarytest has the tests that every Discord library on top of an [httpclient.Transport] must pass. The tests
// check that options of the transport, and options in a context, take effect when requests are sent through the
// library. The tests run in virtual time.
package librarytest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
)

// Library is a Discord library that sends its requests through a transport.
type Library struct {
	// Send sends a message to a channel, and passes the context on in the way that the library requires. It must be safe
	// for concurrent use.
	Send func(ctx context.Context, channel uint64, content string) error
	// APIError returns what the library's error type says about Discord's answer. It returns false for an error of another
	// type.
	APIError func(err error) (APIError, bool)
}

// APIError has the values that a library has read from Discord's error response.
type APIError struct {
	Status, Code int
	Message      string
}

const (
	channel        = 900_000_000_000_000_000
	unknownChannel = 404

	limit     = 5
	period    = 5 * time.Second
	roundTrip = 50 * time.Millisecond
)

// Run runs the tests for a module. The module's name is that of its folder in httpclient, which must be the current
// folder. readme is the path of the file that contains the module's program. open returns the library on top of a
// transport, with "token" as the token of a bot. Each test calls open in its bubble of testing/synctest.
func Run(t *testing.T, module, readme string, open func(transport *httpclient.Transport) Library) {
	t.Run("TheProgramOfTheREADMECompiles", func(t *testing.T) {
		t.Parallel()
		CompileREADME(t, readme, "github.com/ratelight/ratelight/httpclient/"+module)
	})
	for _, test := range []struct {
		name    string
		run     func(*testing.T, *fixture)
		options []httpclient.Option
	}{
		{"RefusedAtOnceWhenThePredictedWaitIsTooLong", refusedAtOnce,
			[]httpclient.Option{httpclient.WithMaxRateLimit(2 * period)}},
		{"ReturnsAtOnceWhenTheDeadlineIsTooNear", returnsBeforeTheDeadline, nil},
		{"ReturnsWhenTheContextIsCancelled", returnsWhenCancelled, nil},
		{"GoesFirstWithPriority", goesFirst, nil},
		{"SendsSeveralAtOnceAndCountsAllThatWait", severalAtOnce, nil},
		{"ReturnsTheLibrarysErrorForA404", returnsTypedError, nil},
		{"SendsTheTokenAndRepeatsNoServerError", repeatsNothing, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, open, test.options)
				test.run(t, f)
				assert.Zero(t, f.discord.Report().Refused.Total(), "429s")
			})
		})
	}
}

// fixture has a library, its transport, a simulated Discord, and the outcomes of the messages sent so far.
type fixture struct {
	open      func(*httpclient.Transport) Library
	library   Library
	transport *httpclient.Transport
	discord   *discordsim.Server
	start     time.Time

	calls sync.WaitGroup
	mu    sync.Mutex
	over  []outcome
}

// outcome is the result of sending one message, with the time of the result.
type outcome struct {
	content string
	err     error
	at      time.Duration // since the start
}

func newFixture(t *testing.T, open func(*httpclient.Transport) Library, options []httpclient.Option) *fixture {
	t.Helper()
	discord, err := discordsim.New(Config())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, discord.Close()) })
	transport := httpclient.NewTransport(append(options, httpclient.WithBase(discord.RoundTripper()))...)
	t.Cleanup(func() { assert.NoError(t, transport.Close()) })
	return &fixture{open: open, library: open(transport), transport: transport, discord: discord, start: time.Now()}
}

// Config returns a simulated Discord whose answers to messages the libraries can decode. It has no channel 404. Each
// other channel accepts five messages in five seconds.
func Config() discordsim.Config {
	messages := discordsim.Fixed(limit, period)
	return discordsim.Config{
		Latency: discordsim.RoundTrip(roundTrip),
		Rules: []discordsim.Rule{
			{
				Path: fmt.Sprintf("/channels/%d/**", unknownChannel), Quota: messages,
				Status: http.StatusNotFound, Body: `{"message":"Unknown Channel","code":10003}`,
			},
			{Path: "/channels/{id}/messages", Quota: messages, Body: message},
		},
	}
}

const message = `{"id":"1000000000000000001","channel_id":"900000000000000000","content":"hello","type":0,
"timestamp":"2026-01-01T00:00:00.000000+00:00","edited_timestamp":null,"tts":false,"pinned":false,
"mention_everyone":false,"mentions":[],"mention_roles":[],"embeds":[],"attachments":[],
"author":{"id":"80351110224678912","username":"bot","discriminator":"0","avatar":null}}`

// send sends a message in a separate goroutine.
func (f *fixture) send(ctx context.Context, content string) {
	f.calls.Go(func() {
		err := f.library.Send(ctx, channel, content)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.over = append(f.over, outcome{content, err, time.Since(f.start)})
	})
}

// outcomes returns the outcomes so far, in order of time.
func (f *fixture) outcomes() []outcome {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.over
}

// warm sends messages, one after the other, until the channel's window has room only for a certain number of messages
// (left). From the first message the transport learns the channel's limit.
func (f *fixture) warm(t *testing.T, left int) {
	t.Helper()
	for range limit - left {
		require.NoError(t, f.library.Send(t.Context(), channel, "hello"))
	}
}

// Thirty messages are sent to one channel at once. The first window begins when the first message arrives, so the third
// window begins more than ten seconds later. The messages that would have to wait for the third window must be refused
// at once.
func refusedAtOnce(t *testing.T, f *fixture) {
	const messages, sent = 30, 2 * limit
	for range messages {
		f.send(t.Context(), "hello")
	}
	f.calls.Wait()
	accepted := 0
	for _, o := range f.outcomes() {
		if o.err == nil {
			accepted++
			continue
		}
		var tooLong *ratelimits.TooLongError
		require.ErrorAs(t, o.err, &tooLong)
		assert.Greater(t, tooLong.Wait, 2*period)
		assert.LessOrEqual(t, o.at, 2*roundTrip, "as soon as the limit is known")
	}
	assert.Equal(t, sent, accepted, "messages sent")
	assert.Equal(t, sent, f.discord.Report().Requests)
	assert.Less(t, time.Since(f.start), 2*period)
}

func returnsBeforeTheDeadline(t *testing.T, f *fixture) {
	f.warm(t, 0)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	for range limit { // these waiting requests must not delay the error
		f.send(t.Context(), "hello")
	}
	synctest.Wait()
	start := time.Now()
	err := f.library.Send(ctx, channel, "hello")
	var tooLong *ratelimits.TooLongError
	assert.ErrorAs(t, err, &tooLong)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Zero(t, time.Since(start))
	f.calls.Wait()
}

func returnsWhenCancelled(t *testing.T, f *fixture) {
	f.warm(t, 0)
	for range limit {
		f.send(t.Context(), "hello")
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(time.Second, cancel)
	start := time.Now()
	assert.ErrorIs(t, f.library.Send(ctx, channel, "hello"), context.Canceled)
	assert.Equal(t, time.Second, time.Since(start))
	f.calls.Wait()
	for _, o := range f.outcomes() {
		assert.NoError(t, o.err)
	}
}

func goesFirst(t *testing.T, f *fixture) {
	f.warm(t, 0)
	for range limit {
		f.send(t.Context(), "has time")
	}
	synctest.Wait()
	time.Sleep(time.Second)
	f.send(buckets.ContextWithPriority(t.Context()), "urgent")
	f.calls.Wait()
	over := f.outcomes()
	require.Len(t, over, limit+1)
	for _, o := range over {
		assert.NoError(t, o.err)
		if o.content == "urgent" {
			assert.Less(t, o.at, 2*period, "in the next window")
		}
	}
	assert.Equal(t, "has time", over[limit].content, "only the last message waits for the window after that")
}

func severalAtOnce(t *testing.T, f *fixture) {
	f.warm(t, limit-1)
	const waiting = 20
	for range limit - 1 + waiting {
		f.send(t.Context(), "hello")
	}
	synctest.Wait()
	stats := f.transport.Manager().Stats()
	assert.Equal(t, limit-1, stats.InFlight)
	assert.Equal(t, waiting, stats.Waiting)
	f.calls.Wait()
	assert.Equal(t, limit, f.discord.Report().MaxInFlight)
	stats = f.transport.Manager().Stats()
	assert.Zero(t, stats.InFlight)
	assert.Zero(t, stats.Waiting)
}

func returnsTypedError(t *testing.T, f *fixture) {
	err := f.library.Send(t.Context(), unknownChannel, "hello")
	require.Error(t, err)
	got, ok := f.library.APIError(err)
	require.True(t, ok, "%T", errors.Unwrap(err))
	assert.Equal(t, APIError{http.StatusNotFound, 10003, "Unknown Channel"}, got)
}

// failing answers every request with a 502, and records the Authorization of each request.
type failing struct{ authorizations []string }

func (f *failing) RoundTrip(r *http.Request) (*http.Response, error) {
	f.authorizations = append(f.authorizations, r.Header.Get("Authorization"))
	if r.Body != nil {
		_ = r.Body.Close()
	}
	return &http.Response{StatusCode: http.StatusBadGateway, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

// After a 502, a library by itself would send the message again, although Discord may already have posted it. A library
// that uses the transport must not do so.
func repeatsNothing(t *testing.T, f *fixture) {
	below := new(failing)
	transport := httpclient.NewTransport(httpclient.WithBase(below))
	defer transport.Close()
	assert.Error(t, f.open(transport).Send(t.Context(), channel, "hello"))
	assert.Equal(t, []string{"Bot token"}, below.authorizations)
}
