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
		o, err := parse(strings.Fields(arguments), nil)
		require.NoError(t, err, arguments)
		got := strings.ReplaceAll(listed(o.contenders), " ", "")
		assert.Equal(t, want.contenders, got, arguments)
		assert.Len(t, o.scenarios, want.scenarios, arguments)
	}
	quick, err := parse([]string{"-quick", "-seed", "7", "-json"}, nil)
	require.NoError(t, err)
	slow, err := parse(nil, nil)
	require.NoError(t, err)
	assert.Equal(t, uint64(7), quick.seed)
	assert.True(t, quick.json && quick.quick)
	for i := range slow.scenarios {
		assert.Less(t, len(quick.scenarios[i].calls), len(slow.scenarios[i].calls))
	}
}

func TestWrongFlagsAreExplained(t *testing.T) {
	t.Parallel()
	for arguments, want := range map[string]string{
		"-scenario slide":        `-scenario: unknown name "slide": expected all, or some of one-channel, `,
		"-contender ratelight,x": `-contender: unknown name "x": expected all, or some of ratelight, discordgo, `,
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
	assert.Contains(t, out.String(), listed(scenarios(false)))
	assert.Contains(t, out.String(), listed(contenders()))
}

func TestTheProgramPrintsTablesOrJSON(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, arguments ...string) (stdout string) {
		arguments = append(arguments, "-quick", "-scenario", "one-limit,mixed", "-contender", "ratelight,no-limiter")
		o, err := parse(arguments, nil)
		require.NoError(t, err)
		o.here = true
		var out, progress bytes.Buffer
		synctest.Test(t, func(t *testing.T) { require.NoError(t, show(t.Context(), o, &out, &progress)) })
		assert.Equal(t, !o.json, progress.Len() > 0)
		return out.String()
	}
	t.Run("tables", func(t *testing.T) {
		text := run(t)
		assert.Regexp(t, `(?m)^mixed: .* 54 calls, ideal \d\.\d\d s$`, text)
		assert.Regexp(t, `(?m)^ratelight +54/54 +0\.\d+ +\d\.\d\d s +0 +0 `, text)
		assert.Regexp(t, `(?m)^no-limiter +14/14 +0\.\d+ +\d\.\d\d s +13 user +13 user `, text)
		assert.Regexp(t, `(?m)^contender +mixed +one-limit +429s in all$`, text)
		assert.Regexp(t, `(?m)^no-limiter +0\.\d\d \(\d+\) +0\.\d\d \(13\) +\d+$`, text)
	})
	t.Run("JSON", func(t *testing.T) {
		var d struct {
			Seed      uint64
			Quick     bool
			Scenarios map[string][]struct {
				Contender                  string
				Refused                    map[string]int
				Seconds, Ideal, Efficiency float64
				IdealSeconds               float64 `json:"ideal_seconds"`
			}
		}
		require.NoError(t, json.Unmarshal([]byte(run(t, "-json", "-seed", "9")), &d))
		assert.Equal(t, uint64(9), d.Seed)
		assert.True(t, d.Quick)
		require.Len(t, d.Scenarios, 2)
		r := d.Scenarios["one-limit"][1]
		assert.Equal(t, "no-limiter", r.Contender)
		assert.Equal(t, 13, r.Refused["user"])
		assert.InDelta(t, r.IdealSeconds/r.Seconds, r.Efficiency, 0.001)
	})
}
