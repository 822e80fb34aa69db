package options

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/routes"
)

func TestTuneNeedsNoFlags(t *testing.T) {
	t.Parallel()
	o, err := ParseTune(nil)
	require.NoError(t, err)
	assert.Equal(t, tuneDefaults(), o)
}

func TestTuneFlagsAreTakenOver(t *testing.T) {
	t.Parallel()
	o, err := ParseTune([]string{
		"-rate", "2.5", "-duration", "2h", "-channels", "7", "-skew", "0", "-burst", "3", "-burst-every", "1m",
		"-route", "PUT /channels/{id}/messages/{id}/reactions/{emoji}/@me=3", "-route", "post /channels/{channel.id}/messages = 0.5",
		"-limit", "10", "-window", "10s", "-kind", "sliding", "-global-limit", "0", "-latency", "20ms", "-jitter", "10ms", "-seed", "9",
		"-rule", "POST /channels/{channel.id}/messages=5/5s", "-rule", "GET /channels/{id}=none",
		"-max-rate-limits", "1m, 0s,1s,1m", "-refused", "0", "-json", "-report", "a.html",
	})
	require.NoError(t, err)
	o.rate, o.mix, o.rules = 0, nil, nil
	assert.Equal(t, Tune{
		Requests: 18_000, Duration: 2 * time.Hour, Channels: 7, Burst: 3, BurstEvery: time.Minute,
		Mix:   []Share{{routes.AddMyMessageReaction, 3}, {routes.CreateMessage, 0.5}},
		Limit: 10, Window: 10 * time.Second, Kind: "sliding", Latency: 20 * time.Millisecond, Jitter: 10 * time.Millisecond, Seed: 9,
		Rules: []Rule{
			{"POST", "/channels/{channel_id}/messages", 5, 5 * time.Second},
			{"GET", "/channels/{channel_id}", 0, 0},
		},
		MaxRateLimits: []time.Duration{0, time.Second, time.Minute}, JSON: true, Report: "a.html",
	}, o)
	o, err = ParseTune([]string{"-trace", "-", "-limit", "3"})
	require.NoError(t, err)
	assert.Equal(t, "-", o.Trace)
}

