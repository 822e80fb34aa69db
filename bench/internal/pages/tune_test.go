package pages

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/bench/internal/options"
	"github.com/ratelight/ratelight/bench/internal/tune"
	"github.com/ratelight/ratelight/routes"
)

// tuned is a search among three values, of which the second one is recommended.
func tuned(t *testing.T) (options.Tune, *tune.Load, tune.Report) {
	t.Helper()
	load, err := tune.Generate(tune.Traffic{
		Requests: 1000, Length: 24 * time.Hour, Channels: 10, Burst: 20, BurstEvery: 4 * time.Hour, Mix: []tune.Share{{Route: routes.CreateMessage, Weight: 1}},
	})
	require.NoError(t, err)
	o := options.Tune{
		Channels: 10, Skew: 1, Burst: 20, Mix: []options.Share{{Route: routes.CreateMessage, Weight: 3}, {Route: routes.GetChannel, Weight: 1}},
		Limit: 5, Window: 5 * time.Second, Kind: "sliding", GlobalLimit: 50, Latency: 100 * time.Millisecond, Jitter: 50 * time.Millisecond, Seed: 42,
		Rules: []options.Rule{{Method: "GET", Template: "/channels/{channel_id}"}, {Method: "POST", Template: "/channels/{channel_id}/messages", Limit: 7, Window: time.Minute}},
	}
	result := func(limit time.Duration, refused int, p99, longest time.Duration) tune.Result {
		return tune.Result{MaxRateLimit: limit, Requests: 1100, Refused: refused, P99: p99, Max: longest, LongestQueue: 17, MostWaiting: 18, Makespan: time.Hour}
	}
	return o, load, tune.Report{
		Results:    []tune.Result{result(0, 550, 0, 0), result(30*time.Second, 11, 15*time.Second, 29*time.Second), result(time.Hour, 0, 4*time.Minute, 5*time.Minute)},
		Acceptable: 0.02, Recommended: 1,
	}
}

// rows are the texts in the body of a table.
func rows(table *element) (rows [][]string) {
	for _, row := range table.all("tbody", "")[0].all("tr", "") {
		var cells []string
		for _, cell := range row.all("td", "") {
			cells = append(cells, cell.text)
		}
		rows = append(rows, cells)
	}
	return rows
}

func TestPageOfARecommendation(t *testing.T) {
	t.Parallel()
	written := text(t, Tune(tuned(t)))
	document := parse(t, written)
	assert.Equal(t, "Max rate limits for 1100 requests", document.all("h1", "")[0].text)
	assert.Contains(t, document.all("div", "passed")[0].text, "30 s is the smallest value that refuses 2 % or less (1 %); 0 s refuses 50.0 %.")
	tile := document.all("div", "tile")[0]
	assert.Contains(t, tile.text, "30 s")
	assert.NotContains(t, tile.attrs["class"], "bad")
	assert.Equal(t, [][]string{
		{"0 s", "550", "50.0 %", "0 s", "0 s", "0 s", "17", "18", "0", "1h", ""},
		{"✓ 30 s", "11", "1 %", "0 s", "15.00 s", "29.00 s", "17", "18", "0", "1h", "recommended"},
		{"3600 s", "0", "0 %", "0 s", "240.00 s", "300.00 s", "17", "18", "0", "1h", ""},
	}, rows(document.all("table", "")[0]))
	facts := document.all("div", "facts")[0].text
	for _, want := range []string{
		"5 bursts of 20 among them", "skew 1:", "POST /channels/{channel_id}/messages75.0 % of the requests", "5 per 5 s", "sliding window",
		"50 per second", "100 ms ± 50 ms", "42", "no limitGET /channels/{channel_id}", "7 per 60 sPOST /channels/{channel_id}/messages",
	} {
		assert.Contains(t, facts, want)
	}
	assert.NotContains(t, facts, "Bottleneck")

	drawn := drawings(t, written)
	require.Len(t, drawn, 2)
	for _, data := range drawn {
		assert.Equal(t, []any{"0 s", "30 s", "3600 s"}, data["x"].(map[string]any)["names"])
		assert.Equal(t, 1.0, data["marked"])
	}
	line := func(chart, series int) any { return drawn[chart]["series"].([]any)[series].(map[string]any)["y"] }
	assert.Equal(t, []any{50.0, 1.0, 0.0}, line(0, 0))
	assert.Equal(t, []any{2.0, 2.0, 2.0}, line(0, 1))
	assert.Equal(t, "held back (min)", drawn[1]["y"].(map[string]any)["label"])
	assert.Equal(t, []any{0.0, 0.0, 0.0}, line(1, 0))
	assert.Equal(t, []any{0.0, 0.25, 4.0}, line(1, 1))
	assert.Equal(t, []any{0.0, 0.48333, 5.0}, line(1, 2))
}

func TestPageWithoutARecommendationNamesTheBottleneck(t *testing.T) {
	t.Parallel()
	show := func(b tune.Bottleneck) *element {
		o, load, report := tuned(t)
		report.Results, report.Recommended, report.Bottleneck = report.Results[:1], -1, &b
		o.Trace, o.GlobalLimit = "somewhere/traffic.csv", 0
		written := text(t, Tune(o, load, report))
		assert.NotContains(t, drawings(t, written)[0], "marked")
		return parse(t, written)
	}
	document := show(tune.Bottleneck{Name: "GET /x of guild 1", Refused: 310, Asked: 1.5, Limit: 5, Period: 5 * time.Second, Lasting: true, Longest: 90 * time.Second})
	verdict := document.all("div", "failed")[0]
	assert.Contains(t, verdict.text, "No value refuses 2 % or less; the largest, 0 s, refuses 50.0 %.")
	require.Len(t, verdict.all("li", ""), 3)
	assert.Contains(t, verdict.text, "The bottleneck is GET /x of guild 1 (310 refused).")
	assert.Len(t, document.all("div", "bad"), 2)
	facts := document.all("div", "facts")[0].text
	for _, want := range []string{"GET /x of guild 1", "310", "5 per 5 s", "1 per second", "1.5 per second", "1m30s", "none", "traffic.csv"} {
		assert.Contains(t, facts, want)
	}
	assert.NotContains(t, facts, "somewhere")
	assert.NotContains(t, facts, "skew")

	facts = show(tune.Bottleneck{Refused: 310}).all("div", "facts")[0].text
	assert.Contains(t, facts, "the global limit")
	assert.NotContains(t, facts, "allows")
	assert.NotContains(t, facts, "NaN")
}

func TestManyRoutesAndRulesAreCutShort(t *testing.T) {
	t.Parallel()
	o, load, report := tuned(t)
	for range 100 {
		o.Mix, o.Rules = append(o.Mix, o.Mix[0]), append(o.Rules, o.Rules[0])
	}
	written := text(t, Tune(o, load, report))
	assert.Equal(t, 2, strings.Count(written, "82 more"))
}
