package options

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func nothing(string) string { return "" }

func parse(arguments ...string) (Options, error) { return Parse(arguments, nothing) }

func TestDefaultsAreALoadOnTheSimulator(t *testing.T) {
	t.Parallel()
	o, err := parse()
	require.NoError(t, err)
	assert.Equal(t, defaults(), o)
	assert.Nil(t, o.Target)
	assert.Empty(t, o.Scenario)
}

func TestFlagsAreTakenOver(t *testing.T) {
	t.Parallel()
	o, err := parse(
		"-requests", "70", "-concurrency", "7", "-max-rate-limit", "3s", "-global-limit", "0", "-buckets", "2", "-limit", "9",
		"-window", "2s", "-kind", "leaky", "-latency", "50ms", "-jitter", "50ms", "-seed", "0", "-json", "-fail-on-429", "-min-efficiency", "0.9")
	require.NoError(t, err)
	assert.Equal(t, Options{
		Requests: 70, Concurrency: 7, MaxRateLimit: 3 * time.Second, Buckets: 2, Limit: 9, Window: 2 * time.Second, Kind: "leaky",
		Latency: 50 * time.Millisecond, Jitter: 50 * time.Millisecond, JSON: true, FailOn429: true, MinEfficiency: 0.9,
		Path: defaults().Path, Length: defaults().Length, Outage: "wait",
	}, o)
}

