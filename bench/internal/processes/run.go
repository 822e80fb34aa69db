package processes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/ratelight/ratelight/bench/internal/load"
	"github.com/ratelight/ratelight/bench/internal/report"
	"github.com/ratelight/ratelight/internal/discordsim"
)

const (
	// beforeStart gives all processes the time to learn when the start is.
	beforeStart = 300 * time.Millisecond
	// patience is how long after its length a run may go on until its requests are held never to be answered. The alternative to an
	// answer that does not come is a benchmark that does not end.
	patience = time.Minute
	// sampled is how often the engine is asked for what it has done, and answersWithin how long that may take.
	sampled, answersWithin = time.Second, 300 * time.Millisecond
)

// Run runs a scenario. It stops early when the context ends; Result.Interrupted then says so. The error is about processes or an
// engine that do not work. The trace may be nil.
func Run(ctx context.Context, s Scenario, engine *Engine, settings Settings, tr *load.Trace) (Result, error) {
	r := &run{scenario: s, settings: settings, engine: engine, trace: tr, stopped: make(chan struct{})}
	if s.alone {
		r.engine = nil
	}
	works := s.work(settings)
	if s.alone {
		works = together(works)
	}
	result := Result{Scenario: s, Processes: len(works), Length: settings.Length, Errors: make(map[string]int)}
	for _, work := range works {
		result.Requests += work.requests()
	}
	if len(s.accidents) == 0 {
		var err error
		if result.Ideal, err = ideal(works); err != nil {
			return Result{}, fmt.Errorf("ideal of %s: %w", s.Name, err)
		}
	}
	r.works = works
	if err := r.simulate(); err != nil {
		return Result{}, err
	}
	defer r.server.Close()
	defer r.end()
	if err := r.open(); err != nil {
		return Result{}, err
	}
	if err := r.follow(ctx); err != nil {
		return Result{}, err
	}
	r.end() // whatever has no outcome yet is given up
	if err := r.failure(); err != nil {
		return Result{}, err
	}
	result.Interrupted = ctx.Err() != nil
	r.sumUp(&result)
	result.judge()
	return result, nil
}

// run is a scenario under way.
type run struct {
	scenario Scenario
	settings Settings
	engine   *Engine // nil: nothing is shared
	trace    *load.Trace
	server   *discordsim.Server
	discord  string
	shared   assignment // the part that is the same for all processes
	works    []Work     // by place: that of a process and of those who come in its place
	start    time.Time
	stop     sync.Once
	stopped  chan struct{} // closed when somebody wants the end

	mu       sync.Mutex
	workers  []*worker // all that there have been
	places   []*worker
	affected [][]affected // by each accident
	records  []Record
	events   []discordsim.Event
	samples  []sample
	failed   error
	stalled  time.Duration // the longest that the simulator was behind
}

// sample is what the engine had done by a time.
type sample struct {
	at     time.Duration
	effort Effort
}

// simulate starts a Discord on the loopback interface.
func (r *run) simulate() (err error) {
	config := discordsim.Config{
		Rules:  []discordsim.Rule{{Method: "POST", Path: "/channels/{id}/messages", Hash: "messages", Quota: r.scenario.limit()}},
		Global: discordsim.Unlimited(), Latency: latency, Seed: r.settings.Seed,
	}
	if r.trace != nil {
		r.trace.Simulator(&config)
	}
	others := config.Observe
	config.Observe = func(event discordsim.Event) {
		late := time.Since(event.At)
		r.mu.Lock()
		r.stalled = max(r.stalled, late)
		r.events = append(r.events, event)
		r.mu.Unlock()
		if others != nil {
			others(event)
		}
	}
	if r.server, err = discordsim.New(config); err != nil {
		return fmt.Errorf("simulated Discord: %w", err)
	}
	if r.discord, err = r.server.Listen(); err != nil {
		_ = r.server.Close() // the reason is err
		return fmt.Errorf("simulated Discord: %w", err)
	}
	return nil
}

// open starts all processes and has them begin at one moment.
func (r *run) open() error {
	r.shared = assignment{Discord: r.discord, Application: application(), Outage: r.settings.Outage}
	if r.engine != nil {
		r.shared.Engine = r.engine.URL()
	}
	r.places = make([]*worker, len(r.works))
	for place, work := range r.works {
		if _, err := r.begin(place, work); err != nil {
			return err
		}
	}
	for _, w := range r.workers {
		if err := w.awaitReady(); err != nil {
			return err
		}
	}
	r.sample()
	r.start = time.Now().Add(beforeStart)
	if r.trace != nil {
		r.trace.Start(r.start)
	}
	for _, w := range r.workers {
		w.tell(command{Start: r.start.UnixNano()})
	}
	return nil
}

