package share

import (
	"cmp"
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
)

const (
	// authorization is the credential of all requests.
	authorization = "Bot simulated"
	// afterFailure keeps callers from asking over and over again for what is refused at once.
	afterFailure = 100 * time.Millisecond
	// patience is how long after its length a run may go on until its requests are held never to be answered. The alternative to an
	// answer that does not come is a benchmark that does not end.
	patience = time.Minute
)

// run is a scenario under way.
type run struct {
	Scenario
	options Options
	cancel  func()             // ends the run
	engine  *engine            // nil: nothing is shared
	log     *report.Log        // nil: nothing is recorded
	discord *discordsim.Server // on the loopback interface
	client  *http.Client       // to the processes
	shared  assignment         // of all processes
	places  []place
	start   time.Time

	mu       sync.Mutex
	failed   error // why it is worth nothing
	launched int
	affected [][]affected // by each accident
	requests []*request
	stalled  time.Duration // the longest that the simulator was behind
}

// place is where a process is, and then the one that comes after it. The lock is held while there is none.
type place struct {
	sync.RWMutex
	process *process
}

// request is one that was made. Times count from the start.
type request struct {
	place, bucket int
	arrived, done time.Duration
	failure       string // "": it came through
	givenUp       bool   // at the end, when its process was ended, or when interrupted
	events        []discordsim.Event
}

// runScenario runs a scenario. It stops early when the context ends. The error is about processes or an engine that do not work.
func runScenario(ctx context.Context, s Scenario, o Options) (*result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &run{Scenario: s, options: o, cancel: cancel, places: make([]place, len(s.works)), log: report.NewLog(o.Record)}
	if !s.alone {
		var err error
		if r.engine, err = openEngine(ctx, o.Redis); err != nil {
			return nil, err
		}
		defer r.engine.close()
	}
	if err := r.simulate(); err != nil {
		return nil, fmt.Errorf("simulated Discord: %w", err)
	}
	defer r.discord.Close()
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
	before, err := r.effort(ctx)
	if err != nil {
		return nil, err
	}
	r.start = time.Now()
	r.log.Start(r.start)
	r.work(ctx)
	after, err := r.effort(context.WithoutCancel(ctx))
	if err != nil {
		return nil, err
	}
	r.end()
	seen := r.discord.Report()
	r.mu.Lock() // what the simulator has not finished yet does not count
	defer r.mu.Unlock()
	if r.failed != nil {
		return nil, r.failed
	}
	result, err := r.sumUp(seen)
	if err == nil {
		result.effort = after.minus(before)
	}
	return result, err
}

// fail ends the run.
func (r *run) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = cmp.Or(r.failed, err)
	r.cancel()
}

func (r *run) simulate() (err error) {
	config := discordsim.Config{
		Rules:  []discordsim.Rule{{Method: "POST", Path: "/channels/{id}/messages", Hash: "messages", Quota: r.quota}},
		Global: discordsim.Unlimited(), Latency: latency, Seed: r.options.Seed,
	}
	r.log.Observe(&config)
	traced := config.Observe
	config.Observe = func(event discordsim.Event) {
		late := time.Since(event.At)
		r.mu.Lock()
		r.stalled = max(r.stalled, late)
		one := r.requests[event.Sequence-1]
		one.events = append(one.events, event)
		r.mu.Unlock()
		if traced != nil {
			traced(event)
		}
	}
	if r.discord, err = discordsim.New(config); err != nil {
		return err
	}
	r.shared = assignment{Application: application(), Outage: r.options.Outage}
	if r.engine != nil {
		r.shared.Engine = r.engine.url
	}
	if r.shared.Discord, err = r.discord.Listen(); err != nil {
		_ = r.discord.Close() // the reason is err
	}
	return err
}

// launch starts a process in a place.
func (r *run) launch(i int) (err error) {
	r.mu.Lock()
	number := r.launched
	r.launched++
	r.mu.Unlock()
	r.places[i].process, err = launch(number, r.shared, r.fail)
	return err
}

// replace ends a process as the function does, and starts another one in its place. Requests that come in the meantime wait for that.
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

// work makes all requests, and has accidents happen. It returns when all is done, or the context ends.
func (r *run) work(ctx context.Context) {
	longest := 2*r.options.Length + patience
	if r.accidents != nil {
		longest = r.options.Length
	}
	ctx, cancel := context.WithDeadline(ctx, r.start.Add(longest))
	defer cancel()
	var disturbing, calling sync.WaitGroup
	disturbing.Go(func() { r.disturb(ctx) })
	for i, work := range r.works {
		for _, c := range work {
			calling.Go(func() {
				if load.Pause(ctx, time.Until(r.start.Add(c.at))) == nil {
					r.call(ctx, i, c)
				}
			})
		}
	}
	calling.Wait()
	if r.accidents != nil {
		<-ctx.Done()
	}
	disturbing.Wait()
}

// call makes the requests of a caller, one after the other.
func (r *run) call(ctx context.Context, place int, c caller) {
	for n := 0; (c.count == 0 || n < c.count) && ctx.Err() == nil; n++ {
		if !r.request(ctx, place, c.bucket) && load.Pause(ctx, afterFailure) != nil {
			return
		}
	}
}

// request makes a request with the process in a place, and notes what came of it.
func (r *run) request(ctx context.Context, place, bucket int) (answered bool) {
	one := &request{place: place, bucket: bucket, arrived: time.Since(r.start)}
	r.places[place].RLock()
	by := r.places[place].process
	r.places[place].RUnlock()
	r.mu.Lock()
	r.requests = append(r.requests, one)
	sequence := len(r.requests)
	r.mu.Unlock()
	if err := r.send(ctx, by, bucket, sequence); err != nil {
		one.failure, one.givenUp = err.Error(), ctx.Err() != nil || by.wanted.Load()
	}
	one.done = time.Since(r.start)
	if r.options.Done != nil {
		r.options.Done()
	}
	return one.failure == ""
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

// effort is what the engine has done so far, if nothing happens to it.
func (r *run) effort(ctx context.Context) (effort, error) {
	if r.engine == nil || r.accidents != nil {
		return effort{}, nil
	}
	return r.engine.effort(ctx)
}
