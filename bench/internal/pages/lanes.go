package pages

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ratelight/ratelight/bench/internal/output"
	"github.com/ratelight/ratelight/bench/internal/trace"
	"github.com/ratelight/ratelight/internal/discordsim"
)

const (
	// mostLanes is how many buckets are shown one by one.
	mostLanes = 20
	// mostParts is in how many parts a lane is divided before marks in the same part are drawn as one.
	mostParts = 1000
	// mostSteps is how many different heights marks have in a lane.
	mostSteps = 10
	// mostMarks bounds what the two above still allow.
	mostMarks = 3000
	// mostWindows is how many windows of a lane are shaded; more could not be told apart.
	mostWindows = 400
	// mostMoments bounds the line of how full a limit was.
	mostMoments = 2400
)

// kind is what became of a request. The script and the styles know the names.
type kind string

const (
	accepted    kind = "accepted"
	foreign     kind = "foreign"
	broken      kind = "broken"
	avoidable   kind = "avoidable"
	unavoidable kind = "unavoidable"
	unjudged    kind = "unjudged"
)

var kinds = []Legend{
	{string(accepted), "request let through"},
	{string(foreign), "somebody else's request"},
	{string(broken), "answered with an error, or not at all"},
	{string(avoidable), "429 that was avoidable"},
	{string(unavoidable), "429 that was not avoidable"},
	{string(unjudged), "429"},
}

// lanesData is what the script draws.
type lanesData struct {
	Kind   string     `json:"kind"`
	Sync   string     `json:"sync,omitempty"`
	X      axisData   `json:"x"`
	Lanes  []laneData `json:"lanes"`
	Blocks []float64  `json:"blocks,omitempty"` // from, to, from, to, …
}

// laneData is one lane. Heights are parts of Top.
type laneData struct {
	Label   string             `json:"label"`
	Note    string             `json:"note"`
	What    string             `json:"what"` // what a height counts
	Top     float64            `json:"top"`
	Windows []float64          `json:"windows,omitempty"` // from, to, from, to, …
	Level   [][]float64        `json:"level,omitempty"`   // times, and heights there
	Marks   map[kind][]float64 `json:"marks"`             // time, height, number; time, height, number; …
}

// lane is a lane in the making.
type lane struct {
	label, note string
	what        string
	top         float64
	windows     []window
	level       []moment
	marks       []mark
	counts      map[kind]int // of the marks
	limit       *trace.Limit // nil if the lane is not about one
	// piled marks have no height of their own.
	piled bool
}

type mark struct {
	at     time.Duration
	height float64
	kind   kind
}

func (l *lane) mark(at time.Duration, height float64, k kind) {
	l.counts[k]++
	l.marks = append(l.marks, mark{at, height, k})
}

// fill adds the windows of the lane's limit and how full it was.
func (l *lane) fill(end time.Duration) {
	if l.limit != nil {
		l.windows, l.level = windows(l.limit), levels(l.limit, end)
	}
	if l.piled {
		l.pile(end)
	}
}

// requests is how many requests of ours are in the lane.
func (l *lane) requests() (n int) {
	for kind, count := range l.counts {
		if kind != foreign {
			n += count
		}
	}
	return n
}

func (l *lane) refused() int { return l.counts[avoidable] + l.counts[unavoidable] + l.counts[unjudged] }

// became is what a call became of.
func became(call trace.Call) kind {
	switch {
	case call.Verdict == discordsim.Avoidable:
		return avoidable
	case call.Class != discordsim.ClassNone:
		return unavoidable
	case call.Status == 0 || call.Status >= 400:
		return broken
	}
	return accepted
}

