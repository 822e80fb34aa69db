package fleet

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/memoryengine"
)

// Config describes a fleet.
type Config struct {
	// Processes is the number of processes.
	Processes int
	// Discord configures the server to which the processes send. Its Observe is called as usual.
	Discord discordsim.Config
	// Store, Buckets and Transport are options for each process.
	Store     []shared.Option
	Buckets   []buckets.Option
	Transport []httpclient.Option
	// Apart means that the processes share nothing. Each process assumes that it is alone.
	Apart bool
	// Deaf means that processes get no messages. They learn only from periodic calls what other processes need.
	Deaf bool
	// Share returns the store through which a process shares limits with the others. Such a store can use another version
	// of the protocol. If Share is nil, each process uses a store of package shared with the options in Store.
	Share func(process int, engine shared.Engine) (shared.Source, error)
	// Clocks gives each process a clock of its own, which can stand still. Process.Suspend and Process.StepClock need it.
	Clocks bool
}

// Fleet has a number of processes and everything that they share.
type Fleet struct {
	Discord   *discordsim.Server
	Engine    *memoryengine.Engine
	Processes []*Process

	config Config
	epoch  time.Time
	ctx    context.Context // of all requests
	cancel context.CancelFunc
	all    sync.WaitGroup

	mu      sync.Mutex
	records []*record // one for each request; the index is the request's sequence number minus one
	notes   []note
	trips   []time.Duration
}

// New starts a fleet. Close ends it.
func New(config Config) (*Fleet, error) {
	f := &Fleet{config: config, epoch: time.Now(), Engine: memoryengine.New()}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	observe := config.Discord.Observe
	config.Discord.Observe = func(e discordsim.Event) {
		f.processed(e)
		if observe != nil {
			observe(e)
		}
	}
	var err error
	if f.Discord, err = discordsim.New(config.Discord); err != nil {
		f.Close()
		return nil, err
	}
	for range config.Processes {
		if _, err := f.Join(); err != nil {
			f.Close()
			return nil, err
		}
	}
	return f, nil
}

// Join starts one more process. own lists bucket options that only this process gets.
func (f *Fleet) Join(own ...buckets.Option) (*Process, error) {
	p := &Process{Number: len(f.Processes), fleet: f, flying: map[int64]*flight{}, calls: map[string]int{}}
	p.ctx, p.cancel = context.WithCancel(f.ctx)
	options := []buckets.Option{buckets.WithMaxRateLimit(time.Hour)}
	options = append(append(options, f.config.Buckets...), own...)
	if !f.config.Apart {
		var engine shared.Engine = &line{p}
		if f.config.Deaf {
			engine = struct{ shared.Engine }{engine}
		}
		share := f.config.Share
		if share == nil {
			share = func(_ int, engine shared.Engine) (shared.Source, error) {
				return shared.New(engine, f.config.Store...)
			}
		}
		s, err := share(p.Number, engine)
		if err != nil {
			return nil, err
		}
		options = append(options, buckets.WithShared(s))
	}
	if f.config.Clocks {
		p.clock = newClock()
		options = append(options, buckets.WithClock(p.clock))
	}
	p.Transport = httpclient.NewTransport(append([]httpclient.Option{
		httpclient.WithBase(&network{p}), httpclient.WithBuckets(options...),
	}, f.config.Transport...)...)
	f.Processes = append(f.Processes, p)
	f.Note("process %d starts", p.Number)
	return p, nil
}

// Go runs work, such as a caller that sends requests, in a separate goroutine.
func (f *Fleet) Go(work func()) { f.all.Go(work) }

// Wait waits until all functions that were started with Go have returned. It returns the time since the fleet was made.
// If the functions take longer than the duration within, Wait cancels the requests that have not ended, and the error
// says how many requests it has cancelled.
func (f *Fleet) Wait(within time.Duration) (time.Duration, error) {
	over := make(chan struct{})
	go func() {
		f.all.Wait()
		close(over)
	}()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-over:
		return f.Now(), nil
	case <-timer.C:
	}
	left := f.left()
	if left == "" { // the last requests have just ended
		<-over
		return f.Now(), nil
	}
	f.cancel()
	timer.Reset(time.Minute)
	select {
	case <-over:
	case <-timer.C:
		panic(fmt.Sprintf("fleet: requests do not end with their contexts: %s", f.left()))
	}
	return f.Now(), fmt.Errorf("fleet: after %v there is no outcome of %s", within, left)
}

// Now returns the time since the fleet was made.
func (f *Fleet) Now() time.Duration { return time.Since(f.epoch) }

// Close ends the fleet: its processes, its Discord and its engine.
func (f *Fleet) Close() {
	for _, p := range f.Processes {
		p.Resume()
	}
	f.cancel()
	f.all.Wait()
	var closing sync.WaitGroup
	for _, p := range f.Processes {
		closing.Go(func() { p.Transport.Close() })
	}
	closing.Wait()
	if f.Discord != nil {
		f.Discord.Close()
	}
	f.Engine.Close()
}

// Calls returns how many calls all processes together have made to the engine.
func (f *Fleet) Calls() (n int) {
	for _, p := range f.Processes {
		for _, count := range p.Calls() {
			n += count
		}
	}
	return n
}

// CallsPerRequest returns the number of calls to the engine for each request that Discord accepted.
func (f *Fleet) CallsPerRequest() float64 {
	return float64(f.Calls()) / float64(max(f.Discord.Report().Accepted, 1))
}
