package load

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/bench/internal/report"
	"github.com/ratelight/ratelight/internal/discordsim"
)

const ms = time.Millisecond

// sixWindows is 60 requests to two channels: six windows.
func sixWindows(changes ...func(*Config)) Config {
	config := Config{
		Requests: 60, MaxRateLimit: time.Minute, GlobalLimit: 50,
		Buckets: 2, Bucket: Bucket{Limit: 5, Window: time.Second}, Network: Network{Latency: 20 * ms, Jitter: 10 * ms, Seed: 1},
	}
	for _, change := range changes {
		change(&config)
	}
	return config
}

// measure runs a load in virtual time.
func measure(t *testing.T, ctx func(*testing.T) context.Context, config Config) (result Result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var err error
		result, err = runLoad(ctx(t), config, Settings{Seed: 1})
		require.NoError(t, err)
	})
	return result
}

func runLoad(ctx context.Context, config Config, settings Settings) (Result, error) {
	s := config.Scenario()
	return s.Run(ctx, settings)
}

// Without a limit of its own, a load meets those that were measured at Discord.
func TestLoadOfMeasuredLimits(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		requests, channels int
		longest            time.Duration // of all ideals: that of the global limit, or of the messages to one channel
	}{{500, 10, 9050 * ms}, {100, 1, 15050 * ms}} {
		config := sixWindows(func(c *Config) { c.Measured, c.Requests, c.Buckets = true, test.requests, test.channels })
		result := measure(t, forever, config)
		assert.Equal(t, map[int]int{http.StatusOK: test.requests}, result.Statuses)
		assert.Zero(t, result.Avoidable.Total())
		assert.LessOrEqual(t, result.Refused.Total(), 4, "lateness is learnt from a refusal")
		assert.Greater(t, result.Certain(), 0.97)
		assert.InDelta(t, test.longest.Seconds(), result.Ideal.Certain.Seconds(), 0.05)
		assert.Contains(t, result.Report(report.Demand{}).About[1], "as measured at Discord")
	}
	routes := make(map[string]bool)
	for _, on := range mix {
		routes[on] = true
	}
	assert.Len(t, routes, 8, "as the description says")
}

func forever(t *testing.T) context.Context { return t.Context() }

func within(d time.Duration) func(*testing.T) context.Context {
	return func(t *testing.T) context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		t.Cleanup(cancel)
		return ctx
	}
}

func TestLoadIsMeasuredAgainstItsIdeal(t *testing.T) {
	t.Parallel()
	var done atomic.Int64
	var result Result
	synctest.Test(t, func(t *testing.T) {
		var err error
		result, err = runLoad(t.Context(), sixWindows(), Settings{Seed: 1, Done: func() { done.Add(1) }})
		require.NoError(t, err)
	})
	assert.Equal(t, 60, result.Answered)
	assert.Equal(t, map[int]int{http.StatusOK: 60}, result.Statuses)
	assert.Empty(t, result.Errors)
	assert.Zero(t, result.GivenUp())
	assert.EqualValues(t, 60, done.Load())
	// Six windows of 1 s: five cycles, and for those who must be sure a smallest round trip in each. For them, the second
	// channel begins when the first one has discovered the route.
	assert.Equal(t, Ideal{Certain: 10*ms + 5*1010*ms + 10*ms, Omniscient: 5010 * ms}, result.Ideal)
	assert.Greater(t, result.Certain(), 0.97)
	assert.Less(t, result.Omniscient(), result.Certain())
	assert.True(t, result.Judged)
	assert.Zero(t, result.Refused.Total())
	assert.False(t, result.Interrupted)
	assert.LessOrEqual(t, result.LargestInFlight, 10)
	assert.Greater(t, result.Queued.Median, time.Second)
	assert.Less(t, result.Queued.Max, result.Took)
}

func TestInterruptionKeepsWhatWasMeasured(t *testing.T) {
	t.Parallel()
	result := measure(t, within(2500*ms), sixWindows())
	assert.True(t, result.Interrupted)
	assert.Equal(t, 30, result.Answered, "three windows of two channels")
	assert.Equal(t, 30, result.GivenUp())
	assert.Empty(t, result.Errors)
	assert.Zero(t, result.Ideal.Certain, "no ideal for work that was not done")
	assert.Contains(t, result.Ideal.Missing, "not all requests")
	assert.Less(t, result.Took, 2500*ms)
}

func TestInterruptionWaitsForWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	slow := func(roundTrip time.Duration) Config {
		return sixWindows(func(c *Config) { c.Network = Network{Latency: roundTrip} })
	}
	result := measure(t, within(100*ms), slow(time.Second))
	assert.Equal(t, 1, result.Answered, "the probe that was under way")
	assert.Equal(t, 59, result.GivenUp())

	result = measure(t, within(100*ms), slow(time.Minute))
	assert.Zero(t, result.Answered, "but not longer than the grace")
	assert.Equal(t, 60, result.GivenUp())
}

