package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
)

const (
	mostLanes   = 20   // buckets that are shown one by one
	mostParts   = 1000 // in a lane; marks in the same part are drawn as one
	mostSteps   = 10   // different heights of marks in a lane
	mostMarks   = 3000 // what the two above still allow
	mostWindows = 400  // of a lane that are shaded; more could not be told apart
	mostMoments = 2400 // of the line of how full a limit was
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

var kinds = []legend{
	{string(accepted), "request let through"},
	{string(foreign), "somebody else's request"},
	{string(broken), "answered with an error, or not at all"},
	{string(avoidable), "429 that was avoidable"},
	{string(unavoidable), "429 that was not avoidable"},
	{string(unjudged), "429"},
}

// What the script draws as lanes. Heights are parts of Top; times and heights are one after the other in one list.
type (
	lanesData struct {
		Kind   string     `json:"kind"`
		Sync   string     `json:"sync,omitempty"`
		X      axisData   `json:"x"`
		Lanes  []laneData `json:"lanes"`
		Blocks []float64  `json:"blocks,omitempty"` // from, to, from, to, …
	}
	laneData struct {
		Label   string             `json:"label"`
		Note    string             `json:"note"`
		What    string             `json:"what"` // what a height counts
		Top     float64            `json:"top"`
		Windows []float64          `json:"windows,omitempty"` // from, to, from, to, …
		Level   [][]float64        `json:"level,omitempty"`   // times, and heights there
		Marks   map[kind][]float64 `json:"marks"`             // time, height, number; time, height, number; …
	}
)

// lane is a lane in the making.
type lane struct {
	label, note, what string
	top               float64
	marks             []mark
	counts            map[kind]int // of the marks
	limit             *Limit       // nil: it is not about one
	piled             bool         // its marks have no height of their own
}

type mark struct {
	at     time.Duration
	height float64
	kind   kind
}

func (l *lane) mark(at time.Duration, height float64, k kind) {
	if l.counts == nil {
		l.counts = make(map[kind]int)
	}
	l.counts[k]++
	l.marks = append(l.marks, mark{at, height, k})
}

// requests is how many requests of ours are in the lane.
func (l *lane) requests() int { return len(l.marks) - l.counts[foreign] }

func (l *lane) refused() int { return l.counts[avoidable] + l.counts[unavoidable] + l.counts[unjudged] }

// became is what a call became of.
func became(call Call) kind {
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

// bucketLanes is a lane for each bucket of the simulator, the busiest first.
func bucketLanes(log *Log) (lanes []*lane) {
	byLimit := make(map[*Limit]*lane)
	for _, call := range log.Calls {
		if call.Bucket == nil {
			continue // it did not come so far
		}
		l := byLimit[call.Bucket]
		if l == nil {
			l = limitLane(call.Bucket, call.Operation)
			byLimit[call.Bucket] = l
			lanes = append(lanes, l)
		}
		height := l.top
		if call.Use >= 0 && call.Class == discordsim.ClassNone {
			height = heightOf(call.Bucket, call.Bucket.Uses[call.Use])
		}
		l.mark(call.At, height, became(call))
	}
	slices.SortStableFunc(lanes, func(a, b *lane) int {
		return cmp.Or(cmp.Compare(b.requests(), a.requests()), cmp.Compare(b.refused(), a.refused()),
			cmp.Compare(len(a.label), len(b.label)), cmp.Compare(a.label, b.label))
	})
	return lanes
}

// otherLanes is a lane for each limit that is not a bucket.
func otherLanes(log *Log) (lanes []*lane) {
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
		for _, call := range log.Calls {
			if call.Class == limit.Class && (limit.Major == "" || limit.Major == call.Major) {
				l.mark(call.At, l.top, became(call))
			}
		}
		lanes = append(lanes, l)
	}
	return lanes
}

// clientLanes is one lane: all that is known of a real server is what was sent and what came back.
func clientLanes(log *Log) []*lane {
	l := &lane{label: "requests", note: "sent by the client", piled: true}
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

func heightOf(limit *Limit, use Use) float64 {
	switch {
	case limit.Quota.Limit == 0:
		return 0.5
	case limit.Quota.Kind == discordsim.KindLeaky:
		return float64(use.ResetAfter) / leakInterval(limit.Quota)
	}
	return float64(use.Used)
}

// limitLane is the lane of a limit, with what others sent.
func limitLane(limit *Limit, operation string) *lane {
	how := map[discordsim.Kind]string{discordsim.KindFixed: "fixed", discordsim.KindSliding: "sliding", discordsim.KindLeaky: "leaky"}
	l := &lane{
		label: limitName(limit, operation), what: "counted", top: float64(limit.Quota.Limit), limit: limit,
		note: fmt.Sprintf("%d per %s, %s", limit.Quota.Limit, Setting(limit.Quota.Period), how[limit.Quota.Kind]),
	}
	if limit.Quota.Limit == 0 {
		l.note, l.what, l.top, l.piled = "no limit", "", 1, true
	}
	for _, use := range limit.Uses {
		if use.Foreign && use.Taken {
			l.mark(use.At, heightOf(limit, use), foreign)
		}
	}
	return l
}

// firstChannel is where the benchmark begins to number its channels.
const firstChannel = 900_000_000_000_000_000

func limitName(limit *Limit, operation string) string {
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

// pile puts marks that lie near each other on top of each other.
func (l *lane) pile(end time.Duration) {
	const parts, low = 150, 4 // few marks stay at the bottom
	slices.SortStableFunc(l.marks, func(a, b mark) int { return cmp.Compare(a.at, b.at) })
	height, latest := 0, -1
	l.top = low
	for i := range l.marks {
		if p := partOf(l.marks[i].at, end, parts); p != latest {
			height, latest = 0, p
		}
		l.marks[i].height = float64(height) + 0.5
		height++
		l.top = max(l.top, float64(height))
	}
}

// partOf is the number of the equal part in which a moment of the run lies.
func partOf(at, end time.Duration, parts int) int {
	if end <= 0 {
		return 0
	}
	return min(max(int(float64(at)/float64(end)*float64(parts)), 0), parts-1)
}

// drawn is the lane for the script. It reports whether marks or moments were left out.
func (l *lane) drawn(u unit, end time.Duration) (data laneData, thinned bool) {
	if l.piled {
		l.pile(end)
	}
	data = laneData{Label: l.label, Note: l.note, What: l.what, Top: significant(l.top), Marks: make(map[kind][]float64)}
	if l.limit != nil {
		if open := windows(l.limit); len(open) <= mostWindows {
			for _, w := range open {
				data.Windows = append(data.Windows, u.time(w.from), u.time(min(w.to, end)))
			}
		}
		line, fewer := thinnedLevel(levels(l.limit, end), end)
		if len(line) > 0 {
			data.Level = [][]float64{{}, {}}
		}
		for _, m := range line {
			data.Level[0], data.Level[1] = append(data.Level[0], u.time(m.at)), append(data.Level[1], round(m.used, 3))
		}
		thinned = fewer
	}
	groups := l.groups(end)
	for _, g := range groups {
		k := g.first.kind
		data.Marks[k] = append(data.Marks[k], u.time(g.first.at), significant(g.first.height), float64(g.n))
	}
	return data, thinned || len(groups) < len(l.marks)
}

// group is marks that are drawn as one.
type group struct {
	first mark
	n     int
}

// groups brings together marks of one kind that lie next to each other, more of them until few enough are left.
func (l *lane) groups(end time.Duration) (order []*group) {
	type place struct {
		part, step int
		kind       kind
	}
	for parts := mostParts; ; parts /= 2 {
		groups := make(map[place]*group)
		order = order[:0]
		for _, m := range l.marks {
			p := place{partOf(m.at, end, parts), int(m.height / l.top * mostSteps), m.kind}
			if groups[p] == nil {
				groups[p] = &group{first: m}
				order = append(order, groups[p])
			}
			groups[p].n++
		}
		if len(order) <= mostMarks {
			break
		}
	}
	slices.SortStableFunc(order, func(a, b *group) int { return cmp.Compare(a.first.at, b.first.at) })
	return order
}

// thinnedLevel shows the highest and the last level of each part if there are too many moments.
func thinnedLevel(line []moment, end time.Duration) ([]moment, bool) {
	if len(line) <= mostMoments {
		return line, false
	}
	var result []moment
	current := -1
	for _, m := range line {
		p := partOf(m.at, end, mostMoments/4)
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