// bucketLanes is a lane for each bucket of the simulator, the busiest first, and what did not come as far as a bucket.
func bucketLanes(log *trace.Log) (lanes []*lane) {
	byLimit := make(map[*trace.Limit]*lane)
	for _, call := range log.Calls {
		if call.Bucket == nil {
			continue
		}
		l := byLimit[call.Bucket]
		if l == nil {
			l = limitLane(call.Bucket, call.Operation)
			byLimit[call.Bucket] = l
			lanes = append(lanes, l)
		}
		height := l.top
		if call.Use >= 0 && (call.Class == discordsim.ClassNone) {
			height = heightOf(call.Bucket, call.Bucket.Uses[call.Use])
		}
		l.mark(call.At, height, became(call))
	}
	for limit, l := range byLimit {
		addForeign(l, limit)
	}
	slices.SortStableFunc(lanes, func(a, b *lane) int {
		return cmp.Or(cmp.Compare(b.requests(), a.requests()), cmp.Compare(b.refused(), a.refused()),
			cmp.Compare(len(a.label), len(b.label)), cmp.Compare(a.label, b.label))
	})
	return lanes
}

// otherLanes is a lane for each limit that is not a bucket.
func otherLanes(log *trace.Log) (lanes []*lane) {
	byLimit := make(map[*trace.Limit]*lane)
	for _, limit := range log.Limits {
		if limit.Class == discordsim.ClassUser {
			continue
		}
		l := limitLane(limit, "")
		for _, use := range limit.Uses {
			if use.Taken && !use.Foreign {
				l.mark(use.At, heightOf(limit, use), accepted)
			}
		}
		addForeign(l, limit)
		byLimit[limit] = l
		lanes = append(lanes, l)
	}
	for _, call := range log.Calls {
		for limit, l := range byLimit {
			if call.Class == limit.Class && (limit.Major == "" || limit.Major == call.Major) {
				l.mark(call.At, l.top, became(call))
			}
		}
	}
	return lanes
}

func addForeign(l *lane, limit *trace.Limit) {
	for _, use := range limit.Uses {
		if use.Foreign && use.Taken {
			l.mark(use.At, heightOf(limit, use), foreign)
		}
	}
}

func heightOf(limit *trace.Limit, use trace.Use) float64 {
	switch {
	case limit.Quota.Limit == 0:
		return 0.5
	case limit.Quota.Kind == discordsim.KindLeaky:
		return float64(use.ResetAfter) / leakInterval(limit.Quota)
	}
	return float64(use.Used)
}

func limitLane(limit *trace.Limit, operation string) *lane {
	l := &lane{
		label: limitName(limit, operation), note: quotaText(limit.Quota), what: "counted", top: float64(limit.Quota.Limit),
		counts: make(map[kind]int), limit: limit,
	}
	if limit.Quota.Limit == 0 {
		l.note, l.what, l.top, l.piled = "no limit", "", 1, true
	}
	return l
}

// firstChannel is where the benchmark begins to number its channels.
const firstChannel = 900_000_000_000_000_000

func limitName(limit *trace.Limit, operation string) string {
	name := operation
	if id, err := strconv.ParseUint(limit.Major, 10, 64); err == nil && id >= firstChannel {
		name = fmt.Sprintf("channel %d", id-firstChannel)
	}
	switch limit.Class {
	case discordsim.ClassUser:
		return name
	case discordsim.ClassGlobal:
		return "global limit"
	}
	return strings.TrimSpace(name + " " + limit.Class.String() + " limit")
}

func quotaText(q discordsim.Quota) string {
	how := map[discordsim.Kind]string{
		discordsim.KindFixed: "fixed", discordsim.KindSliding: "sliding", discordsim.KindLeaky: "leaky",
	}
	return fmt.Sprintf("%d per %s, %s", q.Limit, output.Setting(q.Period), how[q.Kind])
}

// restLane is all other buckets together: how many requests they got in each of some equal parts of the run.
func restLane(rest []*lane, end time.Duration) *lane {
	const parts = 200
	l := &lane{label: fmt.Sprintf("%d other buckets", len(rest)), what: "requests in " + measured(end/parts), counts: make(map[kind]int)}
	counts := make([]float64, parts)
	for _, other := range rest {
		for _, m := range other.marks {
			counts[part(m.at, end, parts)]++
			if m.kind != accepted && m.kind != foreign {
				l.marks = append(l.marks, mark{m.at, 0, m.kind})
			}
			l.counts[m.kind]++
		}
	}
	l.top = max(slices.Max(counts), 1)
	for i, count := range counts {
		from, to := end*time.Duration(i)/parts, end*time.Duration(i+1)/parts
		l.level = append(l.level, moment{from, count}, moment{to, count})
	}
	for i := range l.marks {
		l.marks[i].height = l.top
	}
	l.note = fmt.Sprintf("together, up to %.0f in %s", l.top, measured(end/parts))
	return l
}

