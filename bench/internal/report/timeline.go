package report

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// Timeline is a chart of a load: each request at the limit of the simulated Discord that counted it, in the windows
// that the server really had. Times count from the start of the run. It is safe for concurrent use; nil records
// nothing. Use NewTimeline.
type Timeline struct {
	mu     sync.Mutex
	start  time.Time
	length time.Duration // until the latest request
	lanes  map[laneKey]*lane
	used   *discordsim.LimitUse // of its bucket by the request whose event comes next
}

// laneKey identifies a limit. It may contain a token; lane.name contains none.
type laneKey struct {
	class       discordsim.Class
	hash, major string
}

// lane has the requests at one limit.
type lane struct {
	name    string
	id      string // of the channel, guild or webhook; "" if the limit has none
	quota   discordsim.Quota
	windows [][2]time.Duration // of a fixed window: start and end
	marks   []mark
}

// mark is one request.
type mark struct {
	at    time.Duration
	taken float64 // part of the limit that is used up, from 0 to 1
	kind  string  // a class of the style sheet, and a key of marks
}

// marks explains the kinds of marks, in the order in which they are drawn.
var marks = []struct{ kind, about string }{
	{"foreign", "another client's request"}, {"accepted", "request let through, at the height of the places taken"},
	{"failed", "answered with an error, or not at all"}, {"unavoidable", "429 that was not avoidable"}, {"avoidable", "avoidable 429"},
}

// NewTimeline returns a timeline of a run that starts now.
func NewTimeline() *Timeline { return &Timeline{start: time.Now(), lanes: make(map[laneKey]*lane)} }

// Observe makes a simulator report to the timeline.
func (t *Timeline) Observe(config *discordsim.Config) {
	if t != nil {
		config.ObserveLimit, config.Observe = t.use, t.event
	}
}

// use records a request at a limit. The outcome of the client's own requests in their buckets follows in event.
func (t *Timeline) use(u discordsim.LimitUse) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := max(u.At.Sub(t.start), 0)
	l := t.lane(laneKey{u.Class, u.Hash, u.Major})
	l.quota = cmp.Or(l.quota, u.Quota)
	if closes := at + u.State.ResetAfter; u.Quota.Kind == discordsim.KindFixed && u.State.ResetAfter > 0 {
		if n := len(l.windows); n == 0 || l.windows[n-1][1] < closes-time.Millisecond {
			opens := at
			if u.Quota.Aligned {
				opens = max(closes-u.Quota.Period, 0)
			}
			l.windows = append(l.windows, [2]time.Duration{opens, closes})
		}
	}
	switch {
	case u.Who == discordsim.Own && u.Class == discordsim.ClassUser:
		t.used = &u
	case u.Taken && u.Who == discordsim.Own:
		l.marks = append(l.marks, mark{at, takenOf(u), "accepted"})
	case u.Taken:
		l.marks = append(l.marks, mark{at, takenOf(u), "foreign"})
	}
}

// takenOf returns which part of a limit is used up.
func takenOf(u discordsim.LimitUse) float64 {
	if u.Quota.Limit == 0 {
		return 0.5
	}
	taken := float64(u.State.Limit-u.State.Remaining) / float64(u.Quota.Limit)
	if u.Quota.Kind == discordsim.KindLeaky { // its level falls continuously
		taken = float64(u.State.ResetAfter) / float64(u.Quota.Period)
	}
	return min(max(taken, 0), 1)
}

// event records the outcome of a request of the client.
func (t *Timeline) event(e discordsim.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := mark{at: max(e.At.Sub(t.start), 0), taken: 1, kind: "accepted"}
	t.length = max(t.length, m.at)
	key := laneKey{discordsim.ClassUser, e.Hash, e.Major}
	switch {
	case e.Verdict == discordsim.Avoidable:
		m.kind = "avoidable"
	case e.Class != discordsim.ClassNone:
		m.kind = "unavoidable"
	case e.Status == 0 || e.Status >= 400:
		m.kind = "failed"
	}
	switch {
	case e.Class == discordsim.ClassGlobal, e.Class == discordsim.ClassEdge:
		key = laneKey{class: e.Class}
	case e.Hash == "":
		return // it never reached a bucket
	case t.used != nil && e.Class == discordsim.ClassNone:
		m.taken = takenOf(*t.used)
	}
	l := t.lane(key)
	l.name = cmp.Or(l.name, e.Operation)
	l.marks = append(l.marks, m)
	t.used = nil
}

