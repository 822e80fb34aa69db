package fleet

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// note is an event of a process, or of something that processes share, with its description.
type note struct {
	at   time.Duration
	text string
}

// Note adds a line with the current time to the story.
func (f *Fleet) Note(format string, arguments ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.notes = append(f.notes, note{f.Now(), fmt.Sprintf(format, arguments...)})
}

// Refusal is a 429.
type Refusal struct {
	Path    string
	Process int
	At      time.Duration // since the fleet was made
	Class   discordsim.Class
	Verdict discordsim.Verdict
	Because string
}

// Refusals returns all 429s, in the order in which the refused requests arrived at their processes.
func (f *Fleet) Refusals() (all []Refusal) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.records {
		for _, a := range r.answers {
			if a.Status == http.StatusTooManyRequests {
				all = append(all, Refusal{r.request.Path, r.process.Number, a.At.Sub(f.epoch), a.Class, a.Verdict, a.Because})
			}
		}
	}
	return all
}

// Story lists, between two times, Discord's answers to requests with a path, and all other events of the fleet.
func (f *Fleet) Story(path string, from, until time.Duration) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	lines := slices.Clone(f.notes)
	for i, r := range f.records {
		if r.request.Path != path {
			continue
		}
		for _, a := range r.answers {
			answer := fmt.Sprintf("status %d", a.Status)
			switch {
			case a.Status == 0:
				answer = "the connection broke before"
			case a.Verdict != discordsim.VerdictNone:
				answer += fmt.Sprintf(", %v, %v: %s", a.Class, a.Verdict, a.Because)
			}
			lines = append(lines, note{a.At.Sub(f.epoch), fmt.Sprintf("process %d: request %d, arrived %s, sent %s: %s",
				r.process.Number, i+1, seconds(r.arrived), seconds(a.SentAt.Sub(f.epoch)), answer)})
		}
	}
	slices.SortStableFunc(lines, func(a, b note) int { return cmp.Compare(a.at, b.at) })
	var story strings.Builder
	fmt.Fprintf(&story, "%s from %s to %s:\n", path, seconds(from), seconds(until))
	for _, l := range lines {
		if l.at >= from && l.at <= until {
			fmt.Fprintf(&story, "%12s  %s\n", seconds(l.at), l.text)
		}
	}
	return story.String()
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.4f s", d.Seconds()) }
