package report_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/bench/internal/report"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
)

var start = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return start.Add(d) }

// simulate makes a world that a trace listens to.
func simulate(t *testing.T, changes ...func(*discordsim.Config)) (*report.Log, func(now time.Duration, path string)) {
	t.Helper()
	config := discordsim.Config{
		Rules:  []discordsim.Rule{{Path: "**", Hash: "h", Quota: discordsim.Fixed(2, time.Second)}},
		Global: discordsim.Fixed(4, time.Second),
	}
	for _, change := range changes {
		change(&config)
	}
	log := report.NewLog(true)
	log.Start(start)
	log.Observe(&config)
	world, err := discordsim.NewWorld(start, config)
	require.NoError(t, err)
	return log, func(now time.Duration, path string) {
		world.Handle(at(now), discordsim.Request{Method: "POST", Path: path, Authorization: "Bot a"})
	}
}

// lane is what a page has of a limit.
type lane struct {
	Label, Note string
	Top         float64
	Windows     []float64
	Marks       map[string][]float64
}

// requests is the chart of requests that a page has.
func requests(t *testing.T, log *report.Log) (chart struct {
	Max    float64
	Lanes  []lane
	Blocks []float64
}) {
	t.Helper()
	log.Add(report.Passage{Done: time.Second})
	require.NoError(t, json.Unmarshal([]byte(drawings(page(t, &report.Report{Log: log}))[0]), &chart))
	return chart
}

func TestRequestsAreDrawnAtTheLimitsThatCountedThem(t *testing.T) {
	t.Parallel()
	log, send := simulate(t)
	send(0, "/channels/900000000000000001/messages")
	send(10*ms, "/channels/2/messages")
	send(20*ms, "/channels/900000000000000001/messages")
	send(30*ms, "/channels/900000000000000001/messages") // the bucket is full
	send(40*ms, "/channels/2/messages")                  // so is the global limit
	assert.Equal(t, 5, log.Calls)
	chart := requests(t, log)
	assert.InDelta(t, 1, chart.Max, 0)
	assert.Equal(t, []lane{
		{"global limit", "4 per 1 s, fixed", 4, []float64{0, 1}, map[string][]float64{
			"accepted": {0, 1, 1, 0.01, 2, 1, 0.02, 3, 1, 0.03, 4, 1}, "avoidable": {0.04, 4, 1},
		}},
		{"channel 1", "2 per 1 s, fixed", 2, []float64{0, 1}, map[string][]float64{"accepted": {0, 1, 1, 0.02, 2, 1}, "avoidable": {0.03, 2, 1}}},
		{"POST /channels/{id}/messages", "2 per 1 s, fixed", 2, []float64{0.01, 1}, map[string][]float64{"accepted": {0.01, 1, 1}}},
	}, chart.Lanes)
	text := page(t, &report.Report{Log: log})
	assert.Contains(t, parse(t, text).text, "429s by class")
}

func TestUncountedRequestIsDrawnAtTheTop(t *testing.T) {
	t.Parallel()
	log, send := simulate(t, func(c *discordsim.Config) { c.Faults = []discordsim.Fault{{Every: 2, Uncounted: true}} })
	for range 2 {
		send(0, "/channels/1/messages")
	}
	assert.Equal(t, []float64{0, 1, 1, 0, 2, 1}, requests(t, log).Lanes[1].Marks["accepted"])
}

func TestOthersAndBlocksAreDrawn(t *testing.T) {
	t.Parallel()
	log, send := simulate(t, func(c *discordsim.Config) {
		c.Blocks = []discordsim.GlobalBlock{{From: 500 * ms, Until: 6 * time.Second}}
		c.Foreign = []discordsim.ForeignUse{{
			Request: discordsim.Request{Method: "POST", Path: "/channels/1/messages", Authorization: "Bot a"},
			At:      []time.Duration{10 * ms},
		}}
	})
	send(20*ms, "/channels/1/messages")
	assert.Equal(t, 1, log.Calls)
	chart := requests(t, log)
	assert.Equal(t, []float64{0.5, 1}, chart.Blocks)
	assert.Equal(t, map[string][]float64{"foreign": {0.01, 1, 1}, "accepted": {0.02, 2, 1}}, chart.Lanes[1].Marks)
}

func TestOfARealServerWhatCameBackIsDrawn(t *testing.T) {
	t.Parallel()
	log := report.NewLog(true)
	log.Add(report.Passage{Sends: []report.Send{
		{Status: 429, Class: ratelimits.ClassUser}, {At: 100 * ms, Status: 500}, {At: 200 * ms, Status: 200},
	}})
	assert.Equal(t, []lane{{"requests", "no limit known", 1, nil, map[string][]float64{
		"unjudged": {0, 1, 1}, "broken": {0.1, 0.75, 1}, "accepted": {0.2, 0.5, 1},
	}}}, requests(t, log).Lanes)
}