func TestInterruptedBeforeItBeganSendsNothing(t *testing.T) {
	t.Parallel()
	result := measure(t, func(t *testing.T) context.Context {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		return ctx
	}, sixWindows())
	assert.Zero(t, result.Reading)
	assert.Equal(t, 60, result.GivenUp())
	assert.Zero(t, result.Certain())
}

func TestConcurrencyBoundsWhatIsHandedOver(t *testing.T) {
	t.Parallel()
	result := measure(t, forever, sixWindows(func(c *Config) { c.Concurrency = 2 }))
	assert.Equal(t, 60, result.Answered)
	assert.LessOrEqual(t, result.LargestInFlight, 2)
	assert.Less(t, result.Queued.Max, 1100*ms, "nobody has more than a window's wait ahead")
}

func TestRequestsThatWouldWaitTooLongAreCounted(t *testing.T) {
	t.Parallel()
	result := measure(t, forever, sixWindows(func(c *Config) { c.MaxRateLimit = 0 }))
	assert.Positive(t, result.RefusedEarly)
	assert.Equal(t, 60, result.Answered+result.RefusedEarly)
	assert.Zero(t, result.Failed())
	assert.NotEmpty(t, result.Ideal.Missing)
}

func TestRefusalsAreTheServersJudgement(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		config := sixWindows()
		s := config.Scenario()
		// Somebody else with the same credential uses up the whole second.
		s.server.Foreign = []discordsim.ForeignUse{{
			Request: discordsim.Request{Method: "GET", Path: "/gateway", Authorization: authorization}, Count: 50, At: []time.Duration{ms},
		}}
		result, err := s.Run(t.Context(), Settings{})
		require.NoError(t, err)
		assert.Equal(t, 1, result.Refused.Global)
		assert.Zero(t, result.Avoidable)
	})
}

func TestIdealIsStatedOnlyWhereItMeansSomething(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		config  Config
		missing string
	}{
		{"six windows", sixWindows(), ""},
		{"one window", sixWindows(func(c *Config) { c.Requests = 10 }), "so short"},
		{"six windows of luck", sixWindows(func(c *Config) { c.Jitter = 200 * ms }), "so short"},
		{"too large to plan", sixWindows(func(c *Config) { c.Requests, c.Buckets = 1_000_000, 101 }), "so many"},
		{"real", Config{Server: &url.URL{}}, "only the simulator"},
	}
	for _, test := range tests {
		s := test.config.Scenario()
		ideal, err := s.Ideal(discordsim.Report{})
		require.NoError(t, err, test.name)
		assert.Contains(t, ideal.Missing, test.missing, test.name)
		assert.Equal(t, ideal.Missing == "", ideal.Certain > 0, test.name)
	}
}

func TestSharesOfChannelsAddUp(t *testing.T) {
	t.Parallel()
	// Seven requests to three channels of one per second: three to the first, which takes two periods.
	config := Config{Requests: 7, Buckets: 3, Bucket: Bucket{Limit: 1, Window: time.Second}}
	s := config.Scenario()
	ideal, err := s.Ideal(discordsim.Report{})
	require.NoError(t, err)
	assert.Equal(t, 2*time.Second, ideal.Omniscient)
}

func TestNonsenseIsAnError(t *testing.T) {
	t.Parallel()
	_, err := runLoad(t.Context(), Config{Requests: 1, Buckets: 1, Bucket: Bucket{Window: time.Second}}, Settings{})
	require.ErrorIs(t, err, discordsim.ErrConfig)
}

// real returns a load on a server that is not simulated.
func real(t *testing.T, handler http.HandlerFunc) Config {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	target, err := url.Parse(server.URL)
	require.NoError(t, err)
	return Config{
		Requests: 3, MaxRateLimit: time.Minute, GlobalLimit: 50,
		Server: target, Path: "/api/v10/gateway", Token: "Bot secret",
	}
}

func TestRealServerIsOnlyRead(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	config := real(t, func(_ http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		assert.Equal(t, "GET /api/v10/gateway", r.Method+" "+r.URL.Path)
		assert.Equal(t, "Bot secret", r.Header.Get("Authorization"))
		assert.Regexp(t, `^DiscordBot \(https?://[^,]+, [^)]+\)$`, r.Header.Get("User-Agent"))
	})
	result, err := runLoad(t.Context(), config, Settings{})
	require.NoError(t, err)
	assert.EqualValues(t, 3, requests.Load())
	assert.Equal(t, 3, result.Answered)
	assert.False(t, result.Judged)
	assert.NotEmpty(t, result.Ideal.Missing)
}

