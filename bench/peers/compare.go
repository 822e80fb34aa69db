package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"time"
)

// document is the whole comparison in JSON.
type document struct {
	Seed      uint64         `json:"seed"`
	Quick     bool           `json:"quick"`
	Go        string         `json:"go"`
	CPUs      int            `json:"cpus"`
	RoundTrip [2]seconds     `json:"round_trip_seconds"` // the shortest and the longest
	Scenarios []scenarioPart `json:"scenarios"`
}

type scenarioPart struct {
	Scenario string   `json:"scenario"`
	About    string   `json:"about"`
	Calls    int      `json:"calls"`
	Ideal    seconds  `json:"ideal_seconds"`
	Results  []result `json:"results"`
}

func newDocument(o options) document {
	return document{
		Seed: o.seed, Quick: o.quick, Go: runtime.Version(), CPUs: runtime.NumCPU(),
		RoundTrip: [2]seconds{seconds(travel.Smallest()), seconds(travel.RoundTrip + travel.Jitter)},
		Scenarios: []scenarioPart{},
	}
}

// compare runs one scenario after the other. What was done before the context ended is shown.
func compare(ctx context.Context, o options, stdout, stderr io.Writer) error {
	all := newDocument(o)
	for i, s := range o.scenarios {
		ideal, err := s.ideal()
		if err != nil {
			return err
		}
		progress(stderr, "%d of %d: %s, about %.0f s …", i+1, len(o.scenarios), s.name, 1.3*ideal.Seconds()+1)
		part := scenarioPart{Scenario: s.name, About: s.about, Calls: len(s.calls), Ideal: seconds(ideal)}
		if part.Results, err = runAll(ctx, o, s); err != nil {
			return err
		}
		progress(stderr, "")
		if ctx.Err() != nil {
			break
		}
		all.Scenarios = append(all.Scenarios, part)
		if !o.json {
			writePart(stdout, part)
		}
	}
	if !o.json {
		writeSummary(stdout, all)
		return nil
	}
	encoder := json.NewEncoder(stdout)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(all)
}

// runAll runs a scenario with all contenders: each in a process of its own and all at once, or one after the other in this one.
func runAll(ctx context.Context, o options, s scenario) ([]result, error) {
	results := make([]result, len(o.contenders))
	if o.here {
		for i, by := range o.contenders {
			var err error
			if results[i], err = measure(ctx, by, s, settings{o.seed, realTime}); err != nil {
				return nil, fmt.Errorf("%s: %w", by.name, err)
			}
		}
		return results, nil
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ideal, err := s.ideal()
	if err != nil {
		return nil, err
	}
	var running sync.WaitGroup
	for i, by := range o.contenders {
		running.Go(func() { results[i] = apart(ctx, self, by, s, o, longest(ideal)+beyond) })
	}
	running.Wait()
	return results, nil
}

// progress replaces the line that shows how far the work has come. It shows nothing if it does not write to a terminal.
func progress(w io.Writer, format string, values ...any) {
	file, ok := w.(*os.File)
	if !ok {
		return
	}
	if info, err := file.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return
	}
	fmt.Fprintf(w, "\r\033[K"+format, values...)
}

// beyond is how much longer than a run its process may take to start and to end.
const beyond = 15 * time.Second
