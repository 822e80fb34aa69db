package main

import (
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/bench/internal/command"
)

func parsed(t *testing.T, arguments ...string) (command.Command, error) {
	t.Helper()
	p := bench()
	p.Context, p.Stdout, p.Stderr = t.Context(), io.Discard, io.Discard
	return p.Parse(arguments)
}

// Flags have one dash or two, and their values follow after = or as the next argument.
func TestFlagsInEveryForm(t *testing.T) {
	t.Parallel()
	for _, arguments := range []string{"-requests 7 -window 2s", "--requests 7 --window=2s", "load -requests=7 -window=2s"} {
		selected, err := parsed(t, strings.Fields(arguments)...)
		require.NoError(t, err, arguments)
		c := selected.(*loadCommand)
		assert.Equal(t, 7, c.Requests)
		assert.Equal(t, "2s", c.Window.String())
		assert.Equal(t, "20ms", c.Latency.String(), "the default")
	}
	selected, err := parsed(t, "tune")
	require.NoError(t, err)
	assert.Equal(t, "5s", selected.(*tuneCommand).Window.String(), "another default")
	assert.Len(t, selected.(*tuneCommand).MaxRateLimits, 8)
}

// A load meets measured limits unless it is told others.
func TestFlagsThatReplaceTheMeasuredLimits(t *testing.T) {
	t.Parallel()
	for arguments, want := range map[string]bool{
		"": true, "-requests 5 -buckets 3 -latency 50ms": true,
		"-limit 5": false, "-window 1s": false, "-kind fixed": false,
	} {
		selected, err := parsed(t, strings.Fields(arguments)...)
		require.NoError(t, err, arguments)
		assert.Equal(t, want, selected.(*loadCommand).Measured, arguments)
	}
}