func TestMisusedFlagIsNamedWithWhatIsExpected(t *testing.T) {
	t.Parallel()
	tests := []struct {
		arguments string
		want      []string // in the error
	}{
		{"-requests 0", []string{"-requests", `"0"`, "whole number from 1 to 1000000"}},
		{"-requests many", []string{"-requests", `"many"`, "whole number"}},
		{"-requests 1.5", []string{"-requests", `"1.5"`}},
		{"-requests 99999999999999999999", []string{"-requests", "whole number"}},
		{"-concurrency -1", []string{"-concurrency", `"-1"`, "from 0"}},
		{"-buckets 0", []string{"-buckets", "from 1"}},
		{"-limit 0", []string{"-limit", "from 1"}},
		{"-window 5", []string{"-window", `"5"`, "duration with its unit from 1ms to 24h"}},
		{"-window 0s", []string{"-window", "from 1ms"}},
		{"-window 25h", []string{"-window", "to 24h"}},
		{"-kind square", []string{"-kind", `"square"`, "fixed, sliding, leaky"}},
		{"-latency -1ms", []string{"-latency", "from 0s to 1m"}},
		{"-jitter 1s", []string{"-jitter is 1s", "at most the latency, which is 20ms"}},
		{"-global-limit -5", []string{"-global-limit", "from 0"}},
		{"-max-rate-limit forever", []string{"-max-rate-limit", `"forever"`, "duration"}},
		{"-seed -1", []string{"-seed", "0 or more"}},
		{"-min-efficiency 97", []string{"-min-efficiency", `"97"`, "at most 1"}},
		{"-min-efficiency 0", []string{"-min-efficiency", "above 0"}},
		{"-min-efficiency NaN", []string{"-min-efficiency", "fraction of the ideal"}},
		{"-json=perhaps", []string{"-json", `"perhaps"`, "true or false"}},
		{"-scenario=", []string{"-scenario", "not empty"}},
		{"-surprise", []string{"-surprise"}},
		{"-requests", []string{"-requests", "needs an argument"}},
		{"tune", []string{"argument 1 is not a flag"}},
		{"-requests 5 -json extra", []string{"argument 4 is not a flag"}},

		{"-scenario all -requests 5", []string{"-requests has no effect together with -scenario"}},
		{"-scenario all -global-limit 5", []string{"-global-limit has no effect together with -scenario"}},
		{"-scenario all -target https://discord.com", []string{"-target has no effect together with -scenario"}},
		{"-soak 10", []string{"-soak", `"10"`, "duration with its unit from 1s"}},
		{"-soak 10m -requests 5", []string{"-requests has no effect together with -soak"}},
		{"-soak 10m -scenario all", []string{"-scenario has no effect together with -soak"}},
		{"-soak 10m -fail-on-429", []string{"-fail-on-429 has no effect together with -soak"}},
		{"-soak 10m -report x.html", []string{"-report has no effect together with -soak"}},
		{"-scenario list -report x.html", []string{"-report has no effect together with -scenario list"}},
		{"-report=", []string{"-report", "not empty"}},
		{"-soak 10m -json", []string{"-json has no effect together with -soak"}},

		{"-processes 0", []string{"-processes", `"0"`, "whole number from 1 to 64"}},
		{"-processes 65", []string{"-processes", "from 1 to 64"}},
		{"-processes -1", []string{"-processes", "from 1 to 64"}},
		{"-processes two", []string{"-processes", `"two"`}},
		{"-redis redis://127.0.0.1", []string{"-redis has an effect only together with -processes"}},
		{"-disturb", []string{"-disturb has an effect only together with -processes"}},
		{"-length 5s", []string{"-length has an effect only together with -processes"}},
		{"-scenario all -redis redis://127.0.0.1", []string{"-redis has an effect only together with -processes"}},
		{"-processes 2 -requests 5", []string{"-requests has no effect together with -processes"}},
		{"-processes 2 -soak 10m", []string{"-soak has no effect together with -processes"}},
		{"-processes 2 -target https://discord.com", []string{"-target has no effect together with -processes"}},
		{"-processes 2 -global-limit 5", []string{"-global-limit has no effect together with -processes"}},
		{"-processes 2 -length 1s", []string{"-length", "from 3s to 10m"}},
		{"-processes 2 -redis=", []string{"-redis", "not empty"}},
		{"-processes 2 -redis localhost", []string{"-redis is not the URL of a server", "redis://127.0.0.1:6379"}},
		{"-processes 1 -disturb", []string{"-disturb", "-processes is 1", "2 or more"}},
		{"-processes 2 -disturb -redis redis://127.0.0.1", []string{"-disturb is given together with -redis", "has to start it itself"}},
		{"-processes 2 -disturb -min-efficiency 0.9", []string{"-min-efficiency has no effect together with -disturb"}},
		{"-processes 2 -outage fail", []string{"-outage has an effect only together with -disturb"}},
		{"-processes 2 -disturb -outage panic", []string{"-outage", `"panic"`, "wait, fail, share, full"}},
		{"-processes 2 -disturb -length 39s", []string{"-length is 39s", "1m10s or more with -disturb"}},

		{"-path /x", []string{"-path has an effect only together with -target"}},
		{"-token x", []string{"-token has an effect only together with -target"}},
		{"-target https://discord.com -window 1s", []string{"-window has no effect together with -target"}},
		{"-target https://discord.com -min-efficiency 0.9", []string{"-min-efficiency has no effect together with -target"}},

		{"-target discord.com", []string{"-target", "https://discord.com"}},
		{"-target ftp://discord.com", []string{"-target", "http or https"}},
		{"-target https://discord.com/api", []string{"-target", "https://discord.com", "-path"}},
		{"-target https://discord.com -path gateway", []string{"-path", "does not begin with a slash"}},
		{"-target https://discord.com -path /%zz", []string{"-path", "not a path of the API"}},
		{"-target http://discord.com -token x", []string{"-target is http://discord.com", "https", "unencrypted"}},
	}
	for _, test := range tests {
		_, err := parse(strings.Fields(test.arguments)...)
		if assert.Error(t, err, test.arguments) {
			for _, want := range test.want {
				assert.Contains(t, err.Error(), want, test.arguments)
			}
		}
	}
}

func TestSoakTakesItsLengthAndASeed(t *testing.T) {
	t.Parallel()
	o, err := parse("-soak", "24h", "-seed", "7")
	require.NoError(t, err)
	assert.Equal(t, 24*time.Hour, o.Soak)
	assert.EqualValues(t, 7, o.Seed)
}

