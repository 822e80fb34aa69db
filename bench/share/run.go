package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ratelight/ratelight/bench/internal/load"
	"github.com/ratelight/ratelight/bench/internal/report"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/redistest"
)

const (
	// authorization is the credential of all requests.
	authorization = "Bot simulated"
	// patience is added to twice the length of a run. Requests without an answer by then count as never answered.
	patience = time.Minute
)

// run is a scenario in progress.
type run struct {
	*scenario
	processes []*process
	client    *http.Client
	start     time.Time

	// mu guards all fields below.
	mu      sync.Mutex
	made    []*request
	stalled time.Duration // the longest that the simulator was behind
}

// request is a request that was made. Times count from the start.
type request struct {
	process, bucket   int
	handedOver, ended time.Duration
	sent, processed   time.Duration // of the accepted attempt; 0: none
	failure           string        // "": answered
}

// errNoEngine reports that there is no engine to share limits through.
var errNoEngine = errors.New("no server to share limits through: install Redis (redis-server) or Valkey (valkey-server), or name one " +
	"that runs with -redis redis://127.0.0.1:6379")

// runScenario runs a scenario, until the context ends at most. The error reports a process or an engine that failed.
func runScenario(parent context.Context, s *scenario, c *shareCommand, done func()) (*report.Report, error) {
	ctx, fail := context.WithCancelCause(parent)
	defer fail(nil)
	assigned := assignment{Engine: c.Redis, Application: fmt.Sprintf("ratelight-bench-%x", rand.Uint64())} // nothing is shared under it yet
	if c.Redis == "" {
		engine, err := redistest.Start(ctx, redistest.Options{})
		if errors.Is(err, redistest.ErrNotInstalled) {
			return nil, errNoEngine
		}
		if err != nil {
			return nil, fmt.Errorf("start a server to share limits through: %w", err)
		}
		defer engine.Close()
		assigned.Engine = engine.URL()
	}
	r := &run{scenario: s, processes: make([]*process, len(s.works)), client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}}
	defer r.client.CloseIdleConnections()
	discord, err := discordsim.New(discordsim.Config{
		Rules:  []discordsim.Rule{{Method: "POST", Path: "/channels/{id}/messages", Hash: "messages", Quota: quota}},
		Global: discordsim.Unlimited(), Latency: latency, Seed: c.Seed, Observe: r.observe,
	})
	if err != nil {
		return nil, fmt.Errorf("simulated Discord: %w", err)
	}
	defer discord.Close()
	if assigned.Discord, err = discord.Listen(); err != nil {
		return nil, fmt.Errorf("simulated Discord: %w", err)
	}
	defer r.end()
	var launching errgroup.Group
	for i := range r.processes {
		launching.Go(func() (err error) {
			r.processes[i], err = launch(i, assigned, fail)
			return err
		})
	}
	if err := launching.Wait(); err != nil {
		return nil, err
	}
	r.work(ctx, 2*c.Length+patience, done)
	r.end()
	if ctx.Err() != nil && parent.Err() == nil {
		return nil, context.Cause(ctx)
	}
	return r.report(discord.Report(), c, parent.Err() != nil), nil
}

// observe records what the simulator did with a request.
func (r *run) observe(event discordsim.Event) {
	late := time.Since(event.At)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stalled = max(r.stalled, late)
	if one := r.made[event.Sequence-1]; event.Accepted > 0 {
		one.sent, one.processed = event.SentAt.Sub(r.start), event.At.Sub(r.start)
	}
}

// end ends all processes.
func (r *run) end() {
	var group sync.WaitGroup
	for _, p := range r.processes {
		if p != nil {
			group.Go(p.end)
		}
	}
	group.Wait()
}

// work makes all requests. It returns when all have an outcome, or the context ends.
func (r *run) work(ctx context.Context, longest time.Duration, done func()) {
	r.start = time.Now()
	ctx, cancel := context.WithDeadline(ctx, r.start.Add(longest))
	defer cancel()
	var working sync.WaitGroup
	for i, work := range r.works {
		for _, c := range work {
			working.Go(func() {
				if load.Pause(ctx, time.Until(r.start.Add(c.at))) != nil {
					return
				}
				for n := 0; n < c.count && ctx.Err() == nil; n++ {
					r.request(ctx, i, c.bucket)
					done()
				}
			})
		}
	}
	working.Wait()
}

// request makes a request with a process, and records its outcome.
func (r *run) request(ctx context.Context, process, bucket int) {
	one := &request{process: process, bucket: bucket, handedOver: time.Since(r.start)}
	r.mu.Lock()
	r.made = append(r.made, one)
	sequence := len(r.made)
	r.mu.Unlock()
	err := r.send(ctx, r.processes[process], bucket, sequence)
	r.mu.Lock()
	defer r.mu.Unlock()
	if one.ended = time.Since(r.start); err != nil {
		one.failure = err.Error()
	}
}

func (r *run) send(ctx context.Context, by *process, bucket, sequence int) error {
	url := fmt.Sprintf("http://%s/api/v10/channels/%d/messages", by.address, 900_000_000_000_000_000+bucket)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(`{"content":"hello"}`))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", authorization)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set(discordsim.SequenceHeader, strconv.Itoa(sequence))
	response, err := r.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= 300 {
		err = fmt.Errorf("status %d: %s", response.StatusCode, strings.TrimSpace(string(answer)))
	}
	return err
}

const (
	// simultaneous requests have no order: telling the engine takes so long, plus the time that the machine is behind.
	simultaneous = 5 * time.Millisecond
	// blur exceeds the differences of ways to the server, which may process simultaneous requests in any order.
	blur = 100 * time.Millisecond
)

// overtaken counts the requests that the server accepted after a later request of another process in their bucket. A
// bucket's first window does not count: until its hash is known, requests wait in each process separately.
func (r *run) overtaken() (n int) {
	byBucket := make(map[int][]*request)
	for _, one := range r.made {
		if one.processed > 0 {
			byBucket[one.bucket] = append(byBucket[one.bucket], one)
		}
	}
	for _, bucket := range byBucket {
		first := slices.MinFunc(bucket, func(a, b *request) int { return cmp.Compare(a.processed, b.processed) })
		second := first.processed + quota.Period
		slices.SortFunc(bucket, func(a, b *request) int { return cmp.Compare(a.handedOver, b.handedOver) })
		for i, earlier := range bucket {
			if slices.ContainsFunc(bucket[i+1:], func(later *request) bool {
				return later.process != earlier.process && later.handedOver-earlier.handedOver >= simultaneous+r.stalled &&
					later.processed >= second && later.processed+blur < earlier.processed
			}) {
				n++
			}
		}
	}
	return n
}
