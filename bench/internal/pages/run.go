package pages

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ratelight/ratelight/bench/internal/meter"
	"github.com/ratelight/ratelight/bench/internal/trace"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
)

// clock shows times of a run in a unit that suits its length.
type clock struct {
	end      time.Duration
	unit     string
	in       time.Duration // one of the unit
	decimals int
}

func newClock(end time.Duration) clock {
	c := clock{end: max(end, time.Millisecond), unit: "h", in: time.Hour}
	switch {
	case end < time.Second:
		c.unit, c.in = "ms", time.Millisecond
	case end < 3*time.Minute:
		c.unit, c.in = "s", time.Second
	case end < 3*time.Hour:
		c.unit, c.in = "min", time.Minute
	}
	// A hundred-thousandth of the run is less than a pixel, even after zooming in.
	c.decimals = max(5-int(math.Floor(math.Log10(float64(c.end)/float64(c.in)))), 0)
	return c
}

func (c clock) time(d time.Duration) float64 { return round(float64(d)/float64(c.in), c.decimals) }

func (c clock) axis() Axis { return Axis{"time since the start", c.unit} }

// charts draws a run. Its charts of time share one cursor under the name of sync. A real server
// tells nothing, so that all there is to show is what the client saw.
func charts(log *trace.Log, queued meter.Queued, sync string, real bool) (charts []Chart, notes []string) {
	if len(log.Passages) == 0 {
		return nil, []string{"There are no charts, as no request was made."}
	}
	clock := newClock(log.Lasted)
	buckets, others := bucketLanes(log), otherLanes(log)
	if real {
		buckets = realLanes(log)
	}
	requests, notes := requestChart(log, buckets, others, clock, sync)
	charts = append(charts, requests, refusalChart(log, clock, sync))
	waiting := curveOverTime("Queue depth", "requests waiting", waitingChanges(log), clock, sync)
	flying := curveOverTime("In flight", "requests under way", flightChanges(log), clock, sync)
	charts = append(charts, waiting, flying)
	times := queuedTimes(log)
	charts = append(charts, queuedHistogram(times), queuedCurve(times, queued))
	return charts, append(notes, "With a mouse: drag across a chart of time to zoom all of them in, double-click to see everything again.")
}

// requestChart is a lane for each limit, with requests against windows.
func requestChart(log *trace.Log, buckets, others []*lane, clock clock, sync string) (Chart, []string) {
	shown, rest := buckets, []*lane(nil)
	if len(shown) > mostLanes {
		shown, rest = shown[:mostLanes], shown[mostLanes:]
	}
	lanes := slices.Concat(others[:min(len(others), mostLanes)], shown)
	if len(lanes) == 0 {
		return Chart{Title: "Requests", Summary: "No request was sent.", Wide: true}, nil
	}
	data := lanesData{Kind: "lanes", Sync: sync, X: axisData{Label: clock.axis().String(), Unit: clock.unit, Max: clock.time(clock.end)}}
	for _, block := range log.Blocks {
		if block.From >= clock.end {
			continue // the run was over before
		}
		data.Blocks = append(data.Blocks, clock.time(block.From), clock.time(min(block.Until, clock.end)))
	}
	var notes []string
	if len(rest) > 0 {
		lanes = append(lanes, restLane(rest, clock.end))
		notes = append(notes, fmt.Sprintf("Of %d buckets, the %d with the most requests are shown one by one; the last lane counts the requests to the %d others.",
			len(buckets), len(shown), len(rest)))
	}
	if n := len(others) - mostLanes; n > 0 {
		notes = append(notes, fmt.Sprintf("%d further limits that are not buckets are not shown.", n))
	}
	thinned, windowless := 0, 0
	for _, l := range lanes {
		l.fill(clock.end)
		drawn, thinner, without := l.drawn(clock)
		data.Lanes = append(data.Lanes, drawn)
		if thinner {
			thinned++
		}
		if without {
			windowless++
		}
	}
	if thinned > 0 {
		notes = append(notes, fmt.Sprintf("In %d of %d lanes, marks that lie within about %s of each other are drawn as one, and levels in between are left out. Numbers count all of them.",
			thinned, len(lanes), measured(clock.end/mostParts)))
	}
	if windowless > 0 {
		notes = append(notes, fmt.Sprintf("In %d of %d lanes the windows are not shaded, as there are more than %d.", windowless, len(lanes), mostWindows))
	}
	title := "Requests and windows"
	if len(log.Calls) == 0 {
		title = "Requests"
	}
	chart := Chart{Title: title, Summary: requestWords(log, buckets), Legend: legend(lanes), Wide: true, lanes: len(lanes), data: data}
	if slices.ContainsFunc(data.Lanes, func(l laneData) bool { return len(l.Level) > 0 }) {
		chart.Legend = append(chart.Legend, Legend{"level", "places taken, up to the limit"})
	}
	if slices.ContainsFunc(data.Lanes, func(l laneData) bool { return len(l.Windows) > 0 }) {
		chart.Legend = append(chart.Legend, Legend{"window", "window of the server"})
	}
	if len(data.Blocks) > 0 {
		chart.Legend = append(chart.Legend, Legend{"block", "everything is refused"})
	}
	chart.Table = laneTable(lanes)
	return chart, notes
}

