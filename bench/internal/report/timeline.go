package report

import (
	"cmp"
	"fmt"
	"html/template"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// Timeline is a chart of a run. For each limit of the simulated Discord it shows the requests that the limit counted or
// refused, and the actual windows of the limit if they are fixed. Times count from the start of the run. Make a
// Timeline with NewTimeline. It is safe for concurrent use.
type Timeline struct {
	mu     sync.Mutex
	start  time.Time
	length time.Duration // until the latest request
	lanes  map[laneKey]*lane
}

// laneKey identifies a limit. A laneKey may contain a token, a lane contains none.
type laneKey struct {
	class       discordsim.Class
	hash, major string
}

// lane has the requests at one limit.
type lane struct {
	name     string
	id       string // of the channel, guild or webhook; "" if the limit has none
	quota    discordsim.Quota
	windows  [][2]time.Duration // of a fixed window: start and end
	marks    map[string][]time.Duration
	requests int
}

// kinds explains the kinds of marks, in the order in which they are drawn. The kinds are classes of the style sheet.
var kinds = []struct{ kind, about string }{
	{"accepted", "request let through"}, {"failed", "answered with an error, or not at all"},
	{"unavoidable", "429 that was not avoidable"}, {"avoidable", "avoidable 429"},
}

// NewTimeline returns a timeline of a run that starts now.
func NewTimeline() *Timeline { return &Timeline{start: time.Now(), lanes: make(map[laneKey]*lane)} }

// Observe makes a simulator report to the timeline, in addition to the observer that config already has.
func (t *Timeline) Observe(config *discordsim.Config) {
	before := config.Observe
	config.ObserveLimit, config.Observe = t.use, func(e discordsim.Event) {
		t.event(e)
		if before != nil {
			before(e)
		}
	}
}

// use records the window of a limit. If the limit is not a bucket, use also records the requests that count against it.
func (t *Timeline) use(u discordsim.LimitUse) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := max(u.At.Sub(t.start), 0)
	l := t.lane(laneKey{u.Class, u.Hash, u.Major})
	l.quota = cmp.Or(l.quota, u.Quota)
	if u.Taken && u.Class != discordsim.ClassUser { // for buckets, the method event marks the requests
		l.mark("accepted", at)
	}
	closes, n := at+u.State.ResetAfter, len(l.windows)
	begins := n == 0 || l.windows[n-1][1] < closes-time.Millisecond
	if u.Quota.Kind == discordsim.KindFixed && u.State.ResetAfter > 0 && begins {
		opens := at
		if u.Quota.Aligned {
			opens = max(closes-u.Quota.Period, 0)
		}
		l.windows = append(l.windows, [2]time.Duration{opens, closes})
	}
}

// event records the outcome of a request of the client.
func (t *Timeline) event(e discordsim.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, kind, key := max(e.At.Sub(t.start), 0), "accepted", laneKey{discordsim.ClassUser, e.Hash, e.Major}
	t.length = max(t.length, at)
	switch {
	case e.Verdict == discordsim.Avoidable:
		kind = "avoidable"
	case e.Class != discordsim.ClassNone:
		kind = "unavoidable"
	case e.Status == 0 || e.Status >= 400:
		kind = "failed"
	}
	if e.Class == discordsim.ClassGlobal || e.Class == discordsim.ClassEdge {
		key = laneKey{class: e.Class}
	} else if e.Hash == "" {
		return // the request never reached a bucket
	}
	l := t.lane(key)
	l.name = cmp.Or(l.name, e.Operation)
	l.mark(kind, at)
}

func (l *lane) mark(kind string, at time.Duration) {
	l.marks[kind] = append(l.marks[kind], at)
	l.requests++
}

func (t *Timeline) lane(key laneKey) *lane {
	l, ok := t.lanes[key]
	if !ok {
		l = &lane{marks: make(map[string][]time.Duration)}
		l.id, _, _ = strings.Cut(key.major, ":") // a token may follow the id of a webhook
		if key.class != discordsim.ClassUser {
			l.name = key.class.String() + " limit"
		}
		t.lanes[key] = l
	}
	return l
}

