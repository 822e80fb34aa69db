package tune

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
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
)

// TraceError says what is wrong with a trace. It repeats nothing of what stands there, since a path may contain the token of a
// webhook.
type TraceError struct {
	Name    string // of the file
	Line    int    // from 1; 0: the trace as a whole
	Problem string // what was wrong, and what was expected
}

func (e *TraceError) Error() string {
	if e.Line == 0 {
		return e.Name + ": " + e.Problem
	}
	return fmt.Sprintf("%s:%d: %s", e.Name, e.Line, e.Problem)
}

// ReadTrace reads a load: CSV or JSON lines. The extension of the name decides (.csv; .json, .jsonl, .ndjson), and otherwise
// whether the content begins with a brace. The requests may be in any order. The error is a *TraceError or that of the reader.
//
// CSV has the columns time, method and path, in this order; a header line may give another order and more columns, which are
// ignored. In JSON lines each line is an object with the members time, method and path; others are ignored. The time is in
// RFC 3339, or in seconds since whatever beginning, the same way in the whole trace.
//
// If skip is set, lines with which something is wrong are left out and counted, see Load.Skipped; each line is then a record of its own, also
// if a quoted text goes on in the next one. It is an error all the same if no line is left.
func ReadTrace(name string, content io.Reader, skip bool) (*Load, error) {
	t := &trace{name: name, load: newLoad(), seen: make(map[address]int), skip: skip}
	reader := bufio.NewReaderSize(content, 1<<16)
	if mark, _ := reader.Peek(3); string(mark) == "\uFEFF" {
		_, _ = reader.Discard(3) // they are there
	}
	var err error
	if isJSON(name, reader) {
		err = t.readJSON(reader)
	} else {
		err = t.readCSV(reader)
	}
	if err != nil {
		return nil, err
	}
	return t.end()
}

func isJSON(name string, reader *bufio.Reader) bool {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".csv":
		return false
	case ".json", ".jsonl", ".ndjson":
		return true
	}
	beginning, _ := reader.Peek(512) // whatever there is
	return bytes.HasPrefix(bytes.TrimSpace(beginning), []byte("{"))
}

// trace is a load that is being read.
type trace struct {
	name  string
	load  *Load
	seen  map[address]int // targets
	times []time.Time
	dated bool // times are RFC 3339
	skip  bool // bad lines
}

// bad takes in what is wrong with a line. It returns that, or nil if the line is to be skipped.
func (t *trace) bad(err error) error {
	var wrong *TraceError
	if !t.skip || !errors.As(err, &wrong) {
		return err
	}
	if t.load.Skipped == 0 {
		t.load.FirstSkipped = wrong
	}
	t.load.Skipped++
	return nil
}

type address struct{ method, path string }

func (t *trace) wrong(line int, format string, values ...any) error {
	return &TraceError{t.name, line, fmt.Sprintf(format, values...)}
}

// column names of CSV, and members of JSON objects.
const (
	columnTime, columnMethod, columnPath = "time", "method", "path"
	expectedColumns                      = "expected the columns time, method, path"
)

func (t *trace) readCSV(content io.Reader) error {
	c := columns{0, 1, 2}
	if t.skip {
		return t.eachLine(content, func(number int, line []byte) error {
			reader := newCSV(bytes.NewReader(line))
			record, err := reader.Read()
			if errors.Is(err, io.EOF) { // there is nothing in it
				return nil
			}
			return t.readRecord(&c, number, record, err)
		})
	}
	reader := newCSV(content)
	for {
		record, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		line := 0
		if err == nil {
			line, _ = reader.FieldPos(0)
		}
		if err := t.readRecord(&c, line, record, err); err != nil {
			return err
		}
	}
}

func newCSV(content io.Reader) *csv.Reader {
	reader := csv.NewReader(content)
	reader.FieldsPerRecord, reader.ReuseRecord, reader.TrimLeadingSpace = -1, true, true
	return reader
}

// columns are the indices of what is needed.
type columns struct{ at, method, path int }

