package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
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

// injected counts what all plays together were made of.
var injected struct {
	plays, requests, calls, lost, late, outages, deaths, cuts, faults atomic.Int64
	accepted, refused, blamed                                         atomic.Int64
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
	injected.blamed.Add(int64(report.Avoidable.Total()))
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
	case p.blames() && report.Avoidable.Total() > p.allowance():
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

// TestWhateverHappensToAFleetNothingIsLostAndNothingAvoidable plays random schedules with several processes. For half a million
// requests:
//
//	go test ./internal/fleet -run Whatever -rapid.checks=13000 -timeout 5h -v
func TestWhateverHappensToAFleetNothingIsLostAndNothingAvoidable(t *testing.T) {
	t.Cleanup(func() {
		n := &injected
		t.Logf("%d schedules, %d requests, %d accepted, %d refused (%d of them avoidable, where outages and the like are to blame), %d answers lost or failed; "+
			"%d calls, %d lost, %d late; %d outages, %d deaths, %d broken connections",
			n.plays.Load(), n.requests.Load(), n.accepted.Load(), n.refused.Load(), n.blamed.Load(), n.faults.Load(),
			n.calls.Load(), n.lost.Load(), n.late.Load(), n.outages.Load(), n.deaths.Load(), n.cuts.Load())
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
