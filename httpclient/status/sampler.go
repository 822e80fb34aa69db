package status

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/ratelimits"
)

const (
	// top is the largest number of buckets shown. It also bounds the number of global limits, of declared limits and of
	// edges.
	top = 100
	// fresh is how long a sample is reused. Each page asks once a second, so pages that are open at the same time share
	// samples.
	fresh = 900 * time.Millisecond
	// span is how long samples are kept for the curves.
	span = 5 * time.Minute
)

// sampler takes a sample of a manager when a page asks for one, and keeps the samples of the last minutes.
type sampler struct {
	manager *buckets.RESTBucketManager
	lifter  Lifter // nil: the page lists no credentials

	mu      sync.Mutex
	taken   time.Time // when the latest sample was taken
	history []sample  // oldest first
	text    []byte    // the latest status and the history as JSON; nil if the next request must take a new sample
}

// sample has the numbers that the curves show for one moment.
type sample struct {
	at                time.Time
	waiting, inFlight int
	granted           uint64
	responses         [ratelimits.NumClasses]uint64
}

// encoded returns the latest sample and the history as JSON. If the sample is not fresh, encoded takes a new one, and
// concurrent callers wait for it.
func (s *sampler) encoded() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.text == nil || now.Sub(s.taken) >= fresh {
		if err := s.take(now); err != nil {
			return nil, err
		}
	}
	return fmt.Appendf(nil, `{"age_seconds":%.3f,%s`, now.Sub(s.taken).Seconds(), s.text[1:]), nil
}

// forget makes the next request take a new sample.
func (s *sampler) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = nil
}

// take takes a sample. s.mu must be held.
func (s *sampler) take(now time.Time) error {
	status := s.manager.Status(top)
	var resting []httpclient.RestingCredential
	if s.lifter != nil { // an empty list must not be nil, because the JSON leaves out a nil list
		resting = append([]httpclient.RestingCredential{}, s.lifter.RestingCredentials()...)
	}
	text, err := json.Marshal(struct {
		Status      buckets.Status                 `json:"status"`
		History     history                        `json:"history"`
		Credentials []httpclient.RestingCredential `json:"credentials,omitzero"`
	}{status, s.remember(now, &status.Stats), resting})
	if err != nil {
		return err
	}
	s.taken, s.text = now, text
	return nil
}

// remember adds a sample, drops samples older than span, and returns all remaining samples.
func (s *sampler) remember(now time.Time, stats *buckets.Stats) history {
	old := 0
	for old < len(s.history) && now.Sub(s.history[old].at) > span {
		old++
	}
	s.history = append(s.history[:copy(s.history, s.history[old:])],
		sample{now, stats.Waiting, stats.InFlight, stats.Granted, stats.Responses})
	return newHistory(s.history)
}

// history has the samples in the form of the JSON: one list for each number.
type history struct {
	Time     []int64             `json:"time"`
	Waiting  []int               `json:"waiting"`
	InFlight []int               `json:"in_flight"`
	Granted  []uint64            `json:"granted"`
	Refused  map[string][]uint64 `json:"refused"`
}

func newHistory(samples []sample) history {
	h := history{Refused: make(map[string][]uint64)}
	for i := range samples {
		s := &samples[i]
		h.Time = append(h.Time, s.at.UnixMilli())
		h.Waiting = append(h.Waiting, s.waiting)
		h.InFlight = append(h.InFlight, s.inFlight)
		h.Granted = append(h.Granted, s.granted)
		for class := ratelimits.ClassUser; class < ratelimits.NumClasses; class++ {
			h.Refused[class.String()] = append(h.Refused[class.String()], s.responses[class])
		}
	}
	return h
}
