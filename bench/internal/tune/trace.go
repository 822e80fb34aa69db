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

// ReadTrace reads a load: CSV or JSON lines. The extension of the name decides (.csv; .json, .jsonl, .ndjson), and otherwise
// whether the content begins with a brace. The requests may be in any order. An error repeats nothing of what stands there, since a
// path may contain the token of a webhook.
//
// CSV has the columns time, method and path, in this order; a header line may give another order and more columns, which are
// ignored. In JSON lines each line is an object with the members time, method and path; others are ignored. The time is in
// RFC 3339, or in seconds since whatever beginning, the same way in the whole trace.
//
// If skip is set, lines with which something is wrong are left out and counted, see Load.Skipped. It is an error all the same if no line
// is left.
func ReadTrace(name string, content io.Reader, skip bool) (*Load, error) {
	t := &trace{name: name, load: newLoad(), queues: make(map[address]int), columns: [3]int{0, 1, 2}}
	reader := bufio.NewReaderSize(content, 1<<16)
	if mark, _ := reader.Peek(3); string(mark) == "\uFEFF" {
		_, _ = reader.Discard(3) // they are there
	}
	fields := t.csv
	if isJSON(name, reader) {
		fields = t.json
	}
	lines := bufio.NewScanner(reader)
	lines.Buffer(nil, longestLine)
	number := 1
	for ; lines.Scan(); number++ {
		problem := t.readLine(bytes.TrimSpace(lines.Bytes()), fields)
		switch {
		case problem == "":
		case !skip || t.unreadable:
			return nil, t.wrong(number, problem)
		default:
			if t.load.Skipped == 0 {
				t.load.FirstSkipped = t.wrong(number, problem)
			}
			t.load.Skipped++
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, t.wrong(number, fmt.Sprintf("the line is too long: expected at most %d bytes", longestLine))
	} else if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
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
	name       string
	load       *Load
	queues     map[address]int
	times      []time.Time
	dated      bool   // times are RFC 3339
	columns    [3]int // of CSV: where time, method and path are
	unreadable bool   // nothing that follows can be read
}

type address struct{ method, path string }

func (t *trace) wrong(line int, problem string) error {
	return fmt.Errorf("%s:%d: %s", t.name, line, problem)
}

// readLine takes in a line, and returns what is wrong with it, if anything is.
func (t *trace) readLine(line []byte, fields func([]byte) (request []string, problem string)) (problem string) {
	if len(line) == 0 {
		return ""
	}
	request, problem := fields(line)
	if request == nil {
		return problem
	}
	return t.add(request[0], request[1], request[2])
}

// columnNames are those of CSV, and the members of JSON objects.
var columnNames = [3]string{"time", "method", "path"}

const expectedColumns = "expected the columns time, method, path"

// csv returns time, method and path, or nothing for a header.
func (t *trace) csv(line []byte) (request []string, problem string) {
	record := strings.Split(string(line), ",")
	if bytes.ContainsRune(line, '"') {
		reader := csv.NewReader(bytes.NewReader(line))
		reader.TrimLeadingSpace = true
		var err error
		if record, err = reader.Read(); err != nil {
			var malformed *csv.ParseError
			errors.As(err, &malformed)
			return nil, fmt.Sprintf("not CSV (%v): %s", malformed.Err, expectedColumns)
		}
	}
	for i := range record {
		record[i] = strings.TrimSpace(record[i])
	}
	column := func(name string) int {
		return slices.IndexFunc(record, func(cell string) bool { return strings.EqualFold(cell, name) })
	}
	if len(t.times) == 0 && column(columnNames[0]) >= 0 {
		for i, name := range columnNames {
			if t.columns[i] = column(name); t.columns[i] < 0 {
				t.unreadable = true
				return nil, "the header lacks one: " + expectedColumns
			}
		}
		return nil, ""
	}
	for _, i := range t.columns {
		if i >= len(record) {
			return nil, "too few columns: " + expectedColumns
		}
		request = append(request, record[i])
	}
	return request, ""
}

func (t *trace) json(line []byte) (request []string, problem string) {
	var entry struct {
		Time         json.RawMessage
		Method, Path *string
	}
	if err := json.Unmarshal(line, &entry); err != nil || entry.Time == nil || entry.Method == nil || entry.Path == nil {
		return nil, `expected a JSON object with the members time (text or number), method and path (texts), all on one line`
	}
	return []string{strings.Trim(string(entry.Time), `"`), *entry.Method, *entry.Path}, ""
}

// add takes in a request.
func (t *trace) add(when, method, path string) (problem string) {
	at, dated, ok := parseTime(when)
	switch {
	case !ok:
		return "the time cannot be read: expected RFC 3339, such as 2026-01-02T15:04:05.5Z, or seconds (no milliseconds) since any beginning, such as 12.5"
	case len(t.times) == 0:
		t.dated = dated
	case dated != t.dated:
		return "RFC 3339 and seconds are mixed: expected times like those before"
	}
	key := address{method, path}
	queue, ok := t.queues[key]
	if !ok {
		route, err := routes.MatchAt(method, path, at)
		if err != nil {
			return fmt.Sprintf("method or path: %v", err) // which repeats neither
		}
		queue = t.load.queue(route)
		t.queues[key] = queue
	}
	t.times = append(t.times, at)
	t.load.add(0, queue)
	return ""
}

// end puts the requests in order and lets time begin with the first of them.
func (t *trace) end() (*Load, error) {
	if len(t.times) == 0 && t.load.Skipped > 0 {
		return nil, fmt.Errorf("all %d lines were skipped, the first because of this: %w", t.load.Skipped, t.load.FirstSkipped)
	}
	if len(t.times) == 0 {
		return nil, fmt.Errorf("%s: no requests: %s, or JSON objects with these members", t.name, expectedColumns)
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
