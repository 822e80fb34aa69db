package shared_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/memoryengine"
)

// wire is the connection of one process to the server. It can be cut.
type wire struct {
	server
	cut atomic.Bool
}

func (l *wire) Exchange(ctx context.Context, call *shared.Call) (*shared.Reply, error) {
	if l.cut.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return l.server.Exchange(ctx, call)
}

// holder is a process that uses a global limit.
type holder struct {
	link    *wire
	session shared.Session
	global  shared.Global
	dead    bool
	used    bool
	had     bool          // a part, so that it knows what the server knew
	late    time.Duration // end of the cut
	parts   []int         // of the latest moments, a ring
}

// die ends a process: it makes no more calls and sends no more requests.
func (u *holder) die() {
	u.dead = true
	u.link.cut.Store(true)
}

const (
	moment  = 10 * time.Millisecond
	moments = int(time.Second / moment)
)

// use records the part that may be used now, and returns the largest part of the latest second.
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

// step is one thing that happens.
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
				"need", "need", "need", "need", "join", "listen", "die", "close", "again", "cut", "quiet", "flush", "clock", "hold", "rest", "wait", "wait",
			}).Draw(t, "what"),
			Who:   rapid.IntRange(0, 7).Draw(t, "who"),
			Count: rapid.IntRange(1, 100).Draw(t, "count"),
			Time:  rapid.IntRange(0, 4000).Draw(t, "time"),
		}
	}), 5, 40).Draw(t, "steps")
}

// TestPartsNeverExceedTheLimit runs random events, and checks that all processes together may never send more than the
// limit in a second.
func TestPartsNeverExceedTheLimit(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.SampledFrom([]int{1, 2, 3, 10, 50}).Draw(rt, "limit")
		trouble := rapid.SampledFrom([]float64{0, 0.02, 0.2}).Draw(rt, "trouble")
		seed := rapid.Uint64().Draw(rt, "seed")
		steps := drawSteps(rt)
		var err error
		onStage(t, func(f *stage) {
			s := &schedule{stage: f, limit: limit, trouble: trouble, random: rand.New(rand.NewPCG(seed, 1))}
			err = s.run(steps)
		})
		if err != nil {
			rt.Fatal(err)
		}
	})
}

// A call is late, the server loses its state, and its clock steps back. By that clock the call is in time, and claims a
// part that its user has given back since.
func TestLateCallClaimsWhatOthersHave(t *testing.T) {
	steps := []step{
		{"quiet", 0, 4, 2181}, {"join", 0, 1, 3}, {"need", 0, 76, 38}, {"need", 1, 3, 0}, {"join", 0, 1, 4000}, {"wait", 0, 1, 50},
		{"flush", 0, 1, 14}, {"wait", 0, 1, 206}, {"clock", 0, 4, 286}, {"need", 0, 69, 3000},
	}
	for range 20 { // in every second one or so the same call is late
		onStage(t, func(f *stage) {
			s := &schedule{stage: f, limit: 1, trouble: 0.02, random: rand.New(rand.NewPCG(0x1a, 1))}
			require.NoError(t, s.run(steps))
		})
	}
}

type schedule struct {
	*stage
	limit   int
	trouble float64
	random  *rand.Rand
	users   []*holder
	i       int
	known   time.Duration // when everybody who lives has told a server that lost its state what it uses
	calls   int
	log     []string
}

func (s *schedule) run(steps []step) error {
	s.memory.Decide(s.fate)
	defer func() {
		for _, u := range s.users {
			u.link.cut.Store(false)
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
	l := &wire{server: s.memory}
	store, err := shared.New(l)
	require.NoError(s.t, err)
	u := &holder{link: l, session: store.Join(realClock, s.origin), parts: make([]int, moments)}
	u.global = u.session.Global("bot", limit, func() {})
	s.users = append(s.users, u)
}

func (s *schedule) do(step step) {
	u := s.users[step.Who%len(s.users)]
	now := s.now()
	s.log = append(s.log, fmt.Sprintf("%v %+v", now, step))
	// A process without a part cannot know that the server has lost its state. Processes with a part report theirs
	// within about a second.
	stranger := now < s.known
	switch step.What {
	case "join":
		if !stranger && len(s.users) < 8 {
			s.join(s.limit)
		}
	case "listen": // it has no part, whatever it does not know
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
			u.link.cut.Store(true)
			u.late = now + time.Duration(step.Count)*60*time.Millisecond
		}
	case "quiet":
		s.memory.SetQuiet(step.Count%2 == 0)
	case "flush":
		s.lose(now)
		s.memory.Flush()
	case "clock":
		s.lose(now)
		// Steps forward of less than a second may be taken for slow calls.
		skew := time.Duration(step.Count-50) * 200 * time.Millisecond
		if step.Count >= 50 {
			skew += time.Second
		}
		s.memory.StepClock(skew)
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
		if u.used && !u.had { // a stranger still
			u.die()
		}
	}
}

// watch lets time pass, and checks the parts at every moment.
func (s *schedule) watch(d time.Duration) error {
	for range int(d/moment) + 1 {
		now, total := s.now(), 0
		if s.i++; s.i%(3*moments) == 0 {
			n := s.memory.Calls()["part"]
			if n-s.calls > 3*8*len(s.users) {
				return fmt.Errorf("at %v %d calls in 3 s by %d; before: %v", now, n-s.calls, len(s.users), s.log)
			}
			s.calls = n
		}
		for _, u := range s.users {
			if !u.dead && now >= u.late {
				u.link.cut.Store(false)
			}
			total += u.use(now, s.i)
		}
		if total > s.limit {
			return fmt.Errorf("at %v up to %d of %d may be sent in a second, by %v; before: %v", now, total, s.limit, s.state(), s.log)
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
