package limitertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// discord is a fake Discord without a network. It counts a request at the moment of the call; the trial adds the
// round-trip time.
type discord struct {
	mu       sync.Mutex // guards all fields below
	fake     *discordsim.World
	limits   map[routes.Route]discordsim.Variant // without a limit, a route's headers name none
	scripted int                                 // 429s that faults cause
}

// newDiscord returns a fake Discord with this global limit.
func newDiscord(global discordsim.Quota) *discord {
	d := &discord{limits: make(map[routes.Route]discordsim.Variant)}
	limit := func(c discordsim.Call) discordsim.Variant { return d.limits[c.Request.Value.(routes.Route)] }
	d.fake = must(discordsim.NewWorld(time.Now(), discordsim.Config{
		Default: &discordsim.Rule{Path: "**", Vary: limit}, Global: global,
		Rounding: discordsim.RoundDown, // the rounding that misleads clients most
	}))
	return d
}

// use calls f with the fake Discord.
func (d *discord) use(f func(fake *discordsim.World)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f(d.fake)
}

// seenBy converts a request to the form of the fake Discord.
func seenBy(r *buckets.Request) discordsim.Request {
	seen := discordsim.Request{
		Method: r.Route.Route().Method(), Path: r.Route.Path(), Authorization: r.Authorization, Value: r.Route.Route(),
	}
	if r.Fields != nil {
		seen.Fields = r.Fields()
	}
	return seen
}

// process counts a request now, and returns the response.
func (d *discord) process(r *buckets.Request) (response *discordsim.Response) {
	d.use(func(fake *discordsim.World) { response = fake.Handle(time.Now(), seenBy(r)) })
	return response
}

// faults replaces the faults. The request numbers in faults count all requests since the start of the case.
func (d *discord) faults(faults ...discordsim.Fault) {
	d.use(func(fake *discordsim.World) {
		for _, f := range faults {
			if f.Refuse != nil {
				d.scripted += len(f.Nth)
			}
		}
		fake.SetFaults(faults)
	})
}

// tally counts requests by outcome. refused does not include the 429s that a fault caused, but does include the 429s to
// requests that were sent during the holds after such faults.
type tally struct{ arrived, accepted, refused int }

func (d *discord) tally() (all tally) {
	d.use(func(fake *discordsim.World) {
		r := fake.Report()
		all = tally{r.Requests, r.Accepted, r.Refused.Total() - d.scripted}
	})
	return all
}

// serve runs a step with the fake Discord, and returns false if the step is none.
func (t *trial) serve(s *step) bool {
	switch {
	case s.is(`limit ([a-z-]+\d*) (fixed|sliding|leaky) (\d+)/(TIME)(?: ([a-z]+))?`): // and perhaps a hash
		quota := discordsim.Quota{
			Kind: valueOf[discordsim.Kind](s.parts[2]), Limit: number(s.parts[3]), Period: duration(s.parts[4]),
		}
		hash := cmp.Or(s.parts[5], nameOf(s.parts[1]))
		t.discord.use(func(*discordsim.World) {
			t.discord.limits[routeOf(s.parts[1]).Route()] = discordsim.Variant{Hash: hash, Quota: quota}
		})
	case s.is(`trip (TIME)(?: to (TIME))?`): // the round-trip time from now on, a fixed or a random one
		least := duration(s.parts[1])
		t.trip.Store(int64(least))
		t.jitter.Store(int64(duration(cmp.Or(s.parts[2], s.parts[1])) - least))
	case s.is(`refuse (CLASS)`): // one message is answered; the next one gets a 429 of this class, and is sent again
		t.play("send 1 message1; 50ms later")
		wait := 800*time.Millisecond + t.late(1) // longer than the next steps of a case take in real time
		t.discord.faults(refuses(t.discord.tally().arrived+1, s.parts[1], wait))
		t.play("send 1 message1+content; 50ms later")
	case s.is(`use up the global limit`): // as many messages as it allows are sent at once, each to another channel
		if t.burst(t.global, t.global); count(t.sent[len(t.sent)-t.global:]) < t.global {
			t.skip("the limiter does not send as many requests at once as its global limit allows")
		}
	case s.is(`others send (\d+) (REQUEST)`): // another client with the same credential sends them
		r := seenBy(t.newCall(s.parts[2]).request)
		t.discord.use(func(fake *discordsim.World) { fake.Consume(time.Now(), r, number(s.parts[1])) })
	case s.is(`send ([a-z]+|[1-9]\d*) (REQUEST)`): // they are sent one after the other, and again after a 429
		for _, name := range names(s.parts[1]) {
			t.named[name] = t.post(s.parts[2])
			t.settle()
		}
	case s.is(`all end within (TIME)`): // nothing that was sent still waits or is in flight then
		t.end(duration(s.parts[1]))
	case s.is(`all (granted|succeed)(?: within (TIME))?`): // all that was sent, with status 200, except what was cancelled
		if s.parts[2] != "" {
			t.end(duration(s.parts[2]))
		}
		t.succeed(t.sent, s.parts[1] == "succeed")
	case s.is(`none refused`): // Discord has seen no 429 except those of faults
		t.refused(0)
	case s.is(`at most (\d+) refused`):
		t.refused(number(s.parts[1]))
	case s.is(`in order`): // all that was sent was granted in the order of arrival, if the limiter promises Order
		t.inOrder(t.sent)
	case s.is(`full rate`): // messages with a limit of 5 in 1s can be sent at that rate, so no place has been lost
		t.fullRate()
	default:
		return false
	}
	return true
}

