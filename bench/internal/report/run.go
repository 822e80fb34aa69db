package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
)

// figures draws what is in a log. Charts of time share one cursor under the name of sync.
func (log *Log) figures(sync string) (figures []figure, notes []string) {
	if len(log.Passages) == 0 {
		return nil, []string{"There are no charts, as no request was made."}
	}
	requests, notes := log.requests(sync)
	waiting, flying := log.changes()
	figures = append(figures, requests)
	if refusals := log.refusals(); refusals.Table.Rows != nil {
		figures = append(figures, refusals)
	}
	return append(figures,
		log.sum("Queue depth", "requests waiting", waiting, sync), log.sum("In flight", "requests under way", flying, sync),
		log.queued(),
	), notes
}

// requests is a lane for each limit, with requests against windows.
func (log *Log) requests(sync string) (figure, []string) {
	others, buckets := log.lanes()
	var notes []string
	shown := buckets[:min(len(buckets), mostLanes)]
	if len(shown) < len(buckets) {
		notes = append(notes, fmt.Sprintf("Of %d buckets, the %d with the most requests are drawn.", len(buckets), len(shown)))
	}
	lanes := slices.Concat(others[:min(len(others), mostLanes)], shown)
	end := max(log.Lasted, time.Millisecond)
	u := unitFor(end)
	data := lanesData{Kind: "lanes", Sync: sync, X: newAxis(Axis{"time since the start", u.name})}
	data.X.Max = u.time(end)
	for _, block := range log.Blocks {
		if block.From < end {
			data.Blocks = append(data.Blocks, u.time(block.From), u.time(min(block.Until, end)))
		}
	}
	f := figure{Title: "Requests", Wide: true, Lanes: len(lanes), Table: laneTable(lanes)}
	windows := false
	for _, l := range lanes {
		data.Lanes = append(data.Lanes, l.drawn(u, end))
		windows = windows || data.Lanes[len(data.Lanes)-1].Windows != nil
	}
	for _, entry := range kinds {
		if slices.ContainsFunc(lanes, func(l *lane) bool { return l.counts[kind(entry.Mark)] > 0 }) {
			f.Legend = append(f.Legend, entry)
		}
	}
	if windows {
		f.Title, f.Legend = "Requests and windows", append(f.Legend, legend{"window", "window of the server"})
	}
	if len(data.Blocks) > 0 {
		f.Legend = append(f.Legend, legend{"block", "everything is refused"})
	}
	sent := 0
	for _, passage := range log.Passages {
		sent += len(passage.Sends)
	}
	f.Data = data
	f.Summary = Counted(sent, "request") + " left the client. Each mark is where the server counted one, or several that would lie on each other."
	return f, notes
}

// laneTable is the lanes in numbers.
func laneTable(lanes []*lane) Table {
	t := Table{Title: "Requests", Columns: []Column{{Name: "lane", Left: true}, {Name: "limit", Left: true}, {Name: "let through"},
		{Name: "failed"}, {Name: "429s"}, {Name: "avoidable"}, {Name: "by others"}}}
	for _, l := range lanes {
		t.Rows = append(t.Rows, []Value{Text(l.label), Text(l.note), Count(l.counts[accepted]), Count(l.counts[broken]),
			Count(l.refused()), Count(l.counts[avoidable]), Count(l.counts[foreign])})
	}
	return t
}

// refusals says why requests were refused.
func (log *Log) refusals() figure {
	type reason struct{ class, judge, because string }
	reasons := make(map[reason]int)
	for _, call := range log.Calls {
		if call.Class != discordsim.ClassNone {
			reasons[reason{call.Class.String(), call.Verdict.String(), call.Because}]++
		}
	}
	for _, passage := range log.Passages {
		for _, send := range passage.Sends {
			if len(log.Calls) == 0 && send.Class != ratelimits.ClassOK {
				reasons[reason{send.Class.String(), "–", "only the simulator can tell"}]++
			}
		}
	}
	t := Table{Title: "429s", Columns: []Column{
		{Name: "class", Left: true}, {Name: "judged", Left: true}, {Name: "because", Left: true}, {Name: "429s"}}}
	n := 0
	for _, why := range slices.SortedFunc(maps.Keys(reasons), func(a, b reason) int {
		return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(a.judge, b.judge), cmp.Compare(a.because, b.because))
	}) {
		t.Rows = append(t.Rows, []Value{Text(why.class), Text(why.judge), Text(why.because), Count(reasons[why])})
		n += reasons[why]
	}
	return figure{Title: "429s by class", Wide: true, Table: t, Open: true, Summary: Counted(n, "refusal") + ", and why they were refused."}
}

// change is one more or one less of something.
type change struct {
	at time.Duration
	by int
}

// changes is when requests began to wait in the client and stopped, and when they left it and came back.
func (log *Log) changes() (waiting, flying []change) {
	for _, passage := range log.Passages {
		since := passage.HandedOver
		for _, send := range passage.Sends {
			waiting = append(waiting, change{since, 1}, change{send.At, -1})
			flying = append(flying, change{send.At, 1}, change{send.Back, -1})
			since = send.Back
		}
		if len(passage.Sends) == 0 {
			waiting = append(waiting, change{since, 1}, change{passage.Done, -1})
		}
	}
	return waiting, flying
}

// sum draws the sum of the changes so far. Changes at one time become one.
func (log *Log) sum(title, name string, changes []change, sync string) figure {
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(b.by, a.by)) })
	points := []Point{{}}
	n := 0
	for _, c := range changes {
		n += c.by
		if at := c.at.Seconds(); at == points[len(points)-1].X {
			points[len(points)-1].Y = float64(n)
		} else {
			points = append(points, Point{at, float64(n)})
		}
	}
	points = append(points, Point{log.Lasted.Seconds(), float64(n)})
	return curves(Chart{
		Title: title, X: Axis{"time since the start", "s"}, Y: Axis{Label: name}, Run: true, Series: []Series{{Name: name, Points: points, Step: true}},
	}, log.Lasted, sync)
}

// queued draws which part of the requests that were sent had been held back no longer than how long.
func (log *Log) queued() figure {
	var times []time.Duration
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
	line := Series{Name: "held back"}
	for percent := 0; percent <= 100 && len(times) > 0; percent++ {
		line.Points = append(line.Points, Point{float64(percent), times[(len(times)-1)*percent/100].Seconds()})
	}
	return curves(Chart{
		Title: "Time in queues", Summary: "How many of the requests were held back no longer than how long.", Series: []Series{line},
		X: Axis{"share of requests", "%"}, Y: Axis{"held back no longer than", "s"},
	}, 0, "")
}
