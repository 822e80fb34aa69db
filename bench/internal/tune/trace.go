package tune

import (
	"bufio"
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
	// longestLine is in bytes, and more than any path that Discord accepts.
	longestLine = 1 << 20
	// latestSecond is in the year 5138. A larger number is in milliseconds.
	latestSecond = 1e11
)

// columnNames has the names of the columns.
var columnNames = [3]string{"time", "method", "path"}

const (
	expectedColumns = "expected the columns time, method, path"
	expectedTime    = "expected RFC 3339, such as 2026-01-02T15:04:05.5Z, or seconds (no milliseconds) since any beginning, such as 12.5"
)

var errHeader = errors.New("the header lacks one: " + expectedColumns)

// ReadTrace reads a load from CSV. The requests may be in any order. Errors repeat nothing of the content, because a
// path may contain the token of a webhook.
//
// The columns are time, method and path, in this order. A header line may give another order and more columns, which
// are ignored. Times are in RFC 3339, or in seconds since any beginning, the same throughout the trace.
//
// If skip is set, invalid lines are left out and counted, see Load.Skipped. It is still an error if no line is left.
func ReadTrace(name string, content io.Reader, skip bool) (*Load, error) {
	t := &trace{name: name, load: newLoad(), queues: make(map[address]int), columns: [3]int{0, 1, 2}}
	lines := bufio.NewScanner(content)
	lines.Buffer(nil, longestLine)
	for number := 1; lines.Scan(); number++ {
		problem := t.read(strings.TrimSpace(strings.TrimPrefix(lines.Text(), "\uFEFF")))
		if problem == nil {
			continue
		}
		problem = fmt.Errorf("%s:%d: %w", name, number, problem)
		if !skip || errors.Is(problem, errHeader) { // without a valid header no line can be read
			return nil, problem
		}
		t.load.Skipped++
		t.load.FirstSkipped = cmp.Or(t.load.FirstSkipped, problem)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return t.end()
}

// trace is a load that is being read.
type trace struct {
	name    string
	load    *Load
	queues  map[address]int
	times   []time.Time
	dated   bool   // times are RFC 3339
	columns [3]int // indexes of time, method and path
}

type address struct{ method, path string }

// read parses a line and adds its request. The error says what is wrong with the line.
func (t *trace) read(line string) error {
	if line == "" {
		return nil
	}
	record := strings.Split(line, ",")
	if strings.ContainsRune(line, '"') {
		reader := csv.NewReader(strings.NewReader(line))
		reader.TrimLeadingSpace = true
		var err error
		if record, err = reader.Read(); err != nil {
			return errors.New("not CSV: " + expectedColumns)
		}
	}
	for i := range record {
		record[i] = strings.TrimSpace(record[i])
	}
	if len(t.times) == 0 && column(record, columnNames[0]) >= 0 {
		for i, name := range columnNames {
			t.columns[i] = column(record, name)
		}
		if slices.Min(t.columns[:]) < 0 {
			return errHeader
		}
		return nil
	}
	if slices.Max(t.columns[:]) >= len(record) {
		return errors.New("too few columns: " + expectedColumns)
	}
	return t.add(record[t.columns[0]], record[t.columns[1]], record[t.columns[2]])
}

// column returns the index of a name in a header, -1 if it is missing.
func column(header []string, name string) int {
	return slices.IndexFunc(header, func(cell string) bool { return strings.EqualFold(cell, name) })
}

// add adds a request to the load.
func (t *trace) add(when, method, path string) error {
	at, dated, err := parseTime(when)
	switch {
	case err != nil:
		return err
	case len(t.times) == 0:
		t.dated = dated
	case dated != t.dated:
		return errors.New("RFC 3339 and seconds are mixed: expected times like those before")
	}
	key := address{method, path}
	queue, ok := t.queues[key]
	if !ok {
		route, err := routes.MatchAt(method, path, at)
		if err != nil {
			return fmt.Errorf("method or path: %w", err) // the error repeats neither
		}
		queue = t.load.queue(route)
		t.queues[key] = queue
	}
	t.times = append(t.times, at)
	t.load.add(0, queue)
	return nil
}

// end orders the requests by time, counted from the first of them.
func (t *trace) end() (*Load, error) {
	if len(t.times) == 0 && t.load.Skipped > 0 {
		return nil, fmt.Errorf("all %d lines were skipped, the first because of this: %w", t.load.Skipped, t.load.FirstSkipped)
	}
	if len(t.times) == 0 {
		return nil, fmt.Errorf("%s: no requests: %s", t.name, expectedColumns)
	}
	first, last := slices.MinFunc(t.times, time.Time.Compare), slices.MaxFunc(t.times, time.Time.Compare)
	t.load.Length = last.Sub(first)
	if t.load.Length > longestTrace {
		return nil, fmt.Errorf("%s: the first and the last request are %.0f days apart: expected at most a year", t.name, t.load.Length.Hours()/24)
	}
	for i, at := range t.times {
		t.load.arrivals[i].at = at.Sub(first)
	}
	t.load.sort()
	return t.load, nil
}

// parseTime parses RFC 3339, or seconds since any beginning.
func parseTime(text string) (at time.Time, dated bool, err error) {
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return at, true, nil
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || !(seconds >= 0 && seconds < latestSecond) {
		return time.Time{}, false, errors.New("the time cannot be read: " + expectedTime)
	}
	whole := int64(seconds)
	return time.Unix(whole, int64((seconds-float64(whole))*1e9+0.5)), false, nil
}