func TestMisusedFlagIsNamedWithWhatIsExpected(t *testing.T) {
	t.Parallel()
	for arguments, want := range map[string][]string{
		"-requests 0":       {"-requests", `"0"`, "whole number from 1 to 1000000"},
		"-requests x":       {"-requests", `"x"`, "whole number"},
		"-requests":         {"-requests", "expected a whole number"},
		"-buckets 100001":   {"-buckets", `"100001"`, "from 1 to 100000"},
		"-window 1":         {"-window", `"1"`, "duration with its unit from 1ms to 24h"},
		"-jitter 1s":        {"-jitter is 1s", "at most the latency, which is 20ms"},
		"-kind square":      {"-kind", `"square"`, `"fixed","sliding","leaky"`},
		"-min-efficiency 2": {"-min-efficiency", `"2"`, "to 1"},
		"-surprise":         {"unknown flag -surprise"},
		"-report":           {"-report: expected a value after it"},
		"-tokenhunter2":     {"unknown flag -token…", "-token=TEXT"},
		"-token:hunter2":    {"unknown flag -token…"},
		"tune -requests 0":  {"-requests", `"0"`, "whole number from 1"},
		"-reqests 5":        {"unknown flag -reqests", "-requests"},
		"-json hunter2":     {"argument 2 is not a flag", "quote values that contain spaces"},

		"tuen":                 {`argument 1, "tuen", is no command`, "load, scenario, tune, soak"},
		"senario fixed-small":  {`"senario", is no command`, "scenario"},
		"hunter2-and-more":     {"argument 1 is no command", "load, scenario, tune, soak"},
		"load extra":           {`argument 2, "extra", is not a flag`},
		"tune list":            {`argument 2, "list", is not a flag`},
		"-scenario all":        {"-scenario is a command now", "bench scenario [<name> ...]"},
		"-tune":                {"-tune is a command now", "bench tune"},
		"-length 5s":           {"unknown flag -length", "bench soak -length"},
		"--soak=10m":           {"-soak is a command now", "bench soak -length DURATION"},
		"scenario -requests 5": {"unknown flag -requests"},
		"soak -length 10":      {"-length", `"10"`, "from 1s to 744h"},

		"-path /x":                               {"-path has an effect only together with -target"},
		"-token x":                               {"-token has an effect only together with -target"},
		"-target https://discord.com -window 1s": {"-window has no effect together with -target"},
		"-target https://discord.com -min-efficiency 0.9":  {"-min-efficiency has no effect together with -target"},
		"-target https://discord.com -token -hunter2":      {"-token: expected a value", "-token=value"},
		"-target hunter2.com":                              {"-target", "https://discord.com"},
		"-target ftp://discord.com":                        {"-target", "http or https"},
		"-target https://discord.com/api/webhooks/hunter2": {"-target has more than scheme and host"},
		"-target http://discord.com -token hunter2":        {"expected https", "unencrypted"},
		"-target https://discord.com -path hunter2":        {"-path does not begin with a slash"},

		"-report=":                                           {"-report is empty"},
		"tune -trace=":                                       {"-trace is empty"},
		"tune -max-rate-limits=":                             {"-max-rate-limits is empty"},
		"tune -rate 1 -requests 5":                           {"-rate and -requests", "omit one of them"},
		"tune -rate 1000 -duration 24h":                      {"-rate 1000", "86400000 requests"},
		"tune -burst 100000 -burst-every 1ms":                {"-burst and -burst-every", "at most 10000000"},
		"tune -refused 1":                                    {"-refused", `"1"`},
		"tune -max-rate-limits 1s,5":                         {"-max-rate-limits", `"5"`, "duration"},
		"tune -trace a.csv -burst 5":                         {"-burst has no effect together with -trace"},
		"tune -route /channels/hunter2=1":                    {"-route, number 1", "a method, a space"},
		"tune -rule POST|/webhooks/1/hunter2=5/5s":           {"-rule, number 1", "contains a token"},
		"tune -route GET|/channels/{id}=0":                   {"-route, number 1", "weight above 0"},
		"tune -route FETCH|/channels/{id}=1":                 {"-route, number 1", "unknown method"},
		"tune -rule GET|/channels/{id}=0/5s":                 {"-rule, number 1", "limit from 1", "=none"},
		"tune -rule GET|/channels/{id}=5/5":                  {"-rule, number 1", "window with its unit"},
		"tune -rule GET|/channels/{id}=5/5s -rule GET|/a=|b": {"-rule, number 2"},
	} {
		split := strings.Fields(arguments)
		for i := range split {
			split[i] = strings.ReplaceAll(split[i], "|", " ")
		}
		_, err := parsed(t, split...)
		if assert.Error(t, err, arguments) {
			for _, part := range want {
				assert.Contains(t, err.Error(), part, arguments)
			}
			assert.NotContains(t, err.Error(), "hunter2", "it may be a secret")
		}
	}
}

func TestTokenFromTheEnvironment(t *testing.T) {
	t.Setenv("RATELIGHT_TOKEN", "Bot hunter2")
	selected, err := parsed(t, "-target", "https://discord.com")
	require.NoError(t, err)
	c := selected.(*loadCommand)
	assert.Equal(t, "Bot hunter2", c.Token)
	assert.Equal(t, 20, c.Requests, "fewer than to the simulator")
	_, err = parsed(t)
	require.NoError(t, err, "it is not asked for")
}

func TestHelp(t *testing.T) {
	t.Setenv("RATELIGHT_TOKEN", "Bot hunter2")
	for arguments, want := range map[string][]string{
		"-h":          {"Commands:", "scenario", "Simulated Discord", "-max-rate-limit", "$RATELIGHT_TOKEN", "Examples:", "Exit status"},
		"--help":      {"Commands:"},
		"help":        {"Commands:", "Examples:"},
		"help tune":   {"-max-rate-limits", "time,method,path"},
		"scenario -h": {"list for their names", "-min-efficiency"},
		"tune --help": {"-max-rate-limits", "time,method,path", `{"time": 12.5`},
		"soak -h":     {"-length"},
	} {
		status, stdout, stderr := call(t.Context(), strings.Fields(arguments)...)
		assert.Zero(t, status)
		assert.Empty(t, stderr)
		for _, part := range want {
			assert.Contains(t, stdout, part, arguments)
		}
		assert.NotContains(t, stdout, "hunter2")
		for line := range strings.Lines(stdout) {
			assert.LessOrEqual(t, utf8.RuneCountInString(line), 121, line)
		}
	}
}
