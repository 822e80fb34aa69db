package share

import (
	"context"
	"fmt"
	"io"
	"net/http"
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
	// afterFailure is how long a caller pauses after a failure, so that immediate failures make no busy loop.
	afterFailure = 100 * time.Millisecond
	// patience is added to twice the length of a run. Requests without an answer by then count as never answered;
	// without this bound the benchmark might not end.
	patience = time.Minute
)

// run is a scenario in progress.
type run struct {
	Scenario
	options Options
	fail    context.CancelCauseFunc // ends the run with an error
	engine  *redistest.Engine       // started for this run; nil: none
	log     *report.Log             // nil: nothing is recorded
	client  *http.Client            // to the processes
	shared  assignment              // of all processes
	places  []place
	start   time.Time

	mu       sync.Mutex
	affected [][]affected // by each accident
	requests []*request
	refused  []refusal
	stalled  time.Duration // the longest that the simulator was behind
}

// place holds a process, and later its replacement. It is locked while there is no process.
type place struct {
	sync.RWMutex
	process *process
}

// request is a request that was made. Times count from the start. For a refusal, Back is when the server sent it,
// because it is not known when the client received it.
type request struct {
	place, bucket int
	report.Passage
	sent, processed time.Duration // of the accepted attempt; 0: none
	failure         string        // no error
}

// refusal is a 429.
type refusal struct {
	at        time.Duration
	bucket    string
	avoidable bool
}

// runScenario runs a scenario, until the context ends at most. The error reports a process or an engine that failed.
func runScenario(parent context.Context, s Scenario, o Options) (*result, error) {
	ctx, fail := context.WithCancelCause(parent)
	defer fail(nil)
	r := &run{Scenario: s, options: o, fail: fail, places: make([]place, len(s.works)), log: report.NewLog(o.Record)}
	r.shared = assignment{Application: application(), Outage: o.Outage}
	if !s.alone {
		var err error
		if r.engine, r.shared.Engine, err = openEngine(ctx, o.Redis); err != nil {
			return nil, err
		}
		if r.engine != nil {
			defer r.engine.Close()
		}
	}
	discord, err := r.simulate()
	if err != nil {
		return nil, fmt.Errorf("simulated Discord: %w", err)
	}
	defer discord.Close()
	base := &http.Transport{MaxIdleConnsPerHost: 1000}
	defer base.CloseIdleConnections()
	r.client = &http.Client{Transport: base}

	defer r.end()
	var launching errgroup.Group
	for i := range r.places {
		launching.Go(func() error { return r.launch(i) })
	}
	if err := launching.Wait(); err != nil {
		return nil, err
	}
	r.start = time.Now()
	r.log.Start(r.start)
	r.work(ctx)
	r.end()
	if ctx.Err() != nil && parent.Err() == nil {
		return nil, context.Cause(ctx)
	}
	seen := discord.Report()
	r.mu.Lock() // requests that the simulator has not finished do not count
	defer r.mu.Unlock()
	return r.sumUp(seen)
}

// simulate starts the simulated Discord on the loopback interface.
func (r *run) simulate() (*discordsim.Server, error) {
	config := discordsim.Config{
		Rules:  []discordsim.Rule{{Method: "POST", Path: "/channels/{id}/messages", Hash: "messages", Quota: r.quota}},
		Global: discordsim.Unlimited(), Latency: latency, Seed: r.options.Seed,
	}
	r.log.Observe(&config)
	traced := config.Observe
	config.Observe = func(event discordsim.Event) {
		r.observe(event)
		if traced != nil {
			traced(event)
		}
	}
	discord, err := discordsim.New(config)
	if err != nil {
		return nil, err
	}
	if r.shared.Discord, err = discord.Listen(); err != nil {
		_ = discord.Close() // err is returned instead
	}
	return discord, err
}

// observe records what the simulator did with a request.
func (r *run) observe(event discordsim.Event) {
	late := time.Since(event.At)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stalled = max(r.stalled, late)
	one, send := r.requests[event.Sequence-1], report.Send{At: event.SentAt.Sub(r.start), Back: event.At.Sub(r.start), Status: event.Status}
	one.Sends = append(one.Sends, send)
	if event.Accepted > 0 {
		one.sent, one.processed = send.At, send.Back
	}
	if event.Class != discordsim.ClassNone {
		r.refused = append(r.refused, refusal{send.Back, event.Major, event.Verdict == discordsim.Avoidable})
	}
}

// launch starts a process in a place.
func (r *run) launch(i int) (err error) {
	r.places[i].process, err = launch(i, r.shared, r.fail)
	return err
}

// replace ends a process with the function, and starts another one in its place. Requests in between wait for it.
func (r *run) replace(i int, end func(*process)) error {
	r.places[i].Lock()
	defer r.places[i].Unlock()
	end(r.places[i].process)
	r.affects(i)
	return r.launch(i)
}

// end ends all processes.
func (r *run) end() {
	var group sync.WaitGroup
	for i := range r.places {
		if p := r.places[i].process; p != nil {
			group.Go(p.end)
		}
	}
	group.Wait()
}

// work makes all requests and causes the accidents. It returns when all is done, or the context ends.
func (r *run) work(ctx context.Context) {
	longest := 2*r.options.Length + patience
	if r.accidents != nil {
		longest = r.options.Length
	}
	ctx, cancel := context.WithDeadline(ctx, r.start.Add(longest))
	defer cancel()
	var working sync.WaitGroup
	if r.accidents != nil {
		working.Go(func() {
			r.disturb(ctx)
			<-ctx.Done()
		})
	}
	for i, work := range r.works {
		for _, c := range work {
			working.Go(func() {
				if load.Pause(ctx, time.Until(r.start.Add(c.at))) == nil {
					r.call(ctx, i, c)
				}
			})
		}
	}
	working.Wait()
}

// call makes the requests of a caller, one after the other.
func (r *run) call(ctx context.Context, place int, c caller) {
	for n := 0; (c.count == 0 || n < c.count) && ctx.Err() == nil; n++ {
		if !r.request(ctx, place, c.bucket) && load.Pause(ctx, afterFailure) != nil {
			return
		}
	}
}

// request makes a request with the process in a place, and records its outcome. The request is given up at the end of
// the run, when its process is ended, or when the run is interrupted.
func (r *run) request(ctx context.Context, place, bucket int) (answered bool) {
	one := &request{place: place, bucket: bucket}
	one.HandedOver = time.Since(r.start)
	r.places[place].RLock()
	by := r.places[place].process
	r.places[place].RUnlock()
	r.mu.Lock()
	r.requests = append(r.requests, one)
	sequence := len(r.requests)
	r.mu.Unlock()
	err := r.send(ctx, by, bucket, sequence)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		one.failure, one.GivenUp = err.Error(), ctx.Err() != nil || by.wanted.Load()
	}
	one.Done = time.Since(r.start)
	if last := len(one.Sends) - 1; last >= 0 {
		one.Sends[last].Back = one.Done
	}
	if r.options.Done != nil {
		r.options.Done()
	}
	return err == nil
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
