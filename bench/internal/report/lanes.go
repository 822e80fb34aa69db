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
	mostLanes   = 20  // buckets that are shown
	mostParts   = 600 // parts of a lane; marks of one kind, part and step are drawn as one
	mostSteps   = 10  // steps of height in a lane
	mostWindows = 400 // windows to shade in a lane; more could not be told apart, so none is shaded
)

// kind is the outcome of a request. The script and the style sheet use the names.
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

// became returns the outcome of a request.
func became(e discordsim.Event) kind {
	switch {
	case e.Verdict == discordsim.Avoidable:
		return avoidable
	case e.Class != discordsim.ClassNone:
		return unavoidable
	case e.Status == 0 || e.Status >= 400:
		return broken
	}
	return accepted
}

// lane is a limit of the simulator with its requests, or all requests to a real server, whose limits are not known.
type lane struct {
	limit
	quota     discordsim.Quota
	operation string // of the first request
	marks     []mark
	counts    map[kind]int    // number of marks of each kind
	windows   []time.Duration // of a fixed limit: start, end, start, end, …
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

// open records the window that is open at a time.
func (l *lane) open(at time.Duration, state discordsim.State) {
	opens, closes := at, at+state.ResetAfter
	known := len(l.windows) > 0 && l.windows[len(l.windows)-1] == closes
	if l.quota.Kind != discordsim.KindFixed || state.ResetAfter == 0 || known {
		return
	}
	if l.quota.Aligned {
		opens = max(closes-l.quota.Period, 0)
	}
	l.windows = append(l.windows, opens, closes)
}

func (l *lane) refused() int { return l.counts[avoidable] + l.counts[unavoidable] + l.counts[unjudged] }

func (l *lane) top() float64 { return float64(max(l.quota.Limit, 1)) }

// height returns how many places are taken.
func (l *lane) height(state discordsim.State) float64 {
	switch {
	case l.quota.Limit == 0:
		return 0.5
	case l.quota.Kind == discordsim.KindLeaky: // one request leaks in each of Limit parts of the period
		return state.ResetAfter.Seconds() / l.quota.Period.Seconds() * float64(l.quota.Limit)
	}
	return float64(state.Limit - state.Remaining)
}

// firstChannel is the id of the benchmark's first channel.
const firstChannel = 900_000_000_000_000_000

func (l *lane) label() string {
	label := ""
	if id, err := strconv.ParseUint(l.major, 10, 64); err == nil && id >= firstChannel {
		label = fmt.Sprintf("channel %d", id-firstChannel)
	}
	if l.class != discordsim.ClassUser {
		label = strings.TrimSpace(label + " " + l.class.String() + " limit")
	}
	return cmp.Or(label, l.operation)
}

func (l *lane) note() string {
	if l.quota.Limit == 0 {
		return "no limit known"
	}
	return fmt.Sprintf("%d per %s, %s", l.quota.Limit, Setting(l.quota.Period), l.quota.Kind)
}

// laneData is a lane for the script.
type laneData struct {
	Label   string            `json:"label"`
	Note    string            `json:"note"`
	Top     float64           `json:"top"`               // largest height
	Windows []number          `json:"windows,omitempty"` // from, to, from, to, …
	Marks   map[kind][]number `json:"marks"`             // time, height, count; time, height, count; …
}

func (l *lane) data(end time.Duration) laneData {
	data := laneData{Label: l.label(), Note: l.note(), Top: l.top(), Marks: make(map[kind][]number)}
	if len(l.windows) <= 2*mostWindows {
		for _, at := range l.windows {
			data.Windows = append(data.Windows, number(min(at, end).Seconds()))
		}
	}
	type place struct {
		part, step int
		kind       kind
	}
	numbers := make(map[place]int) // index of the number of marks that are drawn as one
	for _, m := range l.marks {
		p := place{int(m.at * mostParts / end), int(m.height / data.Top * mostSteps), m.kind}
		if at, ok := numbers[p]; ok {
			data.Marks[m.kind][at]++
			continue
		}
		data.Marks[m.kind] = append(data.Marks[m.kind], number(m.at.Seconds()), number(m.height), 1)
		numbers[p] = len(data.Marks[m.kind]) - 1
	}
	return data
}

// busiest returns the lanes of other limits and of the buckets with most marks, and the number of all buckets.
func (l *Log) busiest() (lanes []*lane, all int) {
	if l.Calls == 0 {
		return []*lane{l.sent()}, 1
	}
	var buckets []*lane
	for _, lane := range l.lanes {
		if lane.class == discordsim.ClassUser {
			buckets = append(buckets, lane)
		} else if len(lanes) < mostLanes {
			lanes = append(lanes, lane)
		}
	}
	slices.SortStableFunc(buckets, func(a, b *lane) int {
		return cmp.Or(cmp.Compare(len(b.marks), len(a.marks)), cmp.Compare(b.refused(), a.refused()), cmp.Compare(a.major, b.major))
	})
	return append(lanes, buckets[:min(len(buckets), mostLanes)]...), len(buckets)
}

// sent returns one lane for a real server, with all that is known: its requests and their responses.
func (l *Log) sent() *lane {
	sent := &lane{limit: limit{class: discordsim.ClassUser}, operation: "requests", counts: make(map[kind]int)}
	for _, passage := range l.Passages {
		for _, send := range passage.Sends {
			switch {
			case send.Status == 429:
				sent.mark(send.At, 1, unjudged)
			case send.Status == 0 || send.Status >= 400:
				sent.mark(send.At, 0.75, broken)
			default:
				sent.mark(send.At, 0.5, accepted)
			}
		}
	}
	return sent
}
