package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
)

// run draws what is in a log. Its charts of time share one cursor under the name of sync.
type run struct {
	log  *Log
	unit unit
	end  time.Duration
	sync string
}

func (log *Log) figures(sync string) (figures []figure, notes []string) {
	if len(log.Passages) == 0 {
		return nil, []string{"There are no charts, as no request was made."}
	}
	r := run{log, unitFor(log.Lasted), max(log.Lasted, time.Millisecond), sync}
	requests, notes := r.requests()
	waiting, flying := r.changes()
	return []figure{
		requests, r.refusals(),
		r.sum("Queue depth", "requests waiting", waiting), r.sum("In flight", "requests under way", flying),
		histogram("Time in queues", "time held back by the client", r.queued()),
	}, notes
}

// lanes draws lanes, and says for how many of them something was left out.
func (r *run) lanes(title string, lanes []*lane) (figure, lanesData, int) {
	x := r.unit.axis("time since the start")
	x.Max = r.unit.time(r.end)
	data := lanesData{Kind: "lanes", Sync: r.sync, X: x}
	thinned := 0
	for _, l := range lanes {
		drawn, fewer := l.drawn(r.unit, r.end)
		data.Lanes = append(data.Lanes, drawn)
		if fewer {
			thinned++
		}
	}
	f := figure{Title: title, Wide: true, Lanes: len(lanes)}
	for _, entry := range kinds {
		if slices.ContainsFunc(lanes, func(l *lane) bool { return l.counts[kind(entry.Mark)] > 0 }) {
			f.Legend = append(f.Legend, entry)
		}
	}
	return f, data, thinned
}

// requests is a lane for each limit, with requests against windows.
func (r *run) requests() (figure, []string) {
	title, buckets := "Requests and windows", bucketLanes(r.log)
	if len(r.log.Calls) == 0 {
		title, buckets = "Requests", clientLanes(r.log)
	}
	var notes []string
	shown := buckets[:min(len(buckets), mostLanes)]
	if len(shown) < len(buckets) {
		notes = append(notes, fmt.Sprintf("Of %d buckets, the %d with the most requests are drawn.", len(buckets), len(shown)))
	}
	others := otherLanes(r.log)
	lanes := slices.Concat(others[:min(len(others), mostLanes)], shown)
	f, data, thinned := r.lanes(title, lanes)
	for _, block := range r.log.Blocks {
		if block.From < r.end {
			data.Blocks = append(data.Blocks, r.unit.time(block.From), r.unit.time(min(block.Until, r.end)))
		}
	}
	if thinned > 0 {
		notes = append(notes, fmt.Sprintf("In %d of %d lanes, marks that lie within about %s of each other are drawn as one. Numbers count all of them.",
			thinned, len(lanes), Time(r.end/mostParts)))
	}
	for _, entry := range []struct {
		occurs bool
		legend legend
	}{
		{slices.ContainsFunc(data.Lanes, func(l laneData) bool { return len(l.Level) > 0 }), legend{"level", "places taken, up to the limit"}},
		{slices.ContainsFunc(data.Lanes, func(l laneData) bool { return len(l.Windows) > 0 }), legend{"window", "window of the server"}},
		{len(data.Blocks) > 0, legend{"block", "everything is refused"}},
	} {
		if entry.occurs {
			f.Legend = append(f.Legend, entry.legend)
		}
	}
	f.data, f.Summary, f.Table = data, r.words(buckets), laneTable(lanes)
	return f, notes
}

func (r *run) words(buckets []*lane) string {
	sent, requests := 0, 0
	for _, passage := range r.log.Passages {
		sent += len(passage.Sends)
		requests += min(len(passage.Sends), 1)
	}
	if len(r.log.Calls) == 0 {
		return fmt.Sprintf("%s left the client. Each mark is where it did.", Counted(sent, "request"))
	}
	words := Counted(requests, "request")
	if sent > requests {
		words += fmt.Sprintf(", sent %d times in all,", sent)
	}
	return words + fmt.Sprintf(" to %s. Each mark is where the server counted it.", Counted(len(buckets), "bucket"))
}

