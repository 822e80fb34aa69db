package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/fleet"
	"github.com/ratelight/ratelight/ratelimits"
)

// injected counts what all plays together were made of, and the avoidable 429s of each kind of play.
var injected struct {
	plays, requests, calls, lost, late, outages, deaths, cuts, faults atomic.Int64
	accepted, refused                                                 atomic.Int64

	mu     sync.Mutex
	blamed map[string]*[3]int // plays, requests, avoidable 429s; by what happened
}

// happened names what is to blame for avoidable 429s in the first place.
func (p play) happened() string {
	switch {
	case p.apart:
		return "nothing is shared"
	case p.excuse() != "":
		return "only counted: " + p.excuse()
	case p.outage != "none":
		return "engine " + p.outage
	case p.cuts > 0:
		return "processes are cut off"
	case p.deaths > 0:
		return "processes die"
	case p.lost > 0:
		return "calls are lost or late"
	case p.troubles > 0:
		return "Discord's answers are lost or late"
	case p.quota.Kind != discordsim.KindFixed:
		return "places come back one by one"
	case p.leavers+p.comers > 0:
		return "processes come or go"
	}
	return "nothing"
}

func (p play) blame(avoidable int) {
	n := &injected
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.blamed == nil {
		n.blamed = map[string]*[3]int{}
	}
	of := n.blamed[p.happened()]
	if of == nil {
		of = &[3]int{}
		n.blamed[p.happened()] = of
	}
	of[0], of[1], of[2] = of[0]+1, of[1]+p.requests, of[2]+avoidable
}

// blames is the table of them.
func blames() string {
	n := &injected
	n.mu.Lock()
	defer n.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "\n%-60s %6s %9s %9s\n", "what happened", "plays", "requests", "avoidable")
	for _, name := range slices.Sorted(maps.Keys(n.blamed)) {
		of := n.blamed[name]
		fmt.Fprintf(&b, "%-60s %6d %9d %9d\n", name, of[0], of[1], of[2])
	}
	return b.String()
}

// outcomes counts what became of the requests.
type outcomes struct {
	mu         sync.Mutex
	started    int
	ends       map[string]int
	unexpected string
}