func (t *Timeline) lane(key laneKey) *lane {
	l, ok := t.lanes[key]
	if !ok {
		l = &lane{}
		l.id, _, _ = strings.Cut(key.major, ":") // a token may follow the id of a webhook
		if key.class != discordsim.ClassUser {
			l.name = key.class.String() + " limit"
		}
		t.lanes[key] = l
	}
	return l
}

// mostLanes bounds the limits that are drawn: those with the most requests.
const mostLanes = 20

// Caption returns the title, and what a mark is.
func (t *Timeline) Caption() (title, summary string) {
	summary = "Each mark is a request, when the server counted it, or several that lie on each other. Shaded areas are the server's windows."
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.lanes); n > mostLanes {
		summary += fmt.Sprintf(" Of %d limits, the %d with the most requests are drawn.", n, mostLanes)
	}
	return "Requests", summary
}

const (
	laneLeft   = 300.0 // where the time begins
	laneHeight = 44.0
	laneTop    = 56.0 // below the legend
)

// SVG draws the lanes below each other.
func (t *Timeline) SVG() template.HTML {
	t.mu.Lock()
	defer t.mu.Unlock()
	var lanes []*lane
	for _, l := range t.lanes {
		if len(l.marks) > 0 {
			lanes = append(lanes, l)
		}
	}
	slices.SortFunc(lanes, func(a, b *lane) int {
		return cmp.Or(len(b.marks)-len(a.marks), cmp.Compare(a.name, b.name), cmp.Compare(a.marks[0].at, b.marks[0].at))
	})
	s, end := &svg{}, max(t.length, time.Millisecond)
	x := func(at time.Duration) float64 {
		return laneLeft + (svgWidth-laneLeft-10)*min(float64(at)/float64(end), 1)
	}
	for i, m := range marks {
		at := 10 + 330*float64(i%3)
		s.mark(m.kind, at, 14+20*float64(i/3), "")
		s.text(at+10, 18+20*float64(i/3), "soft", "start", m.about)
	}
	y := laneTop
	for _, l := range lanes[:min(len(lanes), mostLanes)] {
		l.draw(s, y, x)
		y += laneHeight
	}
	for i := range 6 {
		at := end * time.Duration(i) / 5
		s.text(x(at), y+14, "soft", "middle", Time(at).String())
	}
	return s.finish(y+22, "Requests")
}

// draw draws the lane below y.
func (l *lane) draw(s *svg, y float64, x func(time.Duration) float64) {
	const top, bottom = 6, laneHeight - 4
	note := "no limit known"
	if l.quota.Limit > 0 {
		note = fmt.Sprintf("%d per %s, %s", l.quota.Limit, Setting(l.quota.Period), l.quota.Kind)
	}
	if l.id != "" {
		note += "; " + l.id
	}
	name := []rune(l.name)
	if len(name) > 44 {
		name = append(name[:43], '…')
	}
	s.text(0, y+18, "strong", "start", string(name))
	s.text(0, y+34, "soft", "start", note)
	s.add(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" class="lane"/>`, laneLeft, y+top, svgWidth-laneLeft-10, bottom-float64(top))
	if len(l.windows) <= svgWidth/4 { // more could not be told apart
		for _, w := range l.windows {
			s.add(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" class="window"/>`, x(w[0]), y+top, x(w[1])-x(w[0]), bottom-float64(top))
		}
	}
	type place struct {
		x, y float64
		kind string
	}
	count, first := make(map[place]int), make(map[place]time.Duration)
	for _, m := range l.marks {
		p := place{math.Round(x(m.at)), math.Round(y + bottom - 3 - m.taken*(bottom-top-6)), m.kind}
		if count[p]++; count[p] == 1 {
			first[p] = m.at
		}
	}
	for _, m := range marks {
		for p, n := range count {
			if p.kind == m.kind {
				s.mark(p.kind, p.x, p.y, fmt.Sprintf("%d × %s at %s", n, m.about, Time(first[p])))
			}
		}
	}
}

// mark draws a request: a dot, and a cross for a 429.
func (s *svg) mark(kind string, x, y float64, about string) {
	title := ""
	if about != "" {
		title = "<title>" + template.HTMLEscapeString(about) + "</title>"
	}
	if kind == "avoidable" || kind == "unavoidable" {
		s.add(`<path d="M%.0f %.0fl8 8m0 -8l-8 8" class="%s">%s</path>`, x-4, y-4, kind, title)
		return
	}
	s.add(`<circle cx="%.0f" cy="%.0f" r="2.5" class="%s">%s</circle>`, x, y, kind, title)
}