func requestWords(log *trace.Log, buckets []*lane) string {
	sent, refused, bad := 0, 0, 0
	for _, l := range buckets {
		refused += l.refused()
		bad += l.counts[avoidable]
	}
	requests := 0
	for _, passage := range log.Passages {
		sent += len(passage.Sends)
		requests += min(len(passage.Sends), 1)
	}
	words := counted(requests, "request", "requests")
	if sent > requests {
		words += fmt.Sprintf(", sent %d times in all,", sent)
	}
	words += fmt.Sprintf(" to %s. Each mark is where the server counted it.", counted(len(buckets), "bucket", "buckets"))
	if len(log.Calls) == 0 {
		words = fmt.Sprintf("%s left the client. Each mark is where it did.", counted(sent, "request", "requests"))
	}
	if refused > 0 {
		words += fmt.Sprintf(" 429s: %d", refused)
		if bad > 0 {
			words += fmt.Sprintf(", of them %d avoidable", bad)
		}
		words += "."
	}
	return words
}

// laneTable is the lanes in numbers.
func laneTable(lanes []*lane) Table {
	table := Table{Columns: []string{"<lane", "<limit", "let through", "failed", "429s", "avoidable", "by others", "windows"}}
	for _, l := range lanes {
		window := "–"
		if len(l.windows) > 0 {
			window = strconv.Itoa(len(l.windows))
		}
		n := func(kind kind) string { return strconv.Itoa(l.counts[kind]) }
		table.Rows = append(table.Rows, Texts(l.label, l.note, n(accepted), n(broken), strconv.Itoa(l.refused()), n(avoidable), n(foreign), window))
	}
	return table
}

// realLanes is one lane: all that is known of a real server is what was sent and what came back.
func realLanes(log *trace.Log) []*lane {
	l := &lane{label: "requests", note: "sent by the client", counts: make(map[kind]int), piled: true}
	for _, passage := range log.Passages {
		for _, send := range passage.Sends {
			switch {
			case send.Status == 429:
				l.mark(send.At, 0, unjudged)
			case send.Status == 0 || send.Status >= 400:
				l.mark(send.At, 0, broken)
			default:
				l.mark(send.At, 0, accepted)
			}
		}
	}
	return []*lane{l}
}

// refusal is one 429.
type refusal struct {
	at             time.Duration
	class          string
	kind           kind
	because, judge string
}

func refusals(log *trace.Log) (all []refusal) {
	for _, call := range log.Calls {
		if call.Class != discordsim.ClassNone {
			all = append(all, refusal{call.At, call.Class.String(), became(call), call.Because, call.Verdict.String()})
		}
	}
	if len(log.Calls) > 0 {
		return all
	}
	for _, passage := range log.Passages {
		for _, send := range passage.Sends {
			if send.Class != ratelimits.ClassOK {
				all = append(all, refusal{send.Back, send.Class.String(), unjudged, "only the simulator can tell", "–"})
			}
		}
	}
	return all
}

// refusalChart is a lane for each class of 429s that occurred.
func refusalChart(log *trace.Log, clock clock, sync string) Chart {
	all := refusals(log)
	chart := Chart{Title: "429s by class", Wide: true, Summary: "No request was refused by the server."}
	if len(all) == 0 {
		return chart
	}
	byClass := make(map[string]*lane)
	var lanes []*lane
	type reason struct{ class, judge, because string }
	reasons := make(map[reason]int)
	for _, r := range all {
		l := byClass[r.class]
		if l == nil {
			l = &lane{label: r.class, counts: make(map[kind]int), piled: true}
			byClass[r.class] = l
			lanes = append(lanes, l)
		}
		l.mark(r.at, 0, r.kind)
		reasons[reason{r.class, r.judge, r.because}]++
	}
	slices.SortFunc(lanes, func(a, b *lane) int { return cmp.Compare(a.label, b.label) })
	data := lanesData{Kind: "lanes", Sync: sync, X: axisData{Label: clock.axis().String(), Unit: clock.unit, Max: clock.time(clock.end)}}
	var words []string
	for _, l := range lanes {
		l.fill(clock.end)
		l.note = counted(l.refused(), "refusal", "refusals")
		words = append(words, fmt.Sprintf("%d %s", l.refused(), l.label))
		drawn, _, _ := l.drawn(clock)
		data.Lanes = append(data.Lanes, drawn)
	}
	chart.Summary = fmt.Sprintf("%s: %s.", counted(len(all), "refusal", "refusals"), strings.Join(words, ", "))
	chart.Legend, chart.lanes, chart.data = legend(lanes), len(lanes), data
	chart.Table.Columns = []string{"<class", "<judged", "<because", "429s"}
	for _, r := range slices.SortedFunc(maps.Keys(reasons), func(a, b reason) int {
		return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(a.judge, b.judge), cmp.Compare(a.because, b.because))
	}) {
		chart.Table.Rows = append(chart.Table.Rows, Texts(r.class, r.judge, r.because, strconv.Itoa(reasons[r])))
	}
	return chart
}