// pile puts marks that lie near each other on top of each other.
func (l *lane) pile(end time.Duration) {
	const parts, low = 150, 4 // few marks stay at the bottom
	slices.SortStableFunc(l.marks, func(a, b mark) int { return cmp.Compare(a.at, b.at) })
	height, latest := 0, -1
	l.top = low
	for i := range l.marks {
		if p := part(l.marks[i].at, end, parts); p != latest {
			height, latest = 0, p
		}
		l.marks[i].height = float64(height) + 0.5
		height++
		l.top = max(l.top, float64(height))
	}
}

// part is the number of the equal part in which a moment of the run lies.
func part(at, end time.Duration, parts int) int {
	if end <= 0 {
		return 0
	}
	return min(max(int(float64(at)/float64(end)*float64(parts)), 0), parts-1)
}

// drawn is the lane for the script, thinned. It reports what it left out.
func (l *lane) drawn(clock clock) (data laneData, thinned, windowless bool) {
	data = laneData{Label: l.label, Note: l.note, What: l.what, Top: significant(l.top), Marks: make(map[kind][]float64)}
	if windowless = len(l.windows) > mostWindows; !windowless {
		for _, w := range l.windows {
			data.Windows = append(data.Windows, clock.time(w.from), clock.time(min(w.to, clock.end)))
		}
	}
	level, thinner := thinnedLevel(l.level, clock.end)
	if len(level) > 0 {
		data.Level = [][]float64{{}, {}}
		for _, m := range level {
			data.Level[0] = append(data.Level[0], clock.time(m.at))
			data.Level[1] = append(data.Level[1], round(m.used, 3))
		}
	}
	type place struct {
		part, step int
		kind       kind
	}
	type group struct {
		first mark
		n     int
	}
	groups := make(map[place]*group)
	var order []*group
	parts := mostParts
	for {
		for _, m := range l.marks {
			p := place{part(m.at, clock.end, parts), int(m.height / l.top * mostSteps), m.kind}
			if groups[p] == nil {
				groups[p] = &group{first: m}
				order = append(order, groups[p])
			}
			groups[p].n++
		}
		if len(order) <= mostMarks {
			break
		}
		parts /= 2
		clear(groups)
		order = order[:0]
	}
	slices.SortStableFunc(order, func(a, b *group) int { return cmp.Compare(a.first.at, b.first.at) })
	for _, g := range order {
		k := g.first.kind
		data.Marks[k] = append(data.Marks[k], clock.time(g.first.at), significant(g.first.height), float64(g.n))
	}
	return data, thinner || len(order) < len(l.marks), windowless
}

// thinnedLevel shows the highest and the last level of each part if there are too many moments.
func thinnedLevel(line []moment, end time.Duration) ([]moment, bool) {
	if len(line) <= mostMoments {
		return line, false
	}
	const parts = mostMoments / 4
	var result []moment
	current := -1
	for _, m := range line {
		p := part(m.at, end, parts)
		if p != current {
			result = append(result, m, m)
			current = p
			continue
		}
		if m.used > result[len(result)-2].used {
			result[len(result)-2] = m
		}
		result[len(result)-1] = m
	}
	return result, true
}

// legend names the kinds of marks that occur.
func legend(lanes []*lane) (entries []Legend) {
	seen := make(map[kind]bool)
	for _, l := range lanes {
		for k := range maps.Keys(l.counts) {
			seen[k] = true
		}
	}
	for _, entry := range kinds {
		if seen[kind(entry.Mark)] {
			entries = append(entries, entry)
		}
	}
	return entries
}
