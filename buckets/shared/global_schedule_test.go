package shared_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/memoryengine"
)

// holder is a process that uses a global limit.
type holder struct {
	*process
	global shared.Global
	dead   bool
	used   bool
	had    bool          // whether the process has had a part, so that it knows the division
	late   time.Duration // until then the calls of the process are blocked
	parts  []int         // the parts at the latest moments, as a ring
}

// die ends a process that does not report its end.
func (u *holder) die() {
	u.dead = true
	u.link.block(true)
}

const (
	moment  = 10 * time.Millisecond
	moments = int(time.Second / moment)
)

// use records the part that the process may use now, and returns the largest part that it had in the latest second.
func (u *holder) use(now time.Duration, i int) (latest int) {
	part := 0
	if !u.dead {
		var until time.Duration
		if part, until = u.global.Part(now); now >= until {
			part = 0
		}
	}
	u.parts[i%moments] = part
	u.had = u.had || part > 0
	for _, p := range u.parts {
		latest = max(latest, p)
	}
	return latest
}

// step is one event and the wait after it.
type step struct {
	What  string
	Who   int
	Count int
	Time  int // ms
}

func drawSteps(t *rapid.T) []step {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		return step{
			What: rapid.SampledFrom([]string{
				"need", "need", "need", "need", "join", "listen", "die", "close", "again",
				"cut", "quiet", "flush", "clock", "hold", "wait", "wait", "wait",
			}).Draw(t, "what"),
			Who:   rapid.IntRange(0, 7).Draw(t, "who"),
			Count: rapid.IntRange(1, 100).Draw(t, "count"),
			Time:  rapid.IntRange(0, 4000).Draw(t, "time"),
		}
	}), 5, 40).Draw(t, "steps")
}

// Whatever happens, the sum of all parts that are valid within one second must not exceed the limit.
func TestPartsNeverExceedTheLimit(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.SampledFrom([]int{1, 2, 3, 10, 50}).Draw(rt, "limit")
		trouble := rapid.SampledFrom([]float64{0, 0.02, 0.2}).Draw(rt, "trouble")
		seed := rapid.Uint64().Draw(rt, "seed")
		steps := drawSteps(rt)
		var err error
		atOnce(t, func(w *world) {
			s := &schedule{world: w, limit: limit, trouble: trouble, random: rand.New(rand.NewPCG(seed, 1))}
			err = s.run(steps)
		})
		if err != nil {
			rt.Fatal(err)
		}
	})
}

// Each of these schedules went wrong in an earlier version.
func TestMendedSchedules(t *testing.T) {
	for name, c := range map[string]struct {
		trouble float64
		seed    uint64
		plays   int
		steps   []step
	}{
		// After a step of the server's clock, more than the limit cools down. When the first amount had cooled down, nothing
		// was free, but a process called the server every few milliseconds.
		"more than the limit cools down": {0, 0, 1, []step{
			{"need", 0, 1, 732}, {"need", 2, 83, 2256}, {"quiet", 7, 9, 215}, {"listen", 6, 1, 8}, {"clock", 0, 29, 1800},
			{"need", 0, 2, 7},
		}},
		// A part is given to two processes. A call is late. Before the call arrives, the server loses its state, and the
		// server's clock is set back, so that the call is not late by this clock. The call claims a part that its process has
		// returned meanwhile.
		"late call": {0.02, 0x1a, 20, []step{ // whether the call is late depends on the order of goroutines
			{"quiet", 0, 4, 2181}, {"join", 0, 1, 3}, {"need", 0, 76, 38}, {"need", 1, 3, 0}, {"join", 0, 1, 4000},
			{"wait", 0, 1, 50}, {"flush", 0, 1, 14}, {"wait", 0, 1, 206}, {"clock", 0, 4, 286}, {"need", 0, 69, 3000},
		}},
		// A part is given to two processes: the server loses the division just before a second process needs a part.
		"new process": {0, 0, 1, []step{
			{"need", 0, 1, 1027}, {"join", 1, 2, 1993}, {"need", 5, 1, 759}, {"need", 7, 100, 3923}, {"need", 7, 65, 3158},
			{"flush", 0, 1, 0}, {"need", 0, 47, 13},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			for range c.plays {
				atOnce(t, func(w *world) {
					s := &schedule{world: w, limit: 1, trouble: c.trouble, random: rand.New(rand.NewPCG(c.seed, 1))}
					require.NoError(t, s.run(c.steps))
				})
			}
		})
	}
}