// change is one more or one less of something.
type change struct {
	at time.Duration
	by int
}

// waitingChanges is when requests began to wait in the client and stopped.
func waitingChanges(log *trace.Log) (changes []change) {
	for _, passage := range log.Passages {
		since := passage.HandedOver
		for _, send := range passage.Sends {
			changes = append(changes, change{since, 1}, change{send.At, -1})
			since = send.Back
		}
		if len(passage.Sends) == 0 {
			changes = append(changes, change{since, 1}, change{passage.Done, -1})
		}
	}
	return changes
}

// flightChanges is when requests left the client and came back.
func flightChanges(log *trace.Log) (changes []change) {
	for _, passage := range log.Passages {
		for _, send := range passage.Sends {
			changes = append(changes, change{send.At, 1}, change{send.Back, -1})
		}
	}
	return changes
}

// curveOverTime is the sum of the changes so far. Changes at one time become one.
func curveOverTime(title, name string, changes []change, clock clock, sync string) Chart {
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(b.by, a.by)) })
	points := []Point{{}}
	n, latest := 0, time.Duration(0)
	for _, c := range changes {
		n += c.by
		if c.at == latest {
			points[len(points)-1].Y = float64(n)
			continue
		}
		points = append(points, Point{clock.time(c.at), float64(n)})
		latest = c.at
	}
	points = append(points, Point{clock.time(clock.end), float64(n)})
	chart := Curves(title, clock.axis(), Axis{Label: name}, Series{Name: name, Points: points, Step: true})
	if data, ok := chart.data.(curvesData); ok {
		data.Sync, data.X.Max = sync, clock.time(clock.end)
		chart.data = data
	}
	return chart
}

// queuedTimes is how long each request that was sent had been held back in all, in order.
func queuedTimes(log *trace.Log) (times []time.Duration) {
	for _, passage := range log.Passages {
		since, queued := passage.HandedOver, time.Duration(0)
		for _, send := range passage.Sends {
			queued += send.At - since
			since = send.Back
		}
		if len(passage.Sends) > 0 {
			times = append(times, queued)
		}
	}
	slices.Sort(times)
	return times
}

func queuedHistogram(times []time.Duration) Chart {
	if len(times) == 0 {
		return Chart{Title: "Time in queues", Summary: "No request was sent."}
	}
	clock := newClock(times[len(times)-1])
	values := make([]float64, len(times))
	for i, d := range times {
		values[i] = clock.time(d)
	}
	return Histogram("Time in queues", Axis{"time held back by the client", clock.unit}, "requests", values)
}

// queuedCurve is which part of the requests was held back no longer than how long. Its words and its table repeat what the
// meter read, whose histogram rounds a little, so that no number stands on the page twice with a difference.
func queuedCurve(times []time.Duration, queued meter.Queued) Chart {
	const title = "Time in queues, cumulative"
	if len(times) == 0 {
		return Chart{Title: title, Summary: "No request was sent."}
	}
	clock := newClock(times[len(times)-1])
	var points []Point
	for step := range 201 {
		percent := float64(step) / 2
		place := int(math.Ceil(percent/100*float64(len(times)))) - 1
		points = append(points, Point{percent, clock.time(times[max(place, 0)])})
	}
	chart := Curves(title, Axis{"share of requests", "%"}, Axis{"held back no longer than", clock.unit}, Series{Name: "held back", Points: points})
	chart.Table = Table{Columns: []string{"<share of requests", "held back no longer than"}}
	var words []string
	for _, row := range []struct {
		share string
		d     time.Duration
	}{{"50 %", queued.Median}, {"90 %", queued.P90}, {"99 %", queued.P99}, {"all", queued.Max}} {
		chart.Table.Rows = append(chart.Table.Rows, Texts(row.share, measured(row.d)))
		words = append(words, row.share+" "+measured(row.d))
	}
	chart.Summary = "So many requests were held back no longer than: " + strings.Join(words, ", ") + "."
	return chart
}

func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