func (o *outcomes) note(p play, r fleet.Outcome) {
	end := "broke"
	switch err := r.Err; {
	case err == nil && r.Status == http.StatusTooManyRequests:
		end = "unexpected: a 429 came through"
	case err == nil:
		end = "answered"
	case errors.Is(err, fleet.ErrDead):
		end = "died"
	case errors.As(err, new(*ratelimits.TooLongError)), errors.As(err, new(*ratelimits.EdgeError)):
		end = "refused"
	case errors.Is(err, buckets.ErrClosed):
		end = "closed"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		end = "cancelled"
	case errors.Is(err, shared.ErrOutage):
		end = "refused by the outage"
		if p.policy != shared.OutageFail || p.outage == "none" && p.lost == 0 && p.cuts == 0 {
			end = "unexpected: " + err.Error()
		}
	case p.troubles == 0:
		end = "unexpected: " + err.Error()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ends[end]++
	if len(end) > 10 && end[:10] == "unexpected" {
		o.unexpected = end
	}
}

// run plays it in virtual time and returns what is wrong with the result, "" if nothing is.
func (p play) run(t *testing.T) (problem string) {
	synctest.Test(t, func(t *testing.T) {
		problem = p.inBubble(t)
	})
	return problem
}

func (p play) inBubble(t *testing.T) string {
	f, err := fleet.New(p.config())
	require.NoError(t, err)
	defer f.Close()
	stop := p.disturb(f)
	defer stop()

	o := outcomes{ends: map[string]int{}}
	var hung error
	p.send(f, &o)
	_, hung = f.Wait(p.patience())
	report := f.Discord.Report()
	injected.plays.Add(1)
	injected.requests.Add(int64(p.requests))
	injected.calls.Add(int64(f.Calls()))
	injected.faults.Add(int64(report.Failed + report.Lost))
	injected.accepted.Add(int64(report.Accepted))
	injected.refused.Add(int64(report.Refused.Total()))
	p.blame(report.Avoidable.Total())
	ends := 0
	for _, n := range o.ends {
		ends += n
	}
	switch {
	case hung != nil:
		return hung.Error()
	case o.unexpected != "":
		return o.unexpected
	case ends != o.started:
		return fmt.Sprintf("%d requests, outcomes %v", o.started, o.ends)
	case p.excuse() == "" && report.Avoidable.Total() > p.allowance():
		return fmt.Sprintf("avoidable refusals %+v: %+v", report.Avoidable, f.Discord.Refusals())
	}
	return p.leftovers(f)
}

// leftovers returns what was not given back.
func (p play) leftovers(f *fleet.Fleet) string {
	for _, process := range f.Processes {
		if process.Dead() {
			continue
		}
		if stats := process.Transport.Manager().Stats(); stats.Waiting != 0 || stats.InFlight != 0 {
			return fmt.Sprintf("something was not given back in process %d: %+v", process.Number, stats)
		}
		for b := range process.Transport.Manager().Buckets() {
			if b.Waiting != 0 || b.InFlight != 0 {
				return fmt.Sprintf("a bucket of process %d is not empty: %+v", process.Number, b)
			}
		}
	}
	return ""
}

// send sends the requests, each from a process that is alive, unless none is.
func (p play) send(f *fleet.Fleet, o *outcomes) {
	chance := rand.New(rand.NewPCG(p.seed, 3))
	comers := p.comers
	for i := range p.requests {
		if comers > 0 && i == p.requests/2 {
			comers--
			if _, err := f.Join(); err != nil {
				panic(err)
			}
		}
		ctx, cancel := context.WithCancel(context.Background())
		if chance.IntN(100) < p.cancelled {
			time.AfterFunc(time.Duration(chance.Int64N(int64(4*time.Second))), cancel)
		} else if chance.IntN(100) < p.deadlines {
			ctx, cancel = context.WithTimeout(ctx, time.Duration(chance.Int64N(int64(2*time.Second))))
		}
		process := f.Processes[chance.IntN(len(f.Processes))]
		request := p.request(i, chance)
		o.started++
		f.Go(func() {
			defer cancel()
			o.note(p, process.Do(ctx, request))
		})
		synctest.Wait() // so that requests arrive in the order of their numbers
		if p.spread > 0 {
			time.Sleep(time.Duration(chance.Int64N(int64(p.spread) / int64(p.requests) * 2)))
		}
	}
}

func (p play) request(i int, chance *rand.Rand) fleet.Request {
	r := fleet.Message(1 + chance.IntN(p.channels))
	switch {
	case p.world == "one hash" && i%2 == 1:
		r.Method, r.Body = http.MethodGet, ""
	case p.world == "sub-limit":
		r = fleet.Request{Method: http.MethodPatch, Path: r.Path[:len(r.Path)-len("/messages")], Body: "{}"}
		if i%3 == 0 {
			r.Body = `{"name":"new"}`
		}
	}
	return r
}

// TestWhateverHappensToAFleetNothingIsLostAndNothingAvoidable plays random schedules with several processes. For half a
// million requests:
//
//	go test ./internal/fleet -run Whatever -rapid.checks=13000 -timeout 5h -v
func TestWhateverHappensToAFleetNothingIsLostAndNothingAvoidable(t *testing.T) {
	t.Cleanup(func() {
		n := &injected
		t.Logf("%d schedules, %d requests, %d accepted, %d refused, %d answers lost or failed; "+
			"%d calls, %d lost, %d late; %d outages, %d deaths, %d broken connections%s",
			n.plays.Load(), n.requests.Load(), n.accepted.Load(), n.refused.Load(), n.faults.Load(),
			n.calls.Load(), n.lost.Load(), n.late.Load(), n.outages.Load(), n.deaths.Load(), n.cuts.Load(), blames())
	})
	rapid.Check(t, func(rt *rapid.T) {
		p := drawPlay(rt)
		if problem := p.run(t); problem != "" {
			rt.Fatalf("%s\n%v", problem, p)
		}
	})
}

// A schedule has to be able to find out that something is wrong.
func TestSchedulesBlameWhatIsNotShared(t *testing.T) {
	p := play{
		seed: 1, processes: 3, requests: 60, channels: 1, quota: discordsim.Fixed(5, time.Second), latency: 20 * time.Millisecond,
		jitter: time.Millisecond, world: "plain", poll: 20 * time.Second, away: time.Millisecond, apart: true,
	}
	require.Contains(t, p.run(t), "avoidable refusals")
}
