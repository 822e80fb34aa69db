package fleet_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/fleet"
	"github.com/ratelight/ratelight/internal/memoryengine"
	"github.com/ratelight/ratelight/ratelimits"
)

// stage is one play (one simulated run) of a world: the processes of a bot, and what happens to them. Each process has
// a place and uses the channels of that place, but other processes send a part of the requests to these channels.
type stage struct {
	*fleet.Fleet
	scene
	world   *world
	sent    atomic.Int64
	trouble *rand.Rand // draws the troubles, see the file troubles_test.go

	mu       sync.Mutex
	places   []*fleet.Process // for each place, the process that uses its channels now; nil: none at the moment
	joining  sync.Mutex       // held while a process joins
	killing  sync.Mutex       // guards burstEnds
	timers   []*time.Timer
	over     bool
	lost     []time.Duration // when the engine lost its state
	troubles []interval
	cutOff   map[string]int // for paths without a response so far: number of requests that Close has cut off
	bad      string         // describes the first wrong outcome, with the events before it

	burstEnds func(place int) // called when the process of a place has sent a burst; may be nil

	counts tally
	work   sync.WaitGroup // of the troubles
}

// scene has the parameters of a play, which are drawn from its seed.
type scene struct {
	seed      uint64
	places    int
	channels  int
	strangers int // percentage of a channel's requests that other processes send
	quota     discordsim.Quota
	global    int // global limit; 0: none
	latency   time.Duration
	away      time.Duration // longest travel time to the engine
	lossy     int           // percentage of calls that are lost; as many replies are lost, and as many calls are late
	deaf      bool
	covered   bool // other processes send the requests of dead and suspended processes
	policy    shared.Outage
	length    time.Duration
	leaving   int       // percentage of the requests whose context ends early
	faulty    int       // percentage of the requests that fail, or whose response is lost or late
	ordered   bool      // each process sends the requests of a bucket one after the other
	declares  *declares // declared limits; nil: none
}

func (w *world) scene(seed uint64) scene {
	chance := rand.New(rand.NewPCG(seed, w.number()))
	pick := func(values ...int) int { return values[chance.IntN(len(values))] }
	period := time.Duration(pick(1000, 1000, 2000, 2000, 5000, 10000, 30000, 60000)) * time.Millisecond
	s := scene{
		seed: seed, places: 2 + chance.IntN(3), strangers: pick(0, 0, 2, 2, 20, 20, 70),
		quota:  discordsim.Fixed(pick(1, 2, 5, 5, 10), period),
		global: pick(0, 0, 0, 50), latency: time.Duration(pick(20, 100, 300)) * time.Millisecond,
		away: time.Duration(pick(1, 1, 10)) * time.Millisecond, deaf: chance.IntN(5) == 0, covered: chance.IntN(2) == 0,
		length: min(max(4*period, 12*time.Second), 150*time.Second),
	}
	s.channels = s.places * (1 + chance.IntN(4))
	if w.scenery != nil {
		w.scenery(&s, pick)
	}
	if w.declares {
		s.declare()
	}
	return s
}

func (s scene) String() string {
	return fmt.Sprintf("seed %d: %d processes, %d channels of %d in %v, %d %% strangers, global limit %d, "+
		"%v to Discord and back, up to %v to the engine, %d %% of calls lost, deaf %v, covered %v, policy %v, %v long, "+
		"%d %% give up, %d %% fail, ordered %v, declares %v",
		s.seed, s.places, s.channels, s.quota.Limit, s.quota.Period, s.strangers, s.global,
		s.latency, s.away, s.lossy, s.deaf, s.covered, s.policy, s.length,
		s.leaving, s.faulty, s.ordered, s.declares)
}

