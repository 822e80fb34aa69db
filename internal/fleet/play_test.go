package fleet_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"pgregory.net/rapid"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/fleet"
	"github.com/ratelight/ratelight/internal/memoryengine"
)

// play is one random schedule for a fleet: a load, a Discord, a server of shared limits and what goes wrong with all of
// them, drawn beforehand so that it can be shrunk and repeated.
type play struct {
	seed      uint64
	processes int
	requests  int
	channels  int
	spread    time.Duration // over which the requests arrive
	quota     discordsim.Quota
	latency   time.Duration // round trip
	jitter    time.Duration
	global    int // 0: no such limit
	world     string
	cancelled int // percent of the requests whose context ends at a random moment
	deadlines int // percent of the requests with a short deadline
	troubles  int // percent of the requests that end in a server error, without an answer, or late
	ordered   bool
	poll      time.Duration // of the garbage collector

	away    time.Duration // one way to the server of shared limits, at most
	lost    int           // percent of the calls that are lost, whose reply is lost, and that are late: each of them
	deaf    bool          // no messages
	outage  string        // what happens to that server
	from    time.Duration // when
	length  time.Duration // for how long
	policy  shared.Outage
	deaths  int  // how many processes die
	cuts    int  // how many lose their connection for a while
	leavers int  // how many are closed in the middle
	comers  int  // how many join later
	apart   bool // nothing is shared
}

func drawPlay(t *rapid.T) play {
	ms := func(name string, values ...int) time.Duration {
		return time.Duration(rapid.SampledFrom(values).Draw(t, name)) * time.Millisecond
	}
	limit := rapid.SampledFrom([]int{5, 1, 2, 10, 20}).Draw(t, "limit")
	period := ms("period", 1000, 250, 2000)
	quota := []discordsim.Quota{
		discordsim.Fixed(limit, period), discordsim.Fixed(limit, period), discordsim.Sliding(limit, period), discordsim.Leaky(limit, period),
	}[rapid.IntRange(0, 3).Draw(t, "kind")]
	percent := func(name string, values ...int) int { return rapid.SampledFrom(values).Draw(t, name) }
	p := play{
		seed:      rapid.Uint64().Draw(t, "seed"),
		processes: rapid.IntRange(2, 4).Draw(t, "processes"),
		requests:  rapid.IntRange(1, 80).Draw(t, "requests"),
		channels:  rapid.SampledFrom([]int{1, 1, 3, 10}).Draw(t, "channels"),
		spread:    ms("spread", 0, 100, 3000, 10000),
		quota:     quota,
		latency:   ms("latency", 20, 2, 100, 400),
		jitter:    ms("jitter", 1, 10, 100), // never none: at one and the same moment nobody can tell what was known before what
		global:    rapid.SampledFrom([]int{0, 50, 10, 4}).Draw(t, "global"),
		world: rapid.SampledFrom([]string{
			"plain", "plain", "plain", "unlimited", "shared", "foreign", "global block", "sub-limit", "edge", "one hash", "changing hash",
			"changing limit",
		}).Draw(t, "world"),
		cancelled: percent("cancelled", 0, 0, 10, 50),
		deadlines: percent("deadlines", 0, 0, 10, 50),
		troubles:  percent("troubles", 0, 0, 10, 50),
		ordered:   rapid.IntRange(0, 5).Draw(t, "ordered") == 5,
		poll:      ms("poll", 20000, 80000, 100),

		away:   time.Duration(rapid.SampledFrom([]int{1, 1, 5, 50}).Draw(t, "away")) * time.Millisecond,
		lost:   percent("lost", 0, 0, 2, 10),
		deaf:   rapid.IntRange(0, 3).Draw(t, "deaf") == 3,
		outage: rapid.SampledFrom([]string{"none", "none", "none", "frozen", "down", "flushed", "restarted"}).Draw(t, "outage"),
		from:   ms("from", 500, 50, 2000, 4000),
		length: ms("length", 300, 50, 1500, 4000),
		policy: rapid.SampledFrom([]shared.Outage{
			shared.OutageWait, shared.OutageWait, shared.OutageFail, shared.OutageShare, shared.OutageFull,
		}).Draw(t, "policy"),
		deaths:  rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "deaths"),
		cuts:    rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "cuts"),
		leavers: rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(t, "leavers"),
		comers:  rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(t, "comers"),
	}
	p.deaths = min(p.deaths, p.processes-1)
	return p
}

