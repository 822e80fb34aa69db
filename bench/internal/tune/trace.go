package tune

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ratelight/ratelight/routes"
)

const (
	// longestTrace bounds the length of a trace, and with it the time of a replay.
	longestTrace = 366 * 24 * time.Hour
	// latestSecond is in the year 5138. A larger number is probably in milliseconds, and is rejected.
	latestSecond = 1e11

	expectedColumns = "expected the columns time, method, path"
	expectedTime    = "expected RFC 3339, such as 2026-01-02T15:04:05.5Z, " +
		"or seconds (not milliseconds) since any origin, such as 12.5"
)

// ReadTrace reads a load from CSV. The requests may be in any order. Errors repeat nothing of the content, because a
// path may contain the token of a webhook.
//
// The columns are time, method and path. Further columns and a header are ignored. Times are in RFC 3339, or in seconds
// since any origin, which must be the same for the whole trace.
//
// Invalid lines are left out and counted (see Load.Skipped). It is an error if no line remains.
func ReadTrace(name string, content io.Reader) (*Load, error) {
	t := &trace{load: newLoad()}
	reader := csv.NewReader(content)
	reader.FieldsPerRecord, reader.LazyQuotes, reader.TrimLeadingSpace, reader.ReuseRecord = -1, true, true, true
	for first := true; ; first = false {
		record, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if first && strings.EqualFold(strings.TrimPrefix(record[0], "\uFEFF"), "time") {
			continue // a header
		}
		if err := t.read(record); err != nil {
			line, _ := reader.FieldPos(0)
			t.load.Skipped++
			t.load.FirstSkipped = cmp.Or(t.load.FirstSkipped, fmt.Errorf("%s:%d: %w", name, line, err))
		}
	}
	if err := t.end(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return t.load, nil
}

// trace is a load that is being read.
type trace struct {
	load  *Load
	times []time.Time
	dated bool // the times are in RFC 3339, not in seconds
}

// read adds the request that a record describes to the trace.
func (t *trace) read(record []string) error {
	if len(record) < 3 {
		return errors.New("too few columns: " + expectedColumns)
	}
	cell := func(i int) string { return strings.TrimSpace(record[i]) }
	at, dated, err := parseTime(cell(0))
	switch {
	case err != nil:
		return err
	case len(t.times) == 0:
		t.dated = dated
	case dated != t.dated:
		return errors.New("RFC 3339 and seconds are mixed: expected a time of the same form as in the first line")
	}
	route, err := routes.MatchAt(cell(1), cell(2), at)
	if err != nil {
		return fmt.Errorf("method or path: %w", err) // err repeats neither the method nor the path
	}
	t.times = append(t.times, at)
	t.load.add(0, t.load.queue(route))
	return nil
}

// end sorts the requests by time, and makes the times count from the first request.
func (t *trace) end() error {
	if len(t.times) == 0 && t.load.Skipped > 0 {
		return fmt.Errorf("all %d lines were skipped, the first because of this: %w", t.load.Skipped, t.load.FirstSkipped)
	}
	if len(t.times) == 0 {
		return errors.New("no requests: " + expectedColumns)
	}
	first, last := slices.MinFunc(t.times, time.Time.Compare), slices.MaxFunc(t.times, time.Time.Compare)
	t.load.Length = last.Sub(first)
	if t.load.Length > longestTrace {
		days := t.load.Length.Hours() / 24
		return fmt.Errorf("the first and the last request are %.0f days apart: expected at most a year", days)
	}
	for i, at := range t.times {
		t.load.arrivals[i].at = at.Sub(first)
	}
	slices.SortStableFunc(t.load.arrivals, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
	return nil
}

// parseTime parses RFC 3339, or seconds since any origin.
func parseTime(text string) (at time.Time, dated bool, err error) {
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return at, true, nil
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || !(seconds >= 0 && seconds < latestSecond) {
		return time.Time{}, false, errors.New("the time cannot be read: " + expectedTime)
	}
	return time.Unix(0, int64(seconds*1e9)), false, nil
}