const (
	mostAlike  = 5     // how many limits of one route are drawn; the limits with the most requests are chosen
	laneLeft   = 320.0 // where the time begins
	laneHeight = 40.0
)

// Caption returns the title, and an explanation of the marks.
func (t *Timeline) Caption() (title, summary string) {
	return "Requests", fmt.Sprintf("Each mark is one request or more, at the time at which the server counted it. "+
		"Shaded areas are the server's windows. "+
		"Of a route's limits, the %d with the most requests are drawn.", mostAlike)
}

// SVG draws the lanes below each other.
func (t *Timeline) SVG() template.HTML {
	t.mu.Lock()
	defer t.mu.Unlock()
	lanes := slices.DeleteFunc(slices.Collect(maps.Values(t.lanes)), func(l *lane) bool { return l.requests == 0 })
	slices.SortFunc(lanes, func(a, b *lane) int {
		return cmp.Or(b.requests-a.requests, cmp.Compare(a.name, b.name), cmp.Compare(a.id, b.id))
	})
	s, end := &svg{}, max(t.length, time.Millisecond)
	x := func(at time.Duration) float64 {
		return math.Round(laneLeft + (svgWidth-laneLeft-10)*min(float64(at)/float64(end), 1))
	}
	for i, k := range kinds {
		left := 10 + 240*float64(i)
		s.mark(k.kind, left, 12, 1, k.about)
		s.text(left+12, 16, "soft", "start", k.about)
	}
	y := 30.0
	drawn := make(map[string]int) // lanes by name
	for _, l := range lanes {
		if drawn[l.name]++; drawn[l.name] <= mostAlike {
			l.draw(s, y, x)
			y += laneHeight
		}
	}
	for i := range 6 {
		at := end * time.Duration(i) / 5
		s.text(x(at), y+14, "soft", "middle", Time(at).String())
	}
	return s.finish(y+22, "Requests")
}

// draw draws the lane below y.
func (l *lane) draw(s *svg, y float64, x func(time.Duration) float64) {
	note := "no limit known"
	if l.quota.Limit > 0 {
		note = fmt.Sprintf("%d per %s, %s", l.quota.Limit, Setting(l.quota.Period), l.quota.Kind)
	}
	s.text(0, y+16, "strong", "start", l.name)
	s.text(0, y+31, "soft", "start", strings.TrimSuffix(note+"; "+l.id, "; "))
	box := func(class string, from, to float64) {
		s.add(`<rect x="%.0f" y="%.0f" width="%.0f" height="%.0f" class="%s"/>`, from, y+4, to-from, laneHeight-8, class)
	}
	box("lane", laneLeft, svgWidth-10)
	if len(l.windows) <= svgWidth/4 { // more could not be told apart
		for _, w := range l.windows {
			box("window", x(w[0]), x(w[1]))
		}
	}
	for _, k := range kinds {
		counts := make(map[float64]int)
		for _, at := range l.marks[k.kind] {
			counts[x(at)]++
		}
		for _, at := range slices.Sorted(maps.Keys(counts)) {
			s.mark(k.kind, at, y+laneHeight/2, counts[at], k.about)
		}
	}
}

// mark draws n requests of the same time as a dot, or as a cross if they are 429s. The more requests, the larger the
// mark.
func (s *svg) mark(kind string, x, y float64, n int, about string) {
	r := 2.5 + math.Log2(float64(n))
	title := template.HTMLEscapeString(fmt.Sprintf("%d × %s", n, about))
	if kind == "avoidable" || kind == "unavoidable" {
		s.add(`<path d="M%.1f %.1fl%.1f %.1fm0 %.1fl%.1f %.1f" class="%s"><title>%s</title></path>`,
			x-r-1, y-r-1, 2*r+2, 2*r+2, -2*r-2, -2*r-2, 2*r+2, kind, title)
		return
	}
	s.add(`<circle cx="%.0f" cy="%.0f" r="%.1f" class="%s"><title>%s</title></circle>`, x, y, r, kind, title)
}
