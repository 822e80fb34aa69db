package tune

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
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
	// longestTrace bounds how long a replay can take.
	longestTrace = 366 * 24 * time.Hour
	// longestLine is more than any path that Discord accepts.
	longestLine = 1 << 20
	// latestSecond is in the year 5138. What is later is in milliseconds.
	latestSecond = 1e11
)

// columnNames are those of CSV, and the members of JSON objects.
var columnNames = [3]string{"time", "method", "path"}

const (
	expectedColumns = "expected the columns time, method, path, or a JSON object with these members"
	expectedTime    = "expected RFC 3339, such as 2026-01-02T15:04:05.5Z, or seconds (no milliseconds) since any beginning, such as 12.5"
)

var errHeader = errors.New("the header lacks one: expected the columns time, method, path")

// ReadTrace reads a load: CSV or JSON lines, which begin with a brace. The requests may be in any order. An error repeats nothing of what
// stands there, since a path may contain the token of a webhook.
//
// CSV has the columns time, method and path, in this order; a header line may give another order and more columns, which are
// ignored. In JSON lines each line is an object with the members time, method and path; others are ignored. The time is in
// RFC 3339, or in seconds since whatever beginning, the same way in the whole trace.
//
// If skip is set, lines with which something is wrong are left out and counted, see Load.Skipped. It is an error all the same if no line
// is left.
func ReadTrace(name string, content io.Reader, skip bool) (*Load, error) {
	t := &trace{name: name, load: newLoad(), queues: make(map[address]int), columns: [3]int{0, 1, 2}}
	reader := bufio.NewReaderSize(content, longestLine)
	for number := 1; ; number++ {
		line, more, err := reader.ReadLine()
		if errors.Is(err, io.EOF) {
			return t.end()
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		problem := t.read(bytes.TrimSpace(bytes.TrimPrefix(line, []byte("\uFEFF"))), more)
		for more && err == nil {
			_, more, err = reader.ReadLine()
		}
		if problem == nil {
			continue
		}
		problem = fmt.Errorf("%s:%d: %w", name, number, problem)
		if !skip || errors.Is(problem, errHeader) { // without a header nothing that follows can be read
			return nil, problem
		}
		t.load.Skipped++
		t.load.FirstSkipped = cmp.Or(t.load.FirstSkipped, problem)
	}
}

// trace is a load that is being read.
type trace struct {
	name    string
	load    *Load
	queues  map[address]int
	times   []time.Time
	dated   bool   // times are RFC 3339
	columns [3]int // of CSV: where time, method and path are
}

type address struct{ method, path string }

// read takes in a line. The error says what is wrong with it.
func (t *trace) read(line []byte, isPart bool) error {
	switch {
	case isPart:
		return fmt.Errorf("the line is too long: expected at most %d bytes", longestLine)
	case len(line) == 0:
		return nil
	case line[0] == '{':
		var entry struct {
			Time         json.RawMessage
			Method, Path *string
		}
		if err := json.Unmarshal(line, &entry); err != nil || entry.Time == nil || entry.Method == nil || entry.Path == nil {
			return errors.New("expected a JSON object with the members time (text or number), method and path (texts), all on one line")
		}
		return t.add(strings.Trim(string(entry.Time), `"`), *entry.Method, *entry.Path)
	}
	record := strings.Split(string(line), ",")
	if bytes.ContainsRune(line, '"') {
		reader := csv.NewReader(bytes.NewReader(line))
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

// column is where a name stands in a header, -1 if it does not.
func column(header []string, name string) int {
	return slices.IndexFunc(header, func(cell string) bool { return strings.EqualFold(cell, name) })
}

// add takes in a request.
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
			return fmt.Errorf("method or path: %w", err) // which repeats neither
		}
		queue = t.load.queue(route)
		t.queues[key] = queue
	}
	t.times = append(t.times, at)
	t.load.add(0, queue)
	return nil
}

// end puts the requests in order and lets time begin with the first of them.
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

// parseTime reads RFC 3339, or seconds since the beginning of time.
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
