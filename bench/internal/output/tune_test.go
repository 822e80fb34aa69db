package output

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/bench/internal/options"
	"github.com/ratelight/ratelight/bench/internal/tune"
	"github.com/ratelight/ratelight/routes"
)

func tuned(t *testing.T) (options.Tune, *tune.Load, tune.Report) {
	t.Helper()
	load, err := tune.Generate(tune.Traffic{
		Requests: 1000, Length: 24 * time.Hour, Channels: 10, Burst: 20, BurstEvery: 4 * time.Hour, Mix: []tune.Share{{Route: routes.CreateMessage, Weight: 1}},
	})
	require.NoError(t, err)
	o := options.Tune{Limit: 5, Window: 5 * second, Kind: "fixed", GlobalLimit: 50, Latency: 100 * ms, Jitter: 50 * ms, Seed: 1, Burst: 20}
	result := func(limit time.Duration, refused int, p99, longest time.Duration, queue int) tune.Result {
		return tune.Result{
			MaxRateLimit: limit, Requests: 10_000, Refused: refused, P99: p99, Max: longest,
			LongestQueue: queue, MostWaiting: queue + 1, Makespan: 24*time.Hour + 12345*ms,
		}
	}
	return o, load, tune.Report{
		Results: []tune.Result{
			result(5*second, 310, 5020*ms, 5070*ms, 9), result(30*second, 40, 15*second, 29*second, 19), result(5*time.Minute, 0, 15*second, 31*second, 21),
		},
		Acceptable: 0.01, Recommended: 1,
		Bottleneck: &tune.Bottleneck{Name: "POST /channels/{channel_id}/messages of channel 1", Refused: 40, Limit: 5, Period: 5 * second, Longest: 31 * second},
	}
}

func TestTuneAsText(t *testing.T) {
	t.Parallel()
	show := func(change func(*options.Tune, *tune.Report)) string {
		o, load, report := tuned(t)
		change(&o, &report)
		var b bytes.Buffer
		Tune(&b, o, load, report)
		fits(t, b.String())
		return b.String()
	}
	golden(t, "tune.txt", []byte(show(func(*options.Tune, *tune.Report) {})))
	golden(t, "tune-lasting.txt", []byte(show(func(o *options.Tune, r *tune.Report) {
		o.GlobalLimit, o.Rules = 0, make([]options.Rule, 2)
		r.Results, r.Recommended = r.Results[:1], -1
		r.Bottleneck = &tune.Bottleneck{
			Name: "POST /channels/{channel_id}/messages of channel 900000000000000000", Refused: 300,
			Asked: 1.504, Limit: 5, Period: 5 * second, Lasting: true, Longest: 9 * second,
		}
	})))
	burst := func(b tune.Bottleneck) string {
		return show(func(_ *options.Tune, r *tune.Report) { r.Results, r.Recommended, r.Bottleneck = r.Results[:1], -1, &b })
	}
	assert.Contains(t, burst(tune.Bottleneck{Refused: 310, Limit: 50, Period: second, Longest: 90 * second}),
		"\nThe bottleneck is the global limit (310 refused).\n"+
			"It allows 50 per 1 s, and for a while there is more to do: requests would have to wait for 1m30s or more.\n"+
			"Try values above 5 s, or spread the requests.\n")
	assert.Contains(t, burst(tune.Bottleneck{Name: "GET /gateway", Refused: 310}),
		"GET /gateway (310 refused).\nTry values above 5 s", "its limit was never learnt")
	assert.Contains(t, show(func(_ *options.Tune, r *tune.Report) { r.Bottleneck = nil }),
		"5 s refuses 3.10 %.\nThere is no bottleneck: no request waits for a limit.\n")
	assert.Contains(t, show(func(_ *options.Tune, r *tune.Report) {
		r.Bottleneck = &tune.Bottleneck{Waited: time.Hour, Longest: 20 * second, Limit: 50, Period: second}
	}), "5 s refuses 3.10 %.\nThe bottleneck is the global limit: requests waited 1h for it in all, the longest 20.00 s.\n")
	assert.Contains(t, show(func(_ *options.Tune, r *tune.Report) { r.Acceptable, r.Recommended = 0.1, 0 }),
		"OK: 5 s is the smallest value that refuses 10.0 % or less (3.10 %). Smaller ones were not tried.\n")
}

func TestTuneAsJSON(t *testing.T) {
	t.Parallel()
	_, load, report := tuned(t)
	var b bytes.Buffer
	require.NoError(t, TuneJSON(&b, load, report))
	golden(t, "tune.json", b.Bytes())
	b.Reset()
	report.Recommended, report.Bottleneck = -1, &tune.Bottleneck{Refused: 310, Asked: 55.5, Limit: 50, Period: second, Lasting: true, Longest: 90 * second}
	require.NoError(t, TuneJSON(&b, load, report))
	golden(t, "tune-failed.json", b.Bytes())
}

func TestPartsAndLongTimes(t *testing.T) {
	t.Parallel()
	for part, want := range map[float64]string{
		0: "0 %", 0.000001: "< 0.01 %", 0.001: "0.10 %", 0.004: "0.40 %", 0.01: "1 %", 0.0312: "3.12 %", 0.1: "10.0 %", 1: "100.0 %",
	} {
		assert.Equal(t, want, percent(part))
	}
	for d, want := range map[time.Duration]string{
		0: "0 s", 59 * second: "59.00 s", time.Minute: "1m", 90 * second: "1m30s", time.Hour: "1h", time.Hour + time.Second: "1h0m1s", 24 * time.Hour: "24h",
	} {
		assert.Equal(t, want, long(d))
	}
}