func TestMisusedTuneFlagIsNamedWithWhatIsExpected(t *testing.T) {
	t.Parallel()
	tests := []struct {
		arguments []string
		want      []string // in the error
	}{
		{[]string{"-requests", "0"}, []string{"-requests", `"0"`, "from 1 to 10000000"}},
		{[]string{"-rate", "0"}, []string{"-rate", `"0"`, "above 0"}},
		{[]string{"-rate", "NaN"}, []string{"-rate", "above 0"}},
		{[]string{"-rate", "Inf"}, []string{"-rate", "above 0"}},
		{[]string{"-rate", "1", "-requests", "5"}, []string{"-rate and -requests", "omit one of them"}},
		{[]string{"-rate", "1000", "-duration", "24h"}, []string{"-rate 1000", "-duration 24h", "86400000 requests", "1 to 10000000"}},
		{[]string{"-rate", "0.0001", "-duration", "1m"}, []string{"-rate 0.0001", "0 requests"}},
		{[]string{"-burst", "100000", "-burst-every", "1ms"}, []string{"-burst and -burst-every", "at most 10000000"}},
		{[]string{"-duration", "1"}, []string{"-duration", "duration with its unit"}},
		{[]string{"-channels", "0"}, []string{"-channels", "from 1"}},
		{[]string{"-skew", "-1"}, []string{"-skew", "number from 0 to 10"}},
		{[]string{"-skew", "NaN"}, []string{"-skew", "number from 0 to 10"}},
		{[]string{"-kind", "square"}, []string{"-kind", "fixed, sliding, leaky"}},
		{[]string{"-jitter", "1s"}, []string{"-jitter is 1s", "at most the latency, which is 100ms"}},
		{[]string{"-max-rate-limits", "1s,5"}, []string{"-max-rate-limits", `"1s,5"`, "separated by commas"}},
		{[]string{"-max-rate-limits", ""}, []string{"-max-rate-limits", "durations"}},
		{[]string{"-refused", "1"}, []string{"-refused", `"1"`, "from 0 to below 1"}},
		{[]string{"-refused", "1%"}, []string{"-refused", "such as 0.01"}},
		{[]string{"-refused", "NaN"}, []string{"-refused", "fraction of the requests"}},
		{[]string{"-route", "/channels/{id}=1"}, []string{"-route, number 1", "a method, a space"}},
		{[]string{"-route", "GET /channels/{id}=1", "-route", "GET /channels/{id}"}, []string{"-route, number 2", "= and a value"}},
		{[]string{"-route", "GET /channels/{id}=0"}, []string{"-route, number 1", "weight above 0"}},
		{[]string{"-route", "FETCH /channels/{id}=1"}, []string{"-route, number 1", "method", "GET, POST"}},
		{[]string{"-route", "GET channels=1"}, []string{"-route, number 1", "template"}},
		{[]string{"-rule", "GET /channels/{id}=5"}, []string{"-rule, number 1", "window", "=5/5s"}},
		{[]string{"-rule", "GET /channels/{id}=0/5s"}, []string{"-rule, number 1", "limit from 1", "=none"}},
		{[]string{"-rule", "GET /channels/{id}=5/5"}, []string{"-rule, number 1", "window with its unit"}},
		{[]string{"-rule", "GET /channels/{id}=5/25h"}, []string{"-rule, number 1", "to 24h"}},
		{[]string{"-trace", "a.csv", "-burst", "5"}, []string{"-burst has no effect together with -trace"}},
		{[]string{"-trace", "a.csv", "-rate", "5"}, []string{"-rate has no effect together with -trace"}},
		{[]string{"-trace", ""}, []string{"-trace", "not empty"}},
		{[]string{"-report", ""}, []string{"-report", "not empty"}},
		{[]string{"-token", "x"}, []string{"-token"}},
		{[]string{"extra"}, []string{"argument 1 is not a flag"}},
	}
	for _, test := range tests {
		_, err := ParseTune(test.arguments)
		if assert.Error(t, err, test.arguments) {
			for _, want := range test.want {
				assert.Contains(t, err.Error(), want, test.arguments)
			}
		}
	}
}

func TestTokensAreInNoTuneError(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"-route", "-rule"} {
		for _, value := range []string{
			"POST /webhooks/1/hunter2=5/5s", "POST /webhooks/1/hunter2", "POST /webhooks/1/hunter2%zz=1", "POST webhooks/1/hunter2=1",
			"/webhooks/1/hunter2=1", "POST /interactions/1/hunter2/callback=1", "POST /webhooks/{id}/{token}=hunter2", "hunter2",
		} {
			_, err := ParseTune([]string{flag, value})
			if assert.Error(t, err, value) {
				assert.NotContains(t, err.Error(), "hunter2")
			}
		}
	}
}

func TestTuneHelpShowsEveryFlagAndFitsTheScreen(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"-h", "--help"} {
		_, err := ParseTune([]string{flag})
		require.ErrorIs(t, err, ErrHelp)
	}
	help := TuneHelp()
	o := tuneDefaults()
	for _, group := range o.groups() {
		assert.Contains(t, help, group.title)
		for _, f := range group.flags {
			assert.Contains(t, help, "\n  -"+f.name+" ")
		}
	}
	for _, want := range []string{"(default 1s,2s,5s,10s,30s,1m,2m,5m)", "(default 0.01)", "time,method,path", `{"time": 12.5`, "Exit status"} {
		assert.Contains(t, help, want)
	}
	for line := range strings.Lines(help) {
		assert.LessOrEqual(t, utf8.RuneCountInString(line), 121, line)
	}
	assert.Contains(t, Help(), "go run ./bench tune")
}
