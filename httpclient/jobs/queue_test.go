package jobs_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/discordtest"
	"github.com/ratelight/ratelight/httpclient/jobs"
	"github.com/ratelight/ratelight/httpclient/rest"
	"github.com/ratelight/ratelight/routes"
)

const create = "POST /channels/{id}/messages"

// engine is a job queue like River and asynq. Its workers take the jobs that are ready, in the order of the queue. At
// the end of each interval, the snoozed jobs that are due become ready.
type engine struct {
	policy   *jobs.Policy
	workers  int
	interval time.Duration
	work     func(ctx context.Context, job int) error

	mu      sync.Mutex
	ready   []int
	snoozed map[int]time.Time
	left    int
	snoozes int
	runs    map[int]int
	done    map[int]time.Time
	ended   chan struct{}
}

func (e *engine) run(t *testing.T, all []int) {
	e.ready, e.left = all, len(all)
	e.snoozed, e.runs, e.done = make(map[int]time.Time), make(map[int]int), make(map[int]time.Time)
	e.ended = make(chan struct{})
	e.forward(time.Now())
	var workers sync.WaitGroup
	slots := make(chan struct{}, e.workers)
	for tick := time.Now(); ; {
		select {
		case <-e.ended:
			workers.Wait()
			return
		case slots <- struct{}{}:
		}
		job, ok := e.take()
		if !ok {
			<-slots
			time.Sleep(10 * time.Millisecond)
			if time.Since(tick) >= e.interval {
				tick = time.Now()
				e.forward(tick)
			}
			continue
		}
		workers.Go(func() {
			defer func() { <-slots }()
			e.finish(t, job, e.work(e.policy.Context(t.Context()), job))
		})
		if time.Since(tick) >= e.interval {
			tick = time.Now()
			e.forward(tick)
		}
	}
}

// forward makes the snoozed jobs that are due ready, in random order (that of a map).
func (e *engine) forward(now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for job, at := range e.snoozed {
		if !at.After(now) {
			delete(e.snoozed, job)
			e.ready = append(e.ready, job)
		}
	}
}

func (e *engine) take() (job int, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.ready) == 0 {
		return 0, false
	}
	job, e.ready = e.ready[0], e.ready[1:]
	e.runs[job]++
	return job, true
}

func (e *engine) finish(t *testing.T, job int, err error) {
	d := e.policy.Decide(err)
	e.mu.Lock()
	defer e.mu.Unlock()
	switch d.Action {
	case jobs.Done:
		e.done[job] = time.Now()
		if e.left--; e.left == 0 {
			close(e.ended)
		}
	case jobs.Snooze:
		e.snoozes++
		e.snoozed[job] = time.Now().Add(d.After)
	default:
		assert.Fail(t, "neither done nor snoozed", "%v: %v", d.Action, d.Err)
		e.left--
	}
}

// newClient returns a client of a fake Discord.
func newClient(t *testing.T, server *discordtest.Server, options ...httpclient.Option) *rest.Client {
	client := rest.New("token",
		rest.WithTransport(append([]httpclient.Option{httpclient.WithBase(server.Client().Transport)}, options...)...))
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	return client
}

func sequence(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

func TestTenThousandJobsThatAreDueAtOnceLeaveAtThePaceOfTheirBucket(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute with the race detector")
	}
	t.Parallel()
	const limit = 5
	// These are the intervals of River and of asynq.
	for interval, n := range map[time.Duration]int{time.Second: 2000, 5 * time.Second: 10_000} {
		inBubble(t, fmt.Sprint(interval), func(t *testing.T) {
			server := discordtest.NewServer(t, discordtest.Window(create, limit, time.Second),
				discordtest.Latency(10*time.Millisecond))
			client := newClient(t, server)
			policy, err := jobs.New()
			require.NoError(t, err)
			e := &engine{policy: policy, workers: 50, interval: interval, work: func(ctx context.Context, _ int) error {
				_, err := client.Do(ctx, http.MethodPost, "/channels/1/messages", nil)
				return err
			}}
			start := time.Now()
			e.run(t, sequence(n))
			took, ideal := time.Since(start), time.Duration(n/limit-1)*time.Second
			t.Logf("%v, ideal %v: %.4f; %d snoozes", took, ideal, ideal.Seconds()/took.Seconds(), e.snoozes)
			assert.GreaterOrEqual(t, ideal.Seconds()/took.Seconds(), 0.97)
			assert.Empty(t, server.Avoidable())
			assert.Len(t, server.Requests(), n)
			assert.Less(t, e.snoozes, 2*n)
		})
	}
}

// The jobs of the second guild are queued after those of the first guild, and most jobs of both guilds are snoozed. The
// jobs of the second guild must not wait for those of the first.
func TestJobsOfOneGuildDoNotDelayThoseOfAnother(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const many, few, limit = 2000, 200, 5
		server := discordtest.NewServer(t, discordtest.Window(create, limit, time.Second),
			discordtest.Latency(10*time.Millisecond))
		client := newClient(t, server)
		policy, err := jobs.New()
		require.NoError(t, err)
		e := &engine{policy: policy, workers: 50, interval: time.Second, work: func(ctx context.Context, job int) error {
			channel := "1"
			if job >= many {
				channel = "2"
			}
			_, err := client.Do(ctx, http.MethodPost, "/channels/"+channel+"/messages", nil)
			return err
		}}
		start := time.Now()
		e.run(t, sequence(many+few))
		for job := many; job < many+few; job++ {
			assert.Less(t, e.done[job].Sub(start), few/limit*time.Second+2*time.Second)
		}
		assert.Empty(t, server.Avoidable())
	})
}

// This is the example of the program guild-queues-rate-limiting: each guild allows ten changes of roles in ten seconds,
// and no response shows this limit.
func TestJobsComeBackAtThePaceOfADeclaredLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const n, guilds, limit, period = 600, 2, 10, 10 * time.Second
		server := discordtest.NewServer(t, discordtest.Unlimited("*"), discordtest.Latency(10*time.Millisecond))
		client := newClient(t, server, httpclient.WithBuckets(
			buckets.WithLimit(buckets.ForRoute(routes.AddGuildMemberRole), limit, period, buckets.PerMajor())))
		policy, err := jobs.New()
		require.NoError(t, err)
		e := &engine{policy: policy, workers: 50, interval: time.Second, work: func(ctx context.Context, job int) error {
			_, err := client.Do(ctx, http.MethodPut, fmt.Sprintf("/guilds/%d/members/7/roles/8", 1+job%guilds), nil)
			return err
		}}
		start := time.Now()
		e.run(t, sequence(n))
		ideal := (n/guilds/limit - 1) * period
		assert.GreaterOrEqual(t, ideal.Seconds()/time.Since(start).Seconds(), 0.97)
		sent := make(map[string][]time.Time)
		for _, r := range server.Requests() {
			sent[r.Path] = append(sent[r.Path], r.Time)
		}
		assert.Len(t, sent, guilds)
		for _, times := range sent {
			for i := limit; i < len(times); i++ {
				assert.GreaterOrEqual(t, times[i].Sub(times[i-limit]), period)
			}
		}
	})
}
