package buckets

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

type model struct {
	mu      sync.Mutex
	kind    string
	limit   int
	period  time.Duration
	end     time.Time
	used    int
	log     []time.Time
	full    time.Time
	refused int
}

func (s *model) do() (int, http.Header) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	h := http.Header{}
	set := func(remaining int, after time.Duration) {
		h.Set("X-RateLimit-Bucket", "abc")
		h.Set("X-RateLimit-Limit", strconv.Itoa(s.limit))
		h.Set("X-RateLimit-Remaining", strconv.Itoa(remaining))
		h.Set("X-RateLimit-Reset-After", fmt.Sprintf("%.3f", after.Seconds()))
	}
	refuse := func(retry, after time.Duration) (int, http.Header) {
		s.refused++
		set(0, after)
		h.Set("Retry-After", fmt.Sprintf("%.3f", retry.Seconds()))
		h.Set("X-RateLimit-Scope", "user")
		return 429, h
	}
	switch s.kind {
	case "fixed":
		if !now.Before(s.end) {
			s.end, s.used = now.Add(s.period), 0
		}
		if s.used >= s.limit {
			return refuse(s.end.Sub(now), s.end.Sub(now))
		}
		s.used++
		set(s.limit-s.used, s.end.Sub(now))
	case "log":
		for len(s.log) > 0 && !s.log[0].Add(s.period).After(now) {
			s.log = s.log[1:]
		}
		if len(s.log) >= s.limit {
			return refuse(s.log[0].Add(s.period).Sub(now), s.log[len(s.log)-1].Add(s.period).Sub(now))
		}
		s.log = append(s.log, now)
		set(s.limit-len(s.log), s.period)
	case "leaky":
		slot := s.period / time.Duration(s.limit)
		if s.full.Before(now) {
			s.full = now
		}
		if s.full.Sub(now) > slot*time.Duration(s.limit-1) {
			return refuse(s.full.Sub(now)-slot*time.Duration(s.limit-1), s.full.Sub(now))
		}
		s.full = s.full.Add(slot)
		lvl := s.full.Sub(now)
		set(s.limit-int((lvl+slot-1)/slot), lvl)
	}
	return 200, h
}

func TestSmoke(t *testing.T) {
	for _, kind := range []string{"fixed", "log", "leaky"} {
		for _, c := range []struct {
			limit    int
			period   time.Duration
			lat, jit time.Duration
			n        int
		}{{5, time.Second, 10 * time.Millisecond, 5 * time.Millisecond, 200}, {50, time.Second, 50 * time.Millisecond, 5 * time.Millisecond, 1000}, {1, time.Second, 10 * time.Millisecond, 5 * time.Millisecond, 30}, {5, 100 * time.Millisecond, 150 * time.Millisecond, 50 * time.Millisecond, 200}, {2, 2 * time.Second, 10 * time.Millisecond, 5 * time.Millisecond, 60}, {5, time.Second, 0, 0, 200}} {
			synctest.Test(t, func(t *testing.T) {
				m := NewRESTBucketManager(WithMaxRateLimit(time.Hour), WithGlobalLimit(0))
				m.Start()
				defer m.Close()
				s := &model{kind: kind, limit: c.limit, period: c.period}
				route, _ := routes.Match("POST", "/channels/1/messages")
				start := time.Now()
				var wg sync.WaitGroup
				for range c.n {
					wg.Add(1)
					go func() {
						defer wg.Done()
						r := Request{Route: route, Authorization: "Bot x"}
						for {
							l, err := m.AcquireRequest(context.Background(), &r)
							if err != nil {
								t.Error(err)
								return
							}
							lat := func() time.Duration { return c.lat + time.Duration((rand.Float64()*2-1)*float64(c.jit)) }
							time.Sleep(lat())
							st, h := s.do()
							time.Sleep(lat())
							l.Update(ratelimits.ParseResponse(st, h, nil))
							if st != 429 {
								return
							}
						}
					}()
				}
				wg.Wait()
				el := time.Since(start)
				var omni, cert time.Duration
				cyc := (c.n+c.limit-1)/c.limit - 1
				switch kind {
				case "leaky":
					omni = time.Duration(c.n-c.limit) * c.period / time.Duration(c.limit)
				default:
					omni = time.Duration(cyc) * c.period
				}
				rtt := 2 * (c.lat - c.jit)
				cert = time.Duration(cyc) * (c.period + rtt)
				if kind == "leaky" {
					cert = omni
				}
				var snap BucketSnapshot
				for b := range m.Buckets() {
					if b.Hash != UnknownHash {
						snap = b
					}
				}
				t.Logf("%-6s %v/%v lat %v: %v omni %.3f certain %.3f 429s %d kind %v", kind, c.limit, c.period, c.lat, el, omni.Seconds()/el.Seconds(), (cert+2*rtt).Seconds()/el.Seconds(), s.refused, snap.Kind)
			})
		}
	}
}
