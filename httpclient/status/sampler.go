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
	// top is how many buckets, global limits, declared limits and edges are shown.
	top = 100
	// fresh is for how long a sample is used. The page asks each second, and several of them need not each have another.
	fresh = 900 * time.Millisecond
	// span is how long a sample is remembered, for the curves.
	span = 5 * time.Minute
)

// sampler takes a sample of a manager when somebody asks for it, and remembers those of the last minutes.
type sampler struct {
	manager *buckets.RESTBucketManager
	lifter  Lifter // nil: it is not known which credentials rest

	mu      sync.Mutex
	taken   time.Time // the latest sample
	history []sample  // oldest first
	text    []byte    // the latest one and the history, encoded
}

// sample is what the curves need of one moment.
type sample struct {
	at                time.Time
	waiting, inFlight int
	granted           uint64
	responses         [ratelimits.NumClasses]uint64
}

// encoded returns the latest sample and the history as JSON. It takes a sample if the latest one is not fresh; others wait for that.
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

// forget makes the next viewer get a new sample.
func (s *sampler) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = nil
}

// take takes a sample. The lock is held.
func (s *sampler) take(now time.Time) error {
	status := s.manager.Status(top)
	var resting []httpclient.RestingCredential
	if s.lifter != nil { // then it is not nil, also if there is none
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

// remember adds a sample to those of the last minutes, and returns them.
func (s *sampler) remember(now time.Time, stats *buckets.Stats) history {
	old := 0
	for old < len(s.history) && now.Sub(s.history[old].at) > span {
		old++
	}
	s.history = append(s.history[:copy(s.history, s.history[old:])],
		sample{now, stats.Waiting, stats.InFlight, stats.Granted, stats.Responses})
	return newHistory(s.history)
}

// history is samples as they are encoded: by what they tell.
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