// readRecord takes in a line of CSV, or that it is none.
func (t *trace) readRecord(c *columns, line int, record []string, err error) error {
	var malformed *csv.ParseError
	if errors.As(err, &malformed) {
		return t.wrong(max(line, malformed.Line), "not CSV (%v): %s", malformed.Err, expectedColumns)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", t.name, err)
	}
	if len(t.times) == 0 && isHeader(record) {
		*c = columns{column(record, columnTime), column(record, columnMethod), column(record, columnPath)}
		if c.at < 0 || c.method < 0 || c.path < 0 {
			t.skip = false // nothing that follows could be read
			return t.wrong(line, "the header lacks one: %s", expectedColumns)
		}
		return nil
	}
	if len(record) <= max(c.at, c.method, c.path) {
		return t.wrong(line, "too few columns: %s", expectedColumns)
	}
	return t.add(line, strings.TrimSpace(record[c.at]), strings.TrimSpace(record[c.method]), strings.TrimSpace(record[c.path]))
}

// eachLine calls a function with each line, and skips those with which it finds something wrong, if that is wanted.
func (t *trace) eachLine(content io.Reader, read func(number int, line []byte) error) error {
	lines := bufio.NewScanner(content)
	lines.Buffer(nil, longestLine)
	number := 0
	for lines.Scan() {
		number++
		if err := t.bad(read(number, lines.Bytes())); err != nil {
			return err
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return t.wrong(number+1, "the line is too long: expected at most %d bytes", longestLine)
	} else if err != nil {
		return fmt.Errorf("%s: %w", t.name, err)
	}
	return nil
}

// isHeader reports that the first line names the columns.
func isHeader(record []string) bool { return column(record, columnTime) >= 0 }

func column(record []string, name string) int {
	return slices.IndexFunc(record, func(cell string) bool { return strings.EqualFold(strings.TrimSpace(cell), name) })
}

func (t *trace) readJSON(content io.Reader) error {
	return t.eachLine(content, func(number int, line []byte) error {
		if len(bytes.TrimSpace(line)) == 0 {
			return nil
		}
		var entry struct {
			Time   json.RawMessage `json:"time"`
			Method *string         `json:"method"`
			Path   *string         `json:"path"`
		}
		if err := json.Unmarshal(line, &entry); err != nil || entry.Time == nil || entry.Method == nil || entry.Path == nil {
			return t.wrong(number, `expected a JSON object with the members time (text or number), method and path (texts), all on one line`)
		}
		return t.add(number, strings.Trim(string(entry.Time), `"`), *entry.Method, *entry.Path)
	})
}

// add takes in one line.
func (t *trace) add(line int, when, method, path string) error {
	at, dated, ok := parseTime(when)
	switch {
	case !ok:
		return t.wrong(line, "the time cannot be read: expected RFC 3339, such as 2026-01-02T15:04:05.5Z, or seconds (no milliseconds) since any beginning, such as 12.5")
	case len(t.times) == 0:
		t.dated = dated
	case dated != t.dated:
		return t.wrong(line, "RFC 3339 and seconds are mixed: expected times like those before")
	}
	key := address{method, path}
	target, ok := t.seen[key]
	if !ok {
		route, err := routes.MatchAt(method, path, at)
		if err != nil {
			return t.wrong(line, "method or path: %v", err) // which repeats neither
		}
		target = t.load.target(route)
		t.seen[address{strings.Clone(method), strings.Clone(path)}] = target
	}
	t.times = append(t.times, at)
	t.load.add(0, target)
	return nil
}

// end puts the requests in order and lets time begin with the first of them.
func (t *trace) end() (*Load, error) {
	if len(t.times) == 0 && t.load.Skipped > 0 {
		return nil, fmt.Errorf("all %d lines were skipped, the first because of this: %w", t.load.Skipped, t.load.FirstSkipped)
	}
	if len(t.times) == 0 {
		return nil, t.wrong(0, "no requests: %s, or JSON objects with these members", expectedColumns)
	}
	first, last := slices.MinFunc(t.times, time.Time.Compare), slices.MaxFunc(t.times, time.Time.Compare)
	t.load.Length = last.Sub(first)
	if t.load.Length > longestTrace {
		return nil, t.wrong(0, "the first and the last request are %.0f days apart: expected at most a year", t.load.Length.Hours()/24)
	}
	for i, at := range t.times {
		t.load.arrivals[i].at = at.Sub(first)
	}
	t.load.sort()
	return t.load, nil
}

// latestSecond is in the year 5138. What is later is in milliseconds.
const latestSecond = 1e11

// parseTime reads RFC 3339, or seconds since the beginning of time.
func parseTime(text string) (at time.Time, dated, ok bool) {
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return at, true, true
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || !(seconds >= 0 && seconds < latestSecond) {
		return time.Time{}, false, false
	}
	whole := int64(seconds)
	return time.Unix(whole, int64((seconds-float64(whole))*1e9+0.5)), false, true
}