// laneTable is the lanes in numbers.
func laneTable(lanes []*lane) Table {
	t := Table{Title: "values", Columns: []Column{{Name: "lane", Left: true}, {Name: "limit", Left: true}, {Name: "let through"},
		{Name: "failed"}, {Name: "429s"}, {Name: "avoidable"}, {Name: "by others"}}}
	for _, l := range lanes {
		t.Rows = append(t.Rows, []Value{Text(l.label), Text(l.note), Count(l.counts[accepted]), Count(l.counts[broken]),
			Count(l.refused()), Count(l.counts[avoidable]), Count(l.counts[foreign])})
	}
	return t
}

// refusal is one 429.
type refusal struct {
	at   time.Duration
	kind kind
	reason
}

type reason struct{ class, judge, because string }

func (log *Log) refusals() (all []refusal) {
	for _, call := range log.Calls {
		if call.Class != discordsim.ClassNone {
			all = append(all, refusal{call.At, became(call), reason{call.Class.String(), call.Verdict.String(), call.Because}})
		}
	}
	if len(log.Calls) > 0 {
		return all
	}
	for _, passage := range log.Passages {
		for _, send := range passage.Sends {
			if send.Class != ratelimits.ClassOK {
				all = append(all, refusal{send.Back, unjudged, reason{send.Class.String(), "–", "only the simulator can tell"}})
			}
		}
	}
	return all
}

// refusals is a lane for each class of 429s that occurred.
func (r *run) refusals() figure {
	all := r.log.refusals()
	if len(all) == 0 {
		return figure{Title: "429s by class", Wide: true, Summary: "No request was refused by the server."}
	}
	byClass := make(map[string]*lane)
	var lanes []*lane
	reasons := make(map[reason]int)
	for _, refusal := range all {
		l := byClass[refusal.class]
		if l == nil {
			l = &lane{label: refusal.class, piled: true}
			byClass[refusal.class] = l
			lanes = append(lanes, l)
		}
		l.mark(refusal.at, 0, refusal.kind)
		reasons[refusal.reason]++
	}
	slices.SortFunc(lanes, func(a, b *lane) int { return cmp.Compare(a.label, b.label) })
	var words []string
	for _, l := range lanes {
		l.note = Counted(l.refused(), "refusal")
		words = append(words, fmt.Sprintf("%d %s", l.refused(), l.label))
	}
	f, data, _ := r.lanes("429s by class", lanes)
	f.data, f.Summary = data, fmt.Sprintf("%s: %s.", Counted(len(all), "refusal"), strings.Join(words, ", "))
	f.Table = Table{Title: "values", Columns: []Column{{Name: "class", Left: true}, {Name: "judged", Left: true}, {Name: "because", Left: true}, {Name: "429s"}}}
	for _, why := range slices.SortedFunc(maps.Keys(reasons), func(a, b reason) int {
		return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(a.judge, b.judge), cmp.Compare(a.because, b.because))
	}) {
		f.Table.Rows = append(f.Table.Rows, []Value{Text(why.class), Text(why.judge), Text(why.because), Count(reasons[why])})
	}
	return f
}

// change is one more or one less of something.
type change struct {
	at time.Duration
	by int
}

// changes is when requests began to wait in the client and stopped, and when they left it and came back.
func (r *run) changes() (waiting, flying []change) {
	for _, passage := range r.log.Passages {
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
func (r *run) sum(title, name string, changes []change) figure {
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
	points = append(points, Point{r.end.Seconds(), float64(n)})
	return curves(Chart{
		Title: title, X: Axis{"time since the start", "s"}, Y: Axis{Label: name}, Run: true, Series: []Series{{Name: name, Points: points, Step: true}},
	}, r.end, r.sync)
}

// queued is how long each request that was sent had been held back in all.
func (r *run) queued() (times []time.Duration) {
	for _, passage := range r.log.Passages {
		since, queued := passage.HandedOver, time.Duration(0)
		for _, send := range passage.Sends {
			queued += send.At - since
			since = send.Back
		}
		if len(passage.Sends) > 0 {
			times = append(times, queued)
		}
	}
	return times
}
