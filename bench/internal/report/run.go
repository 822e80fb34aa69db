package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

// figures returns the charts of a log. Charts with the same sync share one cursor.
func (l *Log) figures(sync string) []figure {
	var waiting, flying changes
	for _, passage := range l.Passages {
		since := passage.HandedOver
		for _, send := range passage.Sends {
			waiting.add(since, send.At)
			flying.add(send.At, send.Back)
			since = send.Back
		}
		if len(passage.Sends) == 0 {
			waiting.add(since, passage.Done)
		}
	}
	return []figure{
		l.requests(sync),
		newFigure(waiting.chart("Queue depth", "requests waiting"), l.Lasted, sync),
		newFigure(flying.chart("In flight", "requests under way"), l.Lasted, sync),
	}
}

// requests returns a chart with a lane for each limit, which shows requests and windows.
func (l *Log) requests(sync string) figure {
	lanes, buckets := l.busiest()
	end := max(l.Lasted, time.Millisecond)
	f := figure{Chart: Chart{Title: "Requests", X: Axis{"time since the start", "s"}}, Wide: true, Sync: sync, Max: number(end.Seconds())}
	f.Summary = "Each mark is a request, where the server counted it, or several that would lie on each other."
	if buckets > mostLanes {
		f.Summary += fmt.Sprintf(" Of %d buckets, the %d with the most requests are drawn.", buckets, mostLanes)
	}
	f.Table = Table{Title: "Requests", Columns: []Column{{Name: "lane", Left: true}, {Name: "limit", Left: true}, {Name: "let through"},
		{Name: "failed"}, {Name: "429s"}, {Name: "avoidable"}, {Name: "by others"}}}
	for _, lane := range lanes {
		f.Lanes = append(f.Lanes, lane.data(end))
		f.Table.Rows = append(f.Table.Rows, []Value{Text(lane.label()), Text(lane.note()), Count(lane.counts[accepted]), Count(lane.counts[broken]),
			Count(lane.refused()), Count(lane.counts[avoidable]), Count(lane.counts[foreign])})
	}
	for _, entry := range kinds {
		if slices.ContainsFunc(lanes, func(lane *lane) bool { return lane.counts[kind(entry.Mark)] > 0 }) {
			f.Legend = append(f.Legend, entry)
		}
	}
	if slices.ContainsFunc(lanes, func(lane *lane) bool { return len(lane.windows) > 0 }) {
		f.Legend = append(f.Legend, legend{"window", "window of the server"})
	}
	for _, block := range l.blocks {
		if block.From < end {
			f.Blocks = append(f.Blocks, number(block.From.Seconds()), number(min(block.Until, end).Seconds()))
		}
	}
	if len(f.Blocks) > 0 {
		f.Legend = append(f.Legend, legend{"block", "everything is refused"})
	}
	return f
}

// refused returns a table of the 429s by class and reason.
func (l *Log) refused() Table {
	refusals := maps.Clone(l.refusals)
	for _, passage := range l.Passages {
		for _, send := range passage.Sends {
			if l.Calls == 0 && send.Class != ratelimits.ClassOK {
				refusals[refusal{send.Class.String(), "–", "only the simulator can tell"}]++
			}
		}
	}
	t := Table{Title: "429s by class", Columns: []Column{
		{Name: "class", Left: true}, {Name: "judged", Left: true}, {Name: "because", Left: true}, {Name: "429s"}}}
	for _, why := range slices.SortedFunc(maps.Keys(refusals), func(a, b refusal) int {
		return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(a.judged, b.judged), cmp.Compare(a.because, b.because))
	}) {
		t.Rows = append(t.Rows, []Value{Text(why.class), Text(why.judged), Text(why.because), Count(refusals[why])})
	}
	return t
}

// changes lists the times at which a count rose or fell by one.
type changes []change

type change struct {
	at time.Duration
	by int
}

func (c *changes) add(from, to time.Duration) { *c = append(*c, change{from, 1}, change{to, -1}) }

// chart returns a chart of the running sum. Changes at the same time make one point.
func (c changes) chart(title, name string) Chart {
	slices.SortFunc(c, func(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(b.by, a.by)) })
	var points []Point
	n, most := 0, 0
	for i, change := range c {
		n += change.by
		if i+1 == len(c) || c[i+1].at != change.at {
			points = append(points, Point{change.at.Seconds(), float64(n)})
			most = max(most, n)
		}
	}
	return Chart{
		Title: title, Summary: fmt.Sprintf("At most %d %s at once.", most, name), X: Axis{"time since the start", "s"}, Y: Axis{Label: name}, Run: true,
		Series: []Series{{Name: name, Points: points, Step: true}},
	}
}
