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
	mostLanes   = 20  // buckets that are shown one by one
	mostParts   = 600 // in a lane; marks of one kind in the same part and at about the same height are drawn as one
	mostSteps   = 10  // of heights in a lane
	mostWindows = 400 // of a lane that are shaded; more could not be told apart
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
	{string(accepted), "request let through, at the height of the places then taken"},
	{string(foreign), "somebody else's request"},
	{string(broken), "answered with an error, or not at all"},
	{string(avoidable), "429 that was avoidable"},
	{string(unavoidable), "429 that was not avoidable"},
	{string(unjudged), "429"},
}

// What the script draws as lanes.
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
		Top     float64            `json:"top"`               // of heights
		Windows []float64          `json:"windows,omitempty"` // from, to, from, to, …
		Marks   map[kind][]float64 `json:"marks"`             // time, height, number; time, height, number; …
	}
)

// lane is a lane in the making: a limit, or requests if it is nil.
type lane struct {
	label, note string
	top         float64
	marks       []mark
	counts      map[kind]int // of the marks
	limit       *Limit
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

// lanes has a lane for each limit of the simulator: first those that are no buckets, then the buckets, the busiest first.
func (log *Log) lanes() (others, buckets []*lane) {
	if len(log.Calls) == 0 {
		return nil, []*lane{log.clientLane()}
	}
	byLimit := make(map[*Limit]*lane)
	for _, limit := range log.Limits {
		l := newLane(limit)
		byLimit[limit] = l
		if limit.Class == discordsim.ClassUser {
			buckets = append(buckets, l)
			continue
		}
		others = append(others, l)
		for _, use := range limit.Uses {
			if use.Taken && use.Who != discordsim.Foreign {
				l.mark(use.At, heightOf(limit, use), accepted)
			}
		}
	}
	for _, call := range log.Calls {
		if l := byLimit[call.Bucket]; l != nil {
			height := l.top
			if call.Use >= 0 && call.Class == discordsim.ClassNone {
				height = heightOf(l.limit, l.limit.Uses[call.Use])
			}
			l.label = cmp.Or(l.label, call.Operation)
			l.mark(call.At, height, became(call))
		}
		for _, l := range others {
			if call.Class == l.limit.Class && (l.limit.Major == "" || l.limit.Major == call.Major) {
				l.mark(call.At, l.top, became(call))
			}
		}
	}
	slices.SortStableFunc(buckets, func(a, b *lane) int {
		return cmp.Or(cmp.Compare(len(b.marks), len(a.marks)), cmp.Compare(b.refused(), a.refused()),
			cmp.Compare(len(a.label), len(b.label)), cmp.Compare(a.label, b.label))
	})
	return others, buckets
}

// clientLane is all that is known of a real server: what was sent and what came back.
func (log *Log) clientLane() *lane {
	l := &lane{label: "requests", note: "sent by the client", top: 1, counts: make(map[kind]int)}
	for _, passage := range log.Passages {
		for _, send := range passage.Sends {
			switch {
			case send.Status == 429:
				l.mark(send.At, 1, unjudged)
			case send.Status == 0 || send.Status >= 400:
				l.mark(send.At, 0.75, broken)
			default:
				l.mark(send.At, 0.5, accepted)
			}
		}
	}
	return l
}

// firstChannel is where the benchmark begins to number its channels.
const firstChannel = 900_000_000_000_000_000

// newLane is the lane of a limit, with what others sent.
func newLane(limit *Limit) *lane {
	how := map[discordsim.Kind]string{discordsim.KindFixed: "fixed", discordsim.KindSliding: "sliding", discordsim.KindLeaky: "leaky"}
	l := &lane{
		top: float64(max(limit.Quota.Limit, 1)), limit: limit, counts: make(map[kind]int),
		note: fmt.Sprintf("%d per %s, %s", limit.Quota.Limit, Setting(limit.Quota.Period), how[limit.Quota.Kind]),
	}
	if limit.Quota.Limit == 0 {
		l.note = "no limit"
	}
	if id, err := strconv.ParseUint(limit.Major, 10, 64); err == nil && id >= firstChannel {
		l.label = fmt.Sprintf("channel %d", id-firstChannel)
	}
	if limit.Class != discordsim.ClassUser {
		l.label = strings.TrimSpace(l.label + " " + limit.Class.String() + " limit")
	}
	for _, use := range limit.Uses {
		if use.Who == discordsim.Foreign && use.Taken {
			l.mark(use.At, heightOf(limit, use), foreign)
		}
	}
	return l
}

// heightOf is how many places are taken after a use.
func heightOf(limit *Limit, use Use) float64 {
	switch {
	case limit.Quota.Limit == 0:
		return 0.5
	case limit.Quota.Kind == discordsim.KindLeaky: // it leaks one request in this part of the period
		return use.State.ResetAfter.Seconds() / limit.Quota.Period.Seconds() * float64(limit.Quota.Limit)
	}
	return float64(use.State.Limit - use.State.Remaining)
}

// drawn is the lane for the script.
func (l *lane) drawn(u unit, end time.Duration) laneData {
	data := laneData{Label: l.label, Note: l.note, Top: l.top, Marks: make(map[kind][]float64)}
	if spans := l.windows(); len(spans) <= 2*mostWindows {
		for _, at := range spans {
			data.Windows = append(data.Windows, u.time(min(at, end)))
		}
	}
	type place struct {
		part, step int
		kind       kind
	}
	numbers := make(map[place]int) // where in a list the number of marks is that are drawn as one
	for _, m := range l.marks {
		p := place{int(m.at * mostParts / end), int(m.height / l.top * mostSteps), m.kind}
		if at, ok := numbers[p]; ok {
			data.Marks[m.kind][at]++
			continue
		}
		data.Marks[m.kind] = append(data.Marks[m.kind], u.time(m.at), significant(m.height), 1)
		numbers[p] = len(data.Marks[m.kind]) - 1
	}
	return data
}

// windows are when those of a fixed limit opened and closed, one after the other. Other limits have none.
func (l *lane) windows() (spans []time.Duration) {
	if l.limit == nil || l.limit.Quota.Kind != discordsim.KindFixed {
		return nil
	}
	for _, use := range l.limit.Uses {
		opens, closes := use.At, use.At+use.State.ResetAfter
		if use.State.ResetAfter == 0 || len(spans) > 0 && spans[len(spans)-1] == closes {
			continue
		}
		if l.limit.Quota.Aligned {
			opens = max(closes-l.limit.Quota.Period, 0)
		}
		spans = append(spans, opens, closes)
	}
	return spans
}
