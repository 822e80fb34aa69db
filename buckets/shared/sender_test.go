package shared_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/ratelimits"
)

// sender sends requests as fast as its part of a global limit allows, as a manager does.
type sender struct {
	*process
	global shared.Global
	limit  int
	trip   time.Duration

	mu    sync.Mutex
	pacer *ratelimits.Global
	queue int
	sent  []time.Duration
	timer *time.Timer
	ended bool
}

func (w *world) sender(limit int) *sender { return w.process().sender(limit) }

func (w *world) twoSenders(limit int) (a, b *sender) { return w.sender(limit), w.sender(limit) }

func (p *process) sender(limit int) *sender {
	s := &sender{process: p, limit: limit, trip: 20 * ms, pacer: ratelimits.NewGlobal(min(limit, 1))}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.global = p.session.Global("bot", limit, s.changed)
	p.senders = append(p.senders, s)
	return s
}

func (s *sender) changed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serve()
}

// send adds n waiting requests.
func (s *sender) send(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range n {
		s.queue++
		s.serve()
	}
}

// sendAll adds n waiting requests, and requires that all of them are sent within a millisecond.
func (s *sender) sendAll(t *testing.T, n int) {
	t.Helper()
	s.send(n)
	time.Sleep(ms)
	require.Zero(t, s.waiting())
}

// sendEvenly sends one request after each pause, until d is over.
func (s *sender) sendEvenly(d, pause time.Duration) {
	for end := s.now() + d; s.now() < end; {
		s.send(1)
		time.Sleep(pause)
	}
}

// trickle makes each sender send one request a second.
func trickle(seconds int, senders ...*sender) {
	for range seconds {
		for _, s := range senders {
			s.send(1)
		}
		time.Sleep(time.Second)
	}
}

// serve sends the waiting requests that may be sent. s.mu must be held.
func (s *sender) serve() {
	for s.queue > 0 && !s.ended {
		now := s.now()
		s.pacer.Hold(now, s.global.HoldWait(now))
		part, until := s.global.Part(now)
		if s.limit > 0 && (part <= 0 || now >= until) {
			s.need(now, 0)
			return
		}
		if s.limit > 0 {
			s.pacer.Resize(part)
		}
		slot, wait := s.pacer.Take(now)
		if wait > 0 {
			s.need(now, 0)
			if s.timer != nil {
				s.timer.Stop()
			}
			s.timer = time.AfterFunc(wait, s.changed)
			return
		}
		s.queue--
		s.need(now, 1)
		s.sent = append(s.sent, now)
		time.AfterFunc(s.trip, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.pacer.Report(s.now(), slot)
			s.serve()
		})
	}
}

func (s *sender) need(now time.Duration, leaving int) {
	if s.limit > 0 {
		s.global.Need(now, s.queue, leaving)
	}
}

// part returns the part of the global limit that the sender may use now.
func (s *sender) part() int {
	now := s.now()
	part, until := s.global.Part(now)
	if now >= until {
		return 0
	}
	return part
}

func (s *sender) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue
}

// stop makes the sender send nothing more.
func (s *sender) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	if s.timer != nil {
		s.timer.Stop()
	}
}

// most returns the largest number of requests that the senders sent in any time of length d.
func most(d time.Duration, senders ...*sender) (n int) {
	var all []time.Duration
	for _, s := range senders {
		s.mu.Lock()
		all = append(all, s.sent...)
		s.mu.Unlock()
	}
	slices.Sort(all)
	for first, last := 0, 0; last < len(all); last++ {
		for all[last]-all[first] >= d {
			first++
		}
		n = max(n, last-first+1)
	}
	return n
}

const route = "POST /channels/{channel_id}/messages"

// finder discovers the bucket hash of a route, as a manager does.
type finder struct {
	*process
	shared.Discovery
	changed atomic.Int64 // number of calls of changed
}

func (w *world) finder() *finder { return w.process().finder("bot") }

func (p *process) finder(credential string) *finder {
	d := &finder{process: p}
	d.Discovery = p.session.Discovery(credential, route, func() { d.changed.Add(1) })
	return d
}

func (d *finder) ask() { d.Ask(d.now()) }

// askNow asks for the permission, and waits for the reply.
func (d *finder) askNow() {
	d.ask()
	time.Sleep(ms)
}

// may sends the probe if that is allowed, and reports whether it has sent the probe.
func (d *finder) may() bool {
	now := d.now()
	may := d.May(now)
	if may {
		d.Sent(now)
	}
	return may
}

func (d *finder) found(hash string) { d.Found(d.now(), hash) }