// config is the fleet of the play.
func (p play) config() fleet.Config {
	c := fleet.Config{
		Processes: p.processes,
		Discord:   p.discord(),
		Deaf:      p.deaf,
		Apart:     p.apart,
		Store:     []shared.Option{shared.WithOutage(p.policy)},
		Buckets:   []buckets.Option{buckets.WithGlobalLimit(p.global), buckets.WithPollPeriod(p.poll)},
	}
	if p.ordered {
		c.Buckets = append(c.Buckets, buckets.WithOrdered())
	}
	return c
}

func (p play) discord() discordsim.Config {
	rule := discordsim.Rule{Path: "**", Quota: p.quota, Hash: "messages"}
	c := discordsim.Config{
		Seed: p.seed, Latency: discordsim.Latency{RoundTrip: p.latency, Jitter: min(p.jitter, p.latency/2)},
		Global: discordsim.Unlimited(), Tolerance: p.tolerance(),
	}
	if p.global > 0 {
		c.Global = discordsim.Aligned(p.global, time.Second, time.Duration(p.seed%1000)*time.Millisecond)
	}
	switch p.world {
	case "changing hash":
		rule.Changes = []discordsim.Change{{At: time.Second, Hash: "other"}, {At: 3 * time.Second, Hash: "third"}}
	case "changing limit":
		other := p.quota
		other.Limit = 1 + p.quota.Limit/2
		rule.Changes = []discordsim.Change{{At: 1500 * time.Millisecond, Quota: other}, {At: 4 * time.Second, Quota: p.quota}}
	case "unlimited":
		rule.Quota = discordsim.Unlimited()
	case "shared":
		rule.Shared = &discordsim.SharedLimit{Quota: discordsim.Fixed(7, 4*time.Second)}
	case "sub-limit":
		rule.SubLimits = []discordsim.SubLimit{{Fields: []string{"name"}, Quota: discordsim.Fixed(2, 4*time.Second)}}
	case "global block":
		c.Blocks = []discordsim.GlobalBlock{{From: 500 * time.Millisecond, Until: 3 * time.Second}}
	case "edge":
		c.Edge = []discordsim.EdgeBan{{From: 500 * time.Millisecond, Until: 4 * time.Second}}
	case "foreign":
		c.Foreign = []discordsim.ForeignUse{{
			Request: discordsim.Request{Method: "POST", Path: "/channels/1/messages", Authorization: fleet.Authorization},
			Every:   max(300*time.Millisecond, 2*p.quota.Period/time.Duration(p.quota.Limit)),
		}}
		c.Global = discordsim.Unlimited()
	}
	if p.troubles > 0 {
		share := float64(p.troubles) / 400
		after := func(c discordsim.Call) bool { return c.N > 3*p.channels } // what is known before that is too little
		c.Faults = []discordsim.Fault{
			{Probability: share, When: after, Status: 502, Uncounted: true},
			{Probability: share, When: after, Connection: discordsim.ConnectionLostBefore},
			{Probability: share, When: after, Connection: discordsim.ConnectionLostAfter},
			{Probability: share, When: after, Delay: 2500 * time.Millisecond},
		}
	}
	c.Rules = []discordsim.Rule{rule}
	if p.world == "one hash" {
		get := rule
		get.Method = "GET"
		c.Rules = append([]discordsim.Rule{get}, c.Rules...)
	}
	return c
}

// tolerance is how long it may take until all processes know what one of them was told.
func (p play) tolerance() time.Duration {
	switch {
	case p.lost > 0 || p.outage != "none" || p.cuts > 0:
		return 10 * time.Second
	case p.deaf:
		return 1500*time.Millisecond + 8*p.away
	}
	return 5*time.Millisecond + 8*p.away
}

// excuse is why refusals in this world are only counted, "" if they can be blamed on the fleet.
func (p play) excuse() string {
	if (p.policy == shared.OutageShare || p.policy == shared.OutageFull) && (p.outage != "none" || p.lost > 0 || p.cuts > 0) {
		return "policy " + p.policy.String() // that is what these policies cost
	}
	switch p.world {
	case "one hash", "changing hash", "sub-limit", "edge": // no client can know which bucket it is, or processes do not share it
		return "Discord: " + p.world
	case "changing limit": // permits that were granted before stay so
		return "Discord: " + p.world
	case "shared", "foreign", "global block":
		// Who dies takes what it was told along, as an engine does that forgets, and who waits for the global limit
		// with a permit does not hear of a hold.
		if p.deaths > 0 || p.forgets() || p.global != 0 && p.global != 50 {
			return "Discord: " + p.world + ", and who knew of it is gone"
		}
	}
	return ""
}