func TestRealServerGetsFewRequestsUnlessMoreAreAskedFor(t *testing.T) {
	t.Parallel()
	o, err := parse("-target", "https://discord.com/", "-token", "Bot x")
	require.NoError(t, err)
	assert.Equal(t, realRequests, o.Requests)
	assert.Equal(t, "https://discord.com", o.Target.String())
	assert.Equal(t, "/api/v10/gateway", o.Path)
	assert.Equal(t, "Bot x", o.Token)
	o, err = parse("-target", "http://127.0.0.1:8080", "-token", "Bot x", "-requests", "300")
	require.NoError(t, err, "nobody listens on the way to this machine itself")
	assert.Equal(t, 300, o.Requests)
}

func TestTokenComesFromTheEnvironmentUnlessGiven(t *testing.T) {
	t.Parallel()
	environment := func(name string) string { return map[string]string{TokenVariable: "Bot from outside"}[name] }
	o, err := Parse([]string{"-target", "https://discord.com"}, environment)
	require.NoError(t, err)
	assert.Equal(t, "Bot from outside", o.Token)
	o, err = Parse([]string{"-target", "https://discord.com", "-token", "Bot given"}, environment)
	require.NoError(t, err)
	assert.Equal(t, "Bot given", o.Token)
	o, err = Parse(nil, environment)
	require.NoError(t, err)
	assert.Empty(t, o.Token, "the simulator needs none")
}

func TestProcessesTakeTheirTime(t *testing.T) {
	t.Parallel()
	o, err := parse("-processes", "4", "-redis", "redis://me:secret@127.0.0.1:6379/1", "-scenario", "one-bucket", "-seed", "3", "-min-efficiency", "0.9")
	require.NoError(t, err)
	assert.Equal(t, 4, o.Processes)
	assert.Equal(t, "redis://me:secret@127.0.0.1:6379/1", o.Redis)
	assert.Equal(t, "one-bucket", o.Scenario)
	assert.Equal(t, 20*time.Second, o.Length)

	o, err = parse("-processes", "2", "-disturb")
	require.NoError(t, err)
	assert.True(t, o.Disturb)
	assert.Equal(t, 70*time.Second, o.Length, "accidents need their time")
	o, err = parse("-processes", "2", "-disturb", "-length", "2m")
	require.NoError(t, err)
	assert.Equal(t, 2*time.Minute, o.Length)
}

func TestSecretsAreInNoError(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	for _, arguments := range [][]string{
		{"-token", secret},
		{"-token", "Bot", secret}, // quotes forgotten
		{"-target", "http://discord.com", "-token", secret},
		{"-target", "https://discord.com", "-token", secret + "\n"},
		{"-target", "https://discord.com", "-token", secret, "-requests", "none"},
		{"-target", "https://discord.com", "-token", secret, "-path", "none"},
		{"-target", "https://me:" + secret + "@discord.com"},
		{"-target", "https://discord.com/api/webhooks/1/" + secret},
		{"-target", "https://discord.com?token=" + secret},
		{"-target", "https://discord .com/" + secret},
		{"-target", "https://discord.com", "-path", "api/webhooks/1/" + secret},
		{"-target", "https://discord.com", "-path", "/webhooks/1/" + secret + "%zz"},
		{"-processes", "2", "-redis", "me:" + secret + "@127.0.0.1"},
		{"-processes", "2", "-redis", "redis://me:" + secret + "@127.0.0.1:port"},
		{"-processes", "2", "-redis", "redis://me:" + secret + "@127.0.0.1", "-disturb"},
	} {
		_, err := parse(arguments...)
		if assert.Error(t, err, arguments) {
			assert.NotContains(t, err.Error(), secret)
		}
	}
}

func TestHelpShowsEveryFlagAndFitsTheScreen(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"-h", "--help"} {
		_, err := parse(flag)
		require.ErrorIs(t, err, ErrHelp)
	}
	help := Help()
	o := defaults()
	for _, group := range o.groups() {
		assert.Contains(t, help, group.title)
		for _, f := range group.flags {
			assert.Contains(t, help, "\n  -"+f.name+" ")
		}
	}
	assert.Contains(t, help, "SEND REAL REQUESTS")
	assert.Contains(t, help, "(default 500)")
	assert.Contains(t, help, "(default 5m)")
	assert.Contains(t, help, TokenVariable)
	for line := range strings.Lines(help) {
		assert.LessOrEqual(t, utf8.RuneCountInString(line), 121, line)
	}
}