type schedule struct {
	*world
	limit   int
	trouble float64
	random  *rand.Rand
	users   []*holder
	i       int
	known   time.Duration // when all living processes have reported their parts after the latest loss
	calls   int
	log     []string
}

func (s *schedule) run(steps []step) error {
	s.server.Decide(s.fate)
	defer func() {
		for _, u := range s.users {
			u.link.block(false)
			u.session.Close()
		}
	}()
	s.join(s.limit)
	for _, step := range steps {
		s.do(step)
		if err := s.watch(time.Duration(step.Time) * time.Millisecond); err != nil {
			return err
		}
	}
	return s.watch(5 * time.Second)
}

func (s *schedule) fate(string) memoryengine.Fate {
	var fate memoryengine.Fate
	fate.Before = time.Duration(s.random.IntN(20)) * time.Millisecond
	fate.After = time.Duration(s.random.IntN(20)) * time.Millisecond
	switch p := s.random.Float64(); {
	case p < s.trouble/4:
		fate.Lost = true
	case p < s.trouble/2:
		fate.LostReply = true
	case p < s.trouble*3/4:
		fate.Before = time.Duration(s.random.IntN(5000)) * time.Millisecond
	case p < s.trouble:
		fate.After = time.Duration(s.random.IntN(1000)) * time.Millisecond
	}
	return fate
}

func (s *schedule) join(limit int) {
	u := &holder{process: s.process(), parts: make([]int, moments)}
	u.global = u.session.Global("bot", limit, func() {})
	s.users = append(s.users, u)
}

func (s *schedule) do(step step) {
	u := s.users[step.Who%len(s.users)]
	now := s.now()
	s.log = append(s.log, fmt.Sprintf("%v %+v", now, step))
	// A process that does not know the division cannot notice that the server has lost the division. Other processes
	// report the loss within seconds. Until then the test lets no process without a part begin to use one.
	stranger := now < s.known
	switch step.What {
	case "join":
		if !stranger && len(s.users) < 8 {
			s.join(s.limit)
		}
	case "listen": // a process without a limit has no part
		if len(s.users) < 8 {
			s.join(0)
		}
	case "need":
		if !u.dead && (u.had || !stranger) {
			u.used = true
			u.global.Need(now, step.Count-1, 1)
		}
	case "die":
		u.die()
	case "close":
		if !stranger {
			u.global.Close()
			u.had = false
		}
	case "again":
		if !u.dead && !stranger {
			u.global.Close()
			u.had = false
			u.global = u.session.Global("bot", s.limit, func() {})
		}
	case "cut":
		if !u.dead {
			u.link.block(true)
			u.late = now + time.Duration(step.Count)*60*time.Millisecond
		}
	case "quiet":
		s.server.SetQuiet(step.Count%2 == 0)
	case "flush":
		s.lose(now)
		s.server.Flush()
	case "clock":
		s.lose(now)
		// If the clock is set forward by less than a second, processes may take this for slow calls.
		skew := time.Duration(step.Count-50) * 200 * time.Millisecond
		if step.Count >= 50 {
			skew += time.Second
		}
		s.server.StepClock(skew)
	case "hold":
		if stranger && !u.had {
			break
		}
		u.used = true
		u.global.Hold(now, time.Duration(step.Count)*10*time.Millisecond)
	}
}

func (s *schedule) lose(now time.Duration) {
	s.known = now + 6*time.Second
	for _, u := range s.users {
		u.late = now
		if u.used && !u.had { // the process does not know the division
			u.die()
		}
	}
}

// watch waits for d. During this time it checks the parts and the number of calls.
func (s *schedule) watch(d time.Duration) error {
	for range int(d/moment) + 1 {
		now, total := s.now(), 0
		if s.i++; s.i%(3*moments) == 0 {
			n := s.server.Calls()["part"]
			if n-s.calls > 3*8*len(s.users) {
				return fmt.Errorf("at %v: %d calls in 3 s by %d processes; events before: %v", now, n-s.calls, len(s.users), s.log)
			}
			s.calls = n
		}
		for _, u := range s.users {
			if !u.dead && now >= u.late {
				u.link.block(false)
			}
			total += u.use(now, s.i)
		}
		if total > s.limit {
			return fmt.Errorf("at %v: up to %d of %d requests may be sent in a second, by %v; events before: %v",
				now, total, s.limit, s.state(), s.log)
		}
		time.Sleep(moment)
	}
	return nil
}

func (s *schedule) state() (parts []int) {
	for _, u := range s.users {
		latest := 0
		for _, p := range u.parts {
			latest = max(latest, p)
		}
		parts = append(parts, latest)
	}
	return parts
}