func TestARealServerIsLimitedLikeDiscord(t *testing.T) {
	t.Parallel()
	result, err := runLoad(t.Context(), real(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-RateLimit-Bucket", "gateway")
		w.Header().Set("X-RateLimit-Limit", "1")
		w.Header().Set("X-RateLimit-Remaining", "0")
		w.Header().Set("X-RateLimit-Reset-After", "3600")
	}), Settings{})
	require.NoError(t, err)
	assert.Equal(t, 1, result.Answered)
	assert.Equal(t, 2, result.RefusedEarly)
}

func TestRedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	result, err := runLoad(t.Context(), real(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://example.com", http.StatusFound)
	}), Settings{})
	require.NoError(t, err)
	assert.Equal(t, map[int]int{http.StatusFound: 3}, result.Statuses)
}

func TestErrorsAreCountedWithoutAddresses(t *testing.T) {
	t.Parallel()
	config := real(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	config.Path = "/api/v10/webhooks/1/hunter2"
	result, err := runLoad(t.Context(), config, Settings{})
	require.NoError(t, err)
	assert.Equal(t, 3, result.Failed())
	for text := range result.Errors {
		assert.NotContains(t, text, "hunter2")
	}
	config.Path = "/api/v10/webhooks/1/hunter2\n"
	result, err = runLoad(t.Context(), config, Settings{})
	require.NoError(t, err)
	assert.Equal(t, map[string]int{"the path cannot be requested": 3}, result.Errors)
}

func TestQuantiles(t *testing.T) {
	t.Parallel()
	var times []time.Duration
	for i := range 100 {
		times = append(times, time.Duration(100-i))
	}
	assert.Equal(t, Queued{50, 90, 99, 100}, Quantiles(times))
	assert.Equal(t, Queued{51, 91, 100, 101}, Quantiles(append(times, 101)), "half of 101 are not above 51")
	assert.Equal(t, Queued{7, 7, 7, 7}, Quantiles([]time.Duration{7}))
	assert.Zero(t, Quantiles(nil))
}

func TestNoteSortsOutcomes(t *testing.T) {
	t.Parallel()
	r := newResult(&Scenario{offers: messages(4, 1)}, nil)
	assert.True(t, r.note(http.StatusOK, nil, 2*time.Second))
	assert.True(t, r.note(http.StatusNotFound, nil, time.Second))
	assert.True(t, r.note(0, &url.Error{Op: "Get", URL: "https://discord.com/hunter2", Err: errors.New("no route to host")}, 0))
	assert.False(t, r.note(0, &url.Error{Op: "Get", URL: "https://discord.com/hunter2", Err: context.Canceled}, 0))
	assert.Equal(t, Result{
		scenario: r.scenario, Requests: 4, Answered: 2, Statuses: map[int]int{http.StatusOK: 1, http.StatusNotFound: 1},
		Errors: map[string]int{"no route to host": 1}, Took: 2 * time.Second,
	}, r)
	assert.Equal(t, 1, r.GivenUp())
	assert.Equal(t, Reading{}, r.Reading)

	strict := newResult(&Scenario{Name: "a"}, nil)
	assert.True(t, strict.note(http.StatusNotFound, nil, time.Second))
	assert.Equal(t, map[string]int{"status 404": 1}, strict.Errors, "where only success counts")
	assert.Equal(t, time.Second, strict.Took, "also if all failed")
}

// What is printed and written is made of these texts.
func TestErrorsAreNotedWithoutTokens(t *testing.T) {
	t.Parallel()
	config := Config{Token: "Bot SeCrEt-of-the-bot"}
	const address = "https://discord.com/api/v10/webhooks/1/SeCrEt-of-the-webhook?a=SeCrEt-of-the-query"
	for _, err := range []error{
		&url.Error{Op: "Get", URL: address, Err: errors.New("no way for SeCrEt-of-the-webhook")},
		&url.Error{Op: "Get", URL: address, Err: fmt.Errorf("no way to %s", address)},
		&url.Error{Op: "Get", URL: address, Err: &url.Error{Op: "dial", URL: address, Err: errors.New("no way")}},
		errors.New("no way to /webhooks/1/SeCrEt-of-the-webhook"),
		errors.New("no way for Bot SeCrEt-of-the-bot"),
	} {
		r := newResult(&Scenario{config: config}, nil)
		assert.True(t, r.note(0, err, 0))
		for text := range r.Errors {
			assert.NotContains(t, text, "SeCrEt")
			assert.Contains(t, text, "no way")
		}
	}
}