// post sends a request in the background.
func (t *trial) post(spec string) *call {
	c, number := t.newCall(spec), len(t.sent)
	t.sent = append(t.sent, c)
	t.start(c, func() (status int, err error) { return t.deliver(c, number) })
	return c
}

// burst sends n messages at once, to each of these channels in turn.
func (t *trial) burst(n, channels int) {
	for i := range n {
		t.post(fmt.Sprint("message", i%channels+1))
	}
	t.settle()
}

// mostAttempts is far more than a limiter needs. A request ends with an error when all these attempts got a 429.
const mostAttempts = 20

// deliver sends a request as a client with a limiter does, and sends it again after each 429. The status is 0 if no
// response arrives. Travel times are the same in every run. The number of the request is added in microseconds, so that
// requests that are sent at once do not all arrive at the same instant.
func (t *trial) deliver(c *call, number int) (status int, err error) {
	for attempt := range mostAttempts {
		lease, err := t.acquire(c)
		if err != nil {
			return 0, err
		}
		random := rand.New(rand.NewPCG(uint64(number), uint64(attempt)))
		way := func() time.Duration {
			return time.Duration(t.trip.Load()/2 + random.Int64N(max(1, t.jitter.Load()/2)))
		}
		there, back := way(), way()
		time.Sleep(there + time.Duration(number)*time.Microsecond)
		r := t.discord.process(c.request)
		time.Sleep(back + r.Delay)
		if r.Connection != discordsim.ConnectionKept {
			lease.Release()
			return 0, nil
		}
		response := ratelimits.ParseResponse(r.Status, r.Header, r.Body)
		response.Stamp = ratelimits.ParseStamp(r.Header)
		lease.Update(response)
		if response.Class == ratelimits.ClassOK {
			return r.Status, nil
		}
	}
	return http.StatusTooManyRequests, fmt.Errorf("the request was refused %d times", mostAttempts)
}

// end waits until all requests that were sent have ended, and returns how long that took. The case fails if it takes
// longer than within.
func (t *trial) end(within time.Duration) time.Duration {
	began := time.Now()
	timer := time.NewTimer(within)
	defer timer.Stop()
	for i, c := range t.sent {
		select {
		case <-c.ended:
		case <-timer.C:
			t.expect(false, "all requests were expected to be finished within %v, but number %d of %d is not; Discord saw %+v",
				within, i+1, len(t.sent), t.discord.tally())
		}
	}
	return time.Since(began)
}

// succeed expects that these requests were granted, unless they were cancelled. If answered is true, their status must
// be 200.
func (t *trial) succeed(all []*call, answered bool) {
	for i, c := range all {
		o := c.now()
		ok := o.err == nil && (o.status == http.StatusOK || !answered)
		cancelled := c.ctx.Err() != nil && errors.Is(o.err, context.Canceled)
		t.expect(ok || cancelled, "number %d of %d (%s) was expected to succeed, but has status %d, error %v",
			i+1, len(all), c.label, o.status, o.err)
	}
}

// refused expects that Discord has refused at most this many requests.
func (t *trial) refused(most int) {
	tally := t.discord.tally()
	t.expect(tally.refused <= most, "at most %d 429s were expected, because all others are avoidable; Discord saw %+v",
		most, tally)
}

// refuses returns a fault that refuses the n-th request.
func refuses(n int, class string, wait time.Duration) discordsim.Fault {
	refusal := &discordsim.Refusal{Class: valueOf[discordsim.Class](class), Wait: wait}
	return discordsim.Fault{Nth: []int{n}, Refuse: refusal}
}

// expectGrants expects that the number of granted requests is exactly want.
func (t *trial) expectGrants(all []*call, want int, because string) {
	got := count(all)
	t.expect(got == want, "%d of %d were expected to be granted (%s), but %d were", want, len(all), because, got)
}

// count returns how many calls are granted.
func count(all []*call) (n int) {
	for _, c := range all {
		if c.granted() {
			n++
		}
	}
	return n
}

// inOrder expects that requests were granted in this order, if the limiter promises Order.
func (t *trial) inOrder(all []*call) {
	slack := time.Duration(0)
	if t.realTime {
		slack = t.pause
	}
	var latest time.Time
	for i, c := range all {
		if t.without[Order] || !c.granted() { // cancelled
			continue
		}
		at := c.now().at
		t.expect(!at.Before(latest.Add(-slack)),
			"grants were expected in the order of arrival, but number %d was granted %v before one that came earlier",
			i+1, latest.Sub(at))
		latest = at
	}
}

// fullRate expects that a bucket of five per second can still be used at its full rate.
func (t *trial) fullRate() {
	t.play("2.5s later; send 10 message1")
	took := t.end(30 * time.Second)
	t.succeed(t.sent[len(t.sent)-10:], true)
	t.refused(0)
	t.expect(took < 1500*time.Millisecond+t.late(2), "10 later requests of a bucket of 5 in 1s were expected to take "+
		"little more than 1s, but took %v, so a place was not given back", took)
}
