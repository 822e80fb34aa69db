package soak

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	pause "github.com/ratelight/ratelight/bench/internal/load"
	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// offer makes the requests of a round, and returns the largest numbers of the manager that it saw meanwhile.
func (s *soak) offer(ctx context.Context, w weather) (most buckets.Stats) {
	began := time.Now()
	for minute := time.Duration(0); minute < s.length; minute += time.Minute {
		for _, offset := range s.arrivals() {
			at := minute + offset
			if at >= s.length {
				break
			}
			if pause.Pause(ctx, time.Until(began.Add(at))) != nil {
				return most
			}
			p := s.draw(s.made, w, s.botB(w, at))
			s.made++
			s.load.begin(func() { s.make(p) })
			if s.made%250 == 0 {
				now := s.look()
				most.Buckets, most.Waiting = max(most.Buckets, now.Buckets), max(most.Waiting, now.Waiting)
				most.Routes, most.Authentications = max(most.Routes, now.Routes), max(most.Authentications, now.Authentications)
			}
		}
	}
	return most
}

// arrivals draws the moments of a minute at which requests are made: most of them anywhere, the others in two bursts, larger than
// the global limit.
func (s *soak) arrivals() []time.Duration {
	moments := make([]time.Duration, 0, Rate)
	anywhere := func() time.Duration { return time.Duration(s.chance.Int64N(int64(time.Minute))) }
	for _, size := range []int{200, 100} {
		moments = append(moments, slices.Repeat([]time.Duration{anywhere()}, size)...)
	}
	for len(moments) < Rate {
		moments = append(moments, anywhere())
	}
	slices.Sort(moments)
	return moments
}

// botB returns which token the second bot uses, and has it revoked when it is time for that.
func (s *soak) botB(w weather, at time.Duration) (version int) {
	switch {
	case !w.revoked || at < part(s.length, revokedAt):
	case at >= part(s.length, replacedAt):
		s.result.Replaced = s.result.Revoked
	case s.result.Replaced == s.result.Revoked:
		s.discord.dead.Store(botToken("b", s.result.Revoked), true)
		s.result.Revoked++
	}
	return s.result.Replaced
}

// make makes one request and notes its outcome.
func (s *soak) make(p plan) {
	began := time.Now()
	ctx, cancel := p.context()
	defer cancel()
	request, err := s.request(ctx, p)
	if err != nil {
		s.load.surprise("a request that cannot be made: " + err.Error())
		return
	}
	response, err := s.client.Do(request)
	if err == nil {
		_, err = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close() // it was read
	}
	s.search.err("error", err)
	s.load.note(p, response, err, time.Since(began))
	if s.Done != nil {
		s.Done()
	}
}

func (s *soak) request(ctx context.Context, p plan) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, p.method, discordsim.BaseURL+"/api/v10"+p.path, nil)
	if err != nil {
		return nil, err
	}
	if p.authorization != "" {
		request.Header.Set("Authorization", p.authorization)
	}
	if p.body == "" {
		return request, nil
	}
	request.Header.Set("Content-Type", "application/json")
	if p.once {
		request.Header.Set("Content-Type", "application/octet-stream")
	}
	request.ContentLength = int64(len(p.body))
	request.Body = s.ledger.request(strings.NewReader(p.body))
	if !p.once {
		request.GetBody = func() (io.ReadCloser, error) { return s.ledger.request(strings.NewReader(p.body)), nil }
	}
	return request, nil
}

// tunings is how many sorts of contexts there are, beside the plain one.
const tunings = 5

// context returns the one of the request.
func (p plan) context() (context.Context, context.CancelFunc) {
	ctx := context.Background()
	switch p.tuning {
	case 1:
		ctx = buckets.ContextWithPriority(ctx)
	case 2:
		ctx = buckets.ContextWithOrdered(ctx)
	case 3:
		ctx = buckets.ContextWithMaxWait(ctx, time.Second)
	case 4:
		ctx = httpclient.ContextWithUnsafeRetries(ctx)
	case 5:
		ctx = httpclient.ContextWithoutRetries(ctx)
	}
	switch {
	case p.deadline > 0:
		return context.WithTimeout(ctx, p.deadline)
	case p.cancelled:
		ctx, cancel := context.WithCancel(ctx)
		timer := time.AfterFunc(p.cancelAfter, cancel)
		return ctx, func() {
			timer.Stop()
			cancel()
		}
	}
	return ctx, func() {}
}