// play simulates a world once. It must be called in a bubble.
func (w *world) play(seed uint64) (tally, error) {
	trouble := rand.New(rand.NewPCG(seed, w.number()+1))
	s := &stage{scene: w.scene(seed), world: w, trouble: trouble, cutOff: map[string]int{}}
	config := bucket(discordsim.Rule{Quota: s.quota, Hash: "messages"})
	config.Seed, config.Latency = seed, discordsim.Latency{RoundTrip: s.latency, Jitter: s.latency / 4}
	if s.global > 0 {
		config.Global = discordsim.Aligned(s.global, time.Second, time.Duration(seed%1000)*time.Millisecond)
	}
	if s.faulty > 0 {
		config.Faults = s.faults()
	}
	if w.discord != nil {
		w.discord(&config, &s.scene)
	}
	options := append(s.declares.options(), buckets.WithGlobalLimit(s.global))
	if s.ordered {
		options = append(options, buckets.WithOrdered())
	}
	f, err := fleet.New(fleet.Config{
		Processes: s.scene.places, Apart: w.apart, Discord: config, Deaf: s.deaf, Clocks: true,
		Store: []shared.Option{shared.WithOutage(s.policy)}, Buckets: options,
	})
	if err != nil {
		return tally{}, err
	}
	defer f.Close()
	s.Fleet, s.places = f, append([]*fleet.Process(nil), f.Processes...)
	s.engine()
	ctx, cancel := context.WithCancel(context.Background())
	for channel := range s.channels {
		s.channel(ctx, channel)
	}
	if w.trouble != nil {
		w.trouble(s)
	}
	time.Sleep(s.length + s.tail(w))
	s.calm()
	cancel()
	s.work.Wait()
	if _, err := f.Wait(s.length + time.Minute); err != nil {
		return tally{}, fmt.Errorf("%v\n%w", s.scene, err)
	}
	return s.verdict(w)
}

// calm ends all troubles.
func (s *stage) calm() {
	s.mu.Lock()
	s.over = true
	for _, timer := range s.timers {
		timer.Stop()
	}
	s.mu.Unlock()
	s.Engine.SetDown(false)
	s.Engine.SetFrozen(false)
	s.joining.Lock()
	defer s.joining.Unlock()
	for _, p := range s.Processes {
		p.Cut(false)
		p.Resume()
	}
}

// engine makes calls to the engine slow, and loses some of them.
func (s *stage) engine() {
	chance := rand.New(rand.NewPCG(s.seed, 3))
	way := func() time.Duration { return 100*time.Microsecond + time.Duration(chance.Int64N(int64(s.away))) }
	s.Engine.Decide(func(string) memoryengine.Fate {
		fate := memoryengine.Fate{Before: way(), After: way()}
		switch n := chance.IntN(100); {
		case n < s.lossy:
			fate.Lost = true
		case n < 2*s.lossy:
			fate.LostReply = true
		case n < 3*s.lossy:
			fate.Before = time.Duration(chance.Int64N(int64(4 * time.Second)))
		default:
			return fate
		}
		s.count(func(t *tally) { t.late++ })
		return fate
	})
}

// channel makes the callers of a channel send requests until the play is over. They send as many as they can, or bursts
// with pauses, or single requests with pauses.
func (s *stage) channel(ctx context.Context, channel int) {
	chance := rand.New(rand.NewPCG(s.seed, 100+uint64(channel)))
	pause := func(most time.Duration) time.Duration { return time.Duration(chance.Int64N(int64(most) + 1)) }
	start := pause(2 * time.Second)
	callers := 1 + chance.IntN(2*s.quota.Limit)
	if s.declares != nil {
		callers = min(callers, 4) // because requests wait longer
	}
	style := chance.IntN(3)
	s.Go(func() {
		time.Sleep(start)
		var burst sync.WaitGroup
		for !s.ended() {
			for range callers {
				of := chance.IntN(100) < s.strangers
				by := chance.IntN(s.scene.places)
				if !of {
					by = channel % s.scene.places
				}
				gives := s.leaving > 0 && chance.IntN(100) < s.leaving
				ctx, cancel := ctx, context.CancelFunc(func() {})
				if gives {
					ctx, cancel = context.WithTimeout(ctx, pause(2*s.quota.Period))
				}
				burst.Go(func() {
					defer cancel()
					s.send(ctx, channel, by)
				})
				if style == 2 {
					time.Sleep(pause(2 * s.quota.Period / time.Duration(s.quota.Limit)))
				}
			}
			burst.Wait()
			s.burstEnded(channel % s.scene.places)
			if style == 1 {
				time.Sleep(pause(2 * s.quota.Period))
			}
		}
		burst.Wait()
	})
}

