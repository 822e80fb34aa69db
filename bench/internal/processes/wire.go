package processes

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// command is a line that a parent writes. One of its fields is set.
type command struct {
	Work  *assignment `json:"work,omitempty"`
	Start int64       `json:"start,omitempty"` // nanoseconds of the machine's clock since 1970
	End   bool        `json:"end,omitempty"`
}

// assignment is all that a child has to know.
type assignment struct {
	Process     int    `json:"process"` // which of them it is
	Discord     string `json:"discord"` // base URL
	Engine      string `json:"engine,omitempty"`
	Application string `json:"application,omitempty"`
	Outage      string `json:"outage,omitempty"`
	Work        Work   `json:"work"`
}

// message is a line that a child writes. One of its fields is set.
type message struct {
	Ready   bool    `json:"ready,omitempty"`
	Failed  string  `json:"failed,omitempty"` // why it cannot be ready
	Request *Record `json:"request,omitempty"`
	Done    bool    `json:"done,omitempty"`
}

// Record is one request that has an outcome. Times count from the common start.
type Record struct {
	Sequence int64         `json:"n"` // unique in all processes
	Bucket   int           `json:"bucket"`
	Arrived  time.Duration `json:"arrived"`
	Sends    []Send        `json:"sends,omitempty"`
	Done     time.Duration `json:"done"`
	Status   int           `json:"status,omitempty"` // 0: no answer
	Error    string        `json:"error,omitempty"`
	GivenUp  bool          `json:"given_up,omitempty"` // at the end, or when interrupted
}

// Send is one time that a request was sent.
type Send struct {
	At     time.Duration `json:"at"`
	Back   time.Duration `json:"back"`
	Status int           `json:"status,omitempty"`
}

// answered reports that the request came through.
func (r Record) answered() bool { return r.Status >= 200 && r.Status < 300 && r.Error == "" }

// sent is when it was last sent, never if it was not.
func (r Record) sent() time.Duration {
	if len(r.Sends) == 0 {
		return -1
	}
	return r.Sends[len(r.Sends)-1].At
}

// queued is how long the request was held back by the client, round trips not counted.
func (r Record) queued() (d time.Duration) {
	since := r.Arrived
	for _, send := range r.Sends {
		d += send.At - since
		since = send.Back
	}
	return d
}

// process is who made the request.
func (r Record) process() int { return int(r.Sequence / requestsEach) }

// requestsEach is above the number of requests that a process makes.
const requestsEach = 10_000_000

// longestLine is more than any line has: work of ten minutes in 640 buckets.
const longestLine = 128 << 20

// lines writes documents, one in each line. It is safe for concurrent use.
type lines struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lines) write(document any) error {
	text, err := json.Marshal(document)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err = l.w.Write(append(text, '\n'))
	return err
}

// read calls f for every line until there are no more, or one of them is not what is expected.
func read[T any](r io.Reader, f func(T)) error {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(make([]byte, 0, 64<<10), longestLine)
	for scanner.Scan() {
		var document T
		if err := json.Unmarshal(scanner.Bytes(), &document); err != nil {
			return fmt.Errorf("expected JSON in a line, got %.60q: %w", scanner.Text(), err)
		}
		f(document)
	}
	if err := scanner.Err(); errors.Is(err, bufio.ErrTooLong) {
		return fmt.Errorf("a line has more than %d bytes", longestLine)
	} else if err != nil {
		return err
	}
	return nil
}
