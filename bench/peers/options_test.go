package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func names[T any](list []T, name func(T) string) (all []string) {
	for _, one := range list {
		all = append(all, name(one))
	}
	return all
}

func TestFlagsChooseWhatIsRun(t *testing.T) {
	t.Parallel()
	for arguments, want := range map[string]struct {
		contenders string
		scenarios  int
	}{
		"":                             {"ratelight,discordgo,disgo,arikawa,rate-even,rate-bursts,no-limiter", 7},
		"-contender no-limiter,disgo":  {"disgo,no-limiter", 7},
		"-contender arikawa+ratelight": {"arikawa+ratelight", 7},
		"-scenario leaky,mixed -contender all": {"ratelight,discordgo,disgo,arikawa,rate-even,rate-bursts,no-limiter," +
			"discordgo+ratelight-session,discordgo+ratelight,disgo+ratelight,arikawa+ratelight", 2},
		"-contender hooks": {"discordgo,discordgo+ratelight-session,discordgo+ratelight," +
			"disgo,disgo+ratelight,arikawa,arikawa+ratelight", 7},
	} {
		o, err := parse(strings.Fields(arguments))
		require.NoError(t, err, arguments)
		got := names(o.contenders, func(c contender) string { return c.name })
		assert.Equal(t, want.contenders, strings.Join(got, ","), arguments)
		assert.Len(t, o.scenarios, want.scenarios, arguments)
	}
	quick, err := parse([]string{"-quick", "-seed", "7", "-json", "-here"})
	require.NoError(t, err)
	slow, err := parse(nil)
	require.NoError(t, err)
	assert.Equal(t, uint64(7), quick.seed)
	assert.True(t, quick.json && quick.here && quick.quick)
	for i := range slow.scenarios {
		assert.Less(t, len(quick.scenarios[i].calls), len(slow.scenarios[i].calls))
	}
}

func TestWrongFlagsAreExplained(t *testing.T) {
	t.Parallel()
	for arguments, want := range map[string]string{
		"-scenario slide":        `-scenario: unknown name "slide": expected all, or some of one-channel,`,
		"-contender ratelight,x": `-contender: unknown name "x": expected all, or some of ratelight,discordgo,`,
		"-seed minus":            "seed",
		"fast":                   `"fast" is not a flag`,
		"-fast":                  "fast",
	} {
		var out, complaints bytes.Buffer
		assert.Equal(t, statusUsage, program(t.Context(), strings.Fields(arguments), &out, &complaints), arguments)
		assert.Contains(t, complaints.String(), want)
		assert.Contains(t, complaints.String(), "-h")
		assert.Empty(t, out.String())
	}
}

func TestHelpNamesEverything(t *testing.T) {
	t.Parallel()
	var out, complaints bytes.Buffer
	assert.Zero(t, program(t.Context(), []string{"-h"}, &out, &complaints))
	assert.Empty(t, complaints.String())
	for _, s := range scenarios(false) {
		assert.Contains(t, out.String(), s.name+" ")
	}
	everybody, err := findContenders("all")
	require.NoError(t, err)
	for _, c := range everybody {
		assert.Contains(t, out.String(), c.name+" ")
	}
	for line := range strings.Lines(out.String()) {
		assert.LessOrEqual(t, len(line), 160)
	}
}

func TestTheProgramPrintsTablesOrJSON(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, arguments ...string) string {
		arguments = append(arguments, "-here", "-quick", "-scenario", "one-limit,mixed", "-contender", "ratelight,no-limiter")
		o, err := parse(arguments)
		require.NoError(t, err)
		var out, complaints bytes.Buffer
		synctest.Test(t, func(t *testing.T) { require.NoError(t, compare(t.Context(), o, &out, &complaints)) })
		assert.Empty(t, complaints.String(), "it is no terminal")
		return out.String()
	}
	t.Run("tables", func(t *testing.T) {
		text := run(t)
		assert.Regexp(t, `(?m)^mixed: .* 54 calls, ideal \d\.\d\d s$`, text)
		assert.Regexp(t, `(?m)^ratelight +54/54 +0\.\d+ +\d\.\d\d +none +none `, text)
		assert.Regexp(t, `(?m)^no-limiter +14/14 +0\.\d+ +\d\.\d\d +13 user +13 user `, text)
		assert.Contains(t, text, "\n| | mixed | one-limit | 429s in all |\n|---|---|---|---|\n| ratelight | 0.")
		assert.Regexp(t, `(?m)^\| no-limiter \| .* \| 0\.\d\d, 13 × 429 \| \d+ \|$`, text)
	})
	t.Run("JSON", func(t *testing.T) {
		var d document
		require.NoError(t, json.Unmarshal([]byte(run(t, "-json", "-seed", "9")), &d))
		assert.Equal(t, uint64(9), d.Seed)
		assert.True(t, d.Quick)
		require.Len(t, d.Scenarios, 2)
		require.Len(t, d.Scenarios[1].Results, 2)
		r := d.Scenarios[1].Results[1]
		assert.Equal(t, "no-limiter", r.Contender)
		assert.Equal(t, map[string]int{"user": 13}, r.Refused)
		assert.InDelta(t, r.Ideal.Seconds()/r.Took.Seconds(), r.Efficiency, 0.001)
		assert.Equal(t, d.Scenarios[1].Ideal, r.Ideal)
	})
}