// begin starts a process.
func (r *run) begin(place int, work Work) (*worker, error) {
	launch := r.settings.launch
	if launch == nil {
		launch = program(r.settings.Executable)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.shared
	a.Process, a.Work = len(r.workers), work
	w, err := start(a.Process, launch, r.record, r.halt)
	if err != nil {
		return nil, err
	}
	r.workers, r.places[place] = append(r.workers, w), w
	go w.tell(command{Work: &a})
	return w, nil
}

// launch starts a process in the place of another one, which begins at once.
func (r *run) launch(place int, work Work) error {
	w, err := r.begin(place, work)
	if err != nil {
		return err
	}
	if err := w.awaitReady(); err != nil {
		return err
	}
	w.tell(command{Start: r.start.UnixNano()})
	return nil
}

// at returns the process in a place.
func (r *run) at(place int) *worker {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.places[place]
}

func (r *run) all() []*worker {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.workers)
}

// follow returns when all is done, or the end is wanted.
func (r *run) follow(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Until(r.start)+r.longest())
	defer cancel()
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	group.Go(func() { r.sampleAll(ctx) })
	group.Go(func() { r.disturb(ctx) })
	for _, w := range r.all() {
		done := w.done
		if len(r.scenario.accidents) > 0 {
			done = nil // others come in its place, until the end
		}
		select {
		case <-done:
		case <-r.stopped:
		case <-ctx.Done():
			return nil
		}
	}
	r.sample()
	return nil
}

// longest is how long a run may take.
func (r *run) longest() time.Duration {
	if len(r.scenario.accidents) > 0 {
		return r.settings.Length
	}
	return 2*r.settings.Length + patience
}

// halt ends the run because it is worth nothing any more.
func (r *run) halt() { r.stop.Do(func() { close(r.stopped) }) }

// fail ends the run because of an error.
func (r *run) fail(err error) {
	r.mu.Lock()
	r.failed = errors.Join(r.failed, err)
	r.mu.Unlock()
	r.halt()
}

// failure is why the run is worth nothing, if it is not.
func (r *run) failure() error {
	r.mu.Lock()
	err := r.failed
	r.mu.Unlock()
	for _, w := range r.all() {
		err = errors.Join(err, w.err())
	}
	return err
}

func (r *run) end() {
	var group sync.WaitGroup
	for _, w := range r.all() {
		group.Go(w.end)
	}
	group.Wait()
}

// record is told of every request that has an outcome.
func (r *run) record(record Record) {
	r.mu.Lock()
	r.records = append(r.records, record)
	r.mu.Unlock()
	if r.trace != nil {
		passage := report.Passage{HandedOver: record.Arrived, Done: record.Done}
		for _, send := range record.Sends {
			passage.Sends = append(passage.Sends, report.Send{At: send.At, Back: send.Back, Status: send.Status})
		}
		r.trace.Passage(passage)
	}
	if r.settings.Done != nil {
		r.settings.Done()
	}
}

// sampleAll asks the engine once a second for what it has done.
func (r *run) sampleAll(ctx context.Context) {
	for n := time.Duration(0); load.Pause(ctx, time.Until(r.start.Add(n*sampled))) == nil; n++ {
		r.sample()
	}
}

// sample leaves out what the engine does not say: it may be frozen, or gone.
func (r *run) sample() {
	if r.engine == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), answersWithin)
	defer cancel()
	effort, err := r.engine.Effort(ctx)
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	at := time.Duration(0)
	if !r.start.IsZero() {
		at = time.Since(r.start)
	}
	r.samples = append(r.samples, sample{at, effort})
}

// Executable is this program.
func Executable() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program to start it again: %w", err)
	}
	return path, nil
}

// times returns the times of what f says yes to, in order.
func times[T any](all []T, f func(T) (time.Duration, bool)) (at []time.Duration) {
	for _, x := range all {
		if t, ok := f(x); ok {
			at = append(at, t)
		}
	}
	slices.Sort(at)
	return at
}