// forgets reports that the engine loses its state.
func (p play) forgets() bool { return p.outage == "flushed" || p.outage == "restarted" }

// allowance is how many refusals may be the price of what goes wrong with the server of shared limits or with
// processes: what only one of them knew is lost with it, and one request finds out. Buckets that give back one request
// after the other are not known as exactly as others while permits wait for the global limit.
func (p play) allowance() int {
	if p.forgets() {
		return 3 + p.channels // one for each bucket
	}
	if p.lost+p.deaths+p.cuts+p.comers > 0 || p.outage != "none" || p.troubles > 0 || p.quota.Kind != discordsim.KindFixed {
		return 3
	}
	return 0
}

// patience is how long it may take at most.
func (p play) patience() time.Duration {
	windows := time.Duration(p.requests/p.quota.Limit + 2)
	d := p.spread + windows*(p.quota.Period+p.latency+p.jitter+4*p.away)*2
	if p.global > 0 {
		d += 2 * time.Second * time.Duration(p.requests) / time.Duration(p.global)
	}
	if p.world != "plain" && p.world != "unlimited" {
		d += time.Duration(p.requests) * 2 * time.Second // 2 in 4 s, one goes first, and so on
	}
	if p.troubles > 0 {
		d += time.Minute // retries
	}
	if p.ordered {
		d += time.Duration(p.requests) * (p.latency + p.jitter + 4*p.away)
	}
	d += p.from + 3*p.length
	if p.lost > 0 {
		d += time.Duration(p.requests) * time.Second
	}
	return d + 15*time.Second
}

// disturb lets everything go wrong with the server of shared limits that is to.
func (p play) disturb(f *fleet.Fleet) (stop func()) {
	chance := rand.New(rand.NewPCG(p.seed, 5))
	way := func() time.Duration { return 100*time.Microsecond + time.Duration(chance.Int64N(int64(p.away))) }
	f.Engine.Decide(func(string) memoryengine.Fate {
		fate := memoryengine.Fate{Before: way(), After: way()}
		switch n := chance.IntN(100); {
		case n < p.lost:
			fate.Lost = true
			injected.lost.Add(1)
		case n < 2*p.lost:
			fate.LostReply = true
			injected.lost.Add(1)
		case n < 3*p.lost:
			fate.Before = time.Duration(chance.Int64N(int64(4 * time.Second)))
			injected.late.Add(1)
		}
		return fate
	})
	var timers []*time.Timer
	var closing sync.WaitGroup
	at := func(d time.Duration, f func()) { timers = append(timers, time.AfterFunc(d, f)) }
	moment := rand.New(rand.NewPCG(p.seed, 6))
	later := func(d time.Duration) time.Duration { return time.Duration(moment.Int64N(int64(d))) }
	switch p.outage {
	case "frozen":
		at(p.from, func() { f.Engine.SetFrozen(true) })
		at(p.from+p.length, func() { f.Engine.SetFrozen(false) })
	case "down":
		at(p.from, func() { f.Engine.SetDown(true) })
		at(p.from+p.length, func() { f.Engine.SetDown(false) })
	case "flushed":
		at(p.from, f.Engine.Flush)
	case "restarted":
		at(p.from, func() {
			f.Engine.SetDown(true)
			f.Engine.Flush()
		})
		at(p.from+p.length, func() { f.Engine.SetDown(false) })
	}
	if p.outage != "none" {
		injected.outages.Add(1)
	}
	for i := range p.deaths {
		at(later(5*time.Second), f.Processes[i].Kill)
		injected.deaths.Add(1)
	}
	for i := range min(p.cuts, p.processes) {
		victim := f.Processes[p.processes-1-i]
		from := later(4 * time.Second)
		at(from, func() { victim.Cut(true) })
		at(from+later(6*time.Second), func() { victim.Cut(false) })
		injected.cuts.Add(1)
	}
	for range p.leavers {
		leaver := f.Processes[p.processes-1]
		at(later(4*time.Second), func() { closing.Go(func() { leaver.Transport.Close() }) })
	}
	return func() {
		for _, timer := range timers {
			timer.Stop()
		}
		closing.Wait()
		for _, process := range f.Processes {
			process.Cut(false)
		}
		f.Engine.SetFrozen(false)
		f.Engine.SetDown(false)
	}
}

func (p play) String() string {
	type plain play
	return fmt.Sprintf("%#v", plain(p))
}