// send makes the process of a place send one request to a channel. If the play is covered, another process sends the
// requests of a dead or suspended one.
func (s *stage) send(ctx context.Context, channel, place int) {
	p := s.process(place)
	for i := 1; s.covered && (p == nil || p.Suspended()) && i < s.scene.places; i++ {
		p = s.process((place + i) % s.scene.places)
	}
	if p == nil {
		time.Sleep(50 * time.Millisecond)
		return
	}
	r := fleet.Message(1 + channel)
	if n := int(s.sent.Add(1)); s.world.request != nil {
		s.world.request(&r, n)
	}
	o := p.Do(buckets.ContextWithGroup(ctx, s.declares.group(r.Path)), r)
	switch {
	case o.Err == nil && o.Status == http.StatusOK, errors.Is(o.Err, context.Canceled), s.gaveUp(o.Err):
		if o.Wait > 30*time.Second+s.quota.Period*4+s.patience() {
			s.blame(r.Path, "a request of process %d waited for %v", p.Number, o.Wait)
		}
	case errors.Is(o.Err, fleet.ErrDead), errors.Is(o.Err, buckets.ErrClosed):
		time.Sleep(50 * time.Millisecond)
	case errors.Is(o.Err, shared.ErrOutage) && s.policy == shared.OutageFail:
		time.Sleep(100 * time.Millisecond)
	case errors.As(o.Err, new(*ratelimits.EdgeError)) && s.world.costs == "processes do not share the edge":
		time.Sleep(100 * time.Millisecond)
	case s.faulty > 0 && o.Status != http.StatusTooManyRequests:
	default:
		s.blame(r.Path, "a request of process %d: status %d, error %v", p.Number, o.Status, o.Err)
	}
}

// gaveUp reports whether a request failed because its context has ended, or would have ended before the request could
// be sent.
func (s *stage) gaveUp(err error) bool {
	return s.leaving > 0 && errors.Is(err, context.DeadlineExceeded)
}

// patience returns how much longer requests may wait in this play than in a simple one.
func (s *stage) patience() time.Duration {
	d := s.declares.patience()
	if s.ordered || s.faulty > 0 || s.world.discord != nil {
		d += time.Minute
	}
	return d
}

func (s *stage) ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

// blame records a wrong outcome, if it is the play's first one.
func (s *stage) blame(path, format string, arguments ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bad == "" {
		s.bad = fmt.Sprintf("after %v ", s.Now()) + fmt.Sprintf(format, arguments...) + "\n" + s.story(path, s.Now())
	}
}

// story lists the latest events of a channel.
func (s *stage) story(path string, until time.Duration) string {
	return s.Story(path, until-2*s.quota.Period-5*time.Second, until)
}

func (s *stage) count(add func(*tally)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	add(&s.counts)
}

// verdict counts the 429s and other events of the play. The error says what was wrong.
func (s *stage) verdict(w *world) (tally, error) {
	report := s.Discord.Report()
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counts
	c.requests, c.refused, c.calls = report.Requests, report.Refused.Total(), s.Calls()
	c.lost = len(s.lost)
	refusals := s.Refusals()
	slices.SortFunc(refusals, func(a, b fleet.Refusal) int { return cmp.Compare(a.At, b.At) })
	avoidable := map[string]int{}
	var excess []fleet.Refusal
	for _, r := range refusals {
		if r.Verdict != discordsim.Avoidable {
			continue
		}
		c.avoidable++
		losses := s.cutOff[r.Path]
		for _, at := range s.lost {
			if at <= r.At {
				losses++
			}
		}
		if avoidable[r.Path]++; avoidable[r.Path] > losses {
			excess = append(excess, r)
		}
	}
	if s.bad == "" {
		s.bad = s.leftovers()
	}
	if s.bad != "" {
		return c, fmt.Errorf("%v\n%s", s.scene, s.bad)
	}
	if w.costs == "" && s.declares != nil {
		if path, until, problem := s.declares.judge(s.Fleet, s.lost); problem != "" {
			return c, fmt.Errorf("%v\n%s\n%s", s.scene, problem, s.Story(path, until-s.declares.longest()-5*time.Second, until))
		}
	}
	if w.costs != "" {
		return c, nil
	}
	if len(excess) == 0 {
		return c, s.slow(w)
	}
	c.excess = len(excess)
	return c, fmt.Errorf("%v\n%d avoidable 429s in all, %d of them too many: a bucket may have one for each of "+
		"%d lost states, and for each of its first requests that Close has cut off\n%s",
		s.scene, c.avoidable, len(excess), c.lost, s.story(excess[0].Path, excess[0].At+s.latency))
}

// leftovers describes a request or permit that is left at the end. It returns "" if there is none.
func (s *stage) leftovers() string {
	for _, process := range s.Processes {
		if process.Dead() {
			continue
		}
		if stats := process.Transport.Manager().Stats(); stats.Waiting != 0 || stats.InFlight != 0 {
			return fmt.Sprintf("requests are left in process %d: %+v", process.Number, stats)
		}
		for b := range process.Transport.Manager().Buckets() {
			if b.Waiting != 0 || b.InFlight != 0 {
				return fmt.Sprintf("a bucket of process %d is not empty: %+v", process.Number, b)
			}
		}
	}
	return ""
}
