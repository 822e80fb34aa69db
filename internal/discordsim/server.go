package discordsim

import (
	"container/heap"
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// ErrClosed is the error of a closed Server, for calls of its methods and for requests to it.
var ErrClosed = errors.New("discordsim: server closed")

// errConnectionLost is the client's error for a broken connection.
var errConnectionLost = errors.New("discordsim: connection reset by peer")

// Server puts a [World] behind HTTP. A request enters, travels for its inbound latency, and is processed at its
// arrival, in the order of arrivals. Then the answer travels back. A Server waits only with timers, so a Server made in
// a testing/synctest bubble uses the bubble's time. A Server is safe for concurrent use.
//
// Requests enter through ServeHTTP (any HTTP server), Listen (sockets on the loopback interface), DialContext
// (connections in memory), or RoundTripper (no connection).
type Server struct {
	config Config
	epoch  time.Time
	closed chan struct{}
	busy   sync.WaitGroup // counts travelling requests and goroutines that accept connections

	mu          sync.Mutex
	world       *World
	latency     *rand.Rand
	travelling  arrivals // requests on their way to the world
	entries     uint64
	inFlight    int
	maxInFlight int
	isClosed    bool
	memory      *memoryListener // nil before the first DialContext
	serving     []*http.Server
}

// New returns a server whose world begins now. The error wraps [ErrConfig]. Call Close when the server is no longer
// needed.
func New(config Config) (*Server, error) {
	epoch := time.Now()
	world, err := NewWorld(epoch, config)
	if err != nil {
		return nil, err
	}
	return &Server{
		config:  config,
		epoch:   epoch,
		closed:  make(chan struct{}),
		world:   world,
		latency: rand.New(rand.NewPCG(config.Seed, 2)),
	}, nil
}

// now returns the server's time. It uses only the monotonic clock, so that a step of the machine's wall clock does not
// change the server's time.
func (s *Server) now() time.Time { return s.epoch.Add(time.Since(s.epoch)) }

// Report sums up what has happened so far.
func (s *Server) Report() Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	report := s.world.Report()
	report.MaxInFlight = s.maxInFlight
	return report
}

// Events returns the latest events, or all events with Config.FullLog.
func (s *Server) Events() []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.world.Events()
}

// Refusals returns the latest events that are refusals.
func (s *Server) Refusals() []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.world.Refusals()
}

// Consume sends n foreign requests now and returns how many were accepted.
func (s *Server) Consume(request Request, n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	s.processDue(now)
	return s.world.Consume(now, request, n)
}

// journey is one request on its way through the server, with its answer.
type journey struct {
	request  Request
	sent     time.Time
	in, out  time.Duration
	arrival  time.Time
	entry    uint64    // decides the order of requests that arrive at the same time
	response *Response // nil before processing
	gone     bool      // the client gave up before the request was processed
}

// enter registers a request and draws its latency. If the error is nil, the caller must call leave later.
func (s *Server) enter() (*journey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed {
		return nil, ErrClosed
	}
	s.inFlight++
	s.maxInFlight = max(s.maxInFlight, s.inFlight)
	j := &journey{sent: s.now(), entry: s.entries}
	j.in, j.out = s.config.Latency.draw(s.latency)
	s.entries++
	return j, nil
}

func (s *Server) leave() {
	s.mu.Lock()
	s.inFlight--
	s.mu.Unlock()
}

// travel takes a request to the world, and the answer back. It blocks for the latency. If the context ends before the
// request is processed, the request is never counted. If the context ends after that, only the answer is lost.
func (s *Server) travel(ctx context.Context, j *journey, request Request) (*Response, error) {
	request.SentAt = j.sent
	j.request = request
	s.mu.Lock()
	if s.isClosed {
		s.mu.Unlock()
		return nil, ErrClosed
	}
	s.busy.Add(1)
	defer s.busy.Done()
	j.arrival = s.now().Add(j.in)
	heap.Push(&s.travelling, j)
	s.mu.Unlock()

	if err := s.wait(ctx, j.in); err != nil && s.withdraw(j) {
		return nil, err
	}
	response := s.arrive(j)
	if response.Connection == ConnectionLostBefore {
		return response, errConnectionLost
	}
	if response.handle != nil {
		s.handle(j, response)
	}
	err := s.wait(ctx, j.out+response.Delay)
	if err == nil && response.Connection == ConnectionLostAfter {
		err = errConnectionLost
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.world.Lose(response)
		return response, err
	}
	s.world.Deliver(response, s.now())
	return response, nil
}

// handle calls Fault.Handle, without a lock. If that function panics or ends the goroutine, the client never reads an
// answer.
func (s *Server) handle(j *journey, response *Response) {
	answered := false
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !answered {
			s.world.Lose(response)
			return
		}
		s.world.countInvalid(response, j.request.Address, s.world.now)
	}()
	response.handle(j.request.Value, response)
	answered = true
}

// withdraw takes a request back. It reports true if the request had not been processed yet. Such a request is never
// processed.
func (s *Server) withdraw(j *journey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	j.gone = j.response == nil
	return j.gone
}

// arrive returns the answer to a request that has arrived. First it processes all requests that have arrived by now. It
// processes them in the order and with the times of their arrivals, and not in the order in which goroutines happen to
// wake.
func (s *Server) arrive(j *journey) *Response {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.processDue(s.now())
	return j.response
}

func (s *Server) processDue(now time.Time) {
	for len(s.travelling) > 0 && !s.travelling[0].arrival.After(now) {
		j := heap.Pop(&s.travelling).(*journey)
		if !j.gone {
			j.response = s.world.Handle(j.arrival, j.request)
		}
	}
}

// wait sleeps for the duration d. It returns earlier, with an error, when the context ends or the server is closed.
func (s *Server) wait(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closed:
		return ErrClosed
	}
}

// waitForEver waits until the context ends or the server is closed, and returns the error that says which.
func (s *Server) waitForEver(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closed:
		return ErrClosed
	}
}

// Close ends the server. Requests on their way fail, and connections are closed. When Close returns, all goroutines of
// the server have ended. Report, Events and Refusals still work. A second Close has no effect.
func (s *Server) Close() error {
	s.mu.Lock()
	if s.isClosed {
		s.mu.Unlock()
		s.busy.Wait()
		return nil
	}
	s.isClosed = true
	close(s.closed)
	serving := s.serving
	s.mu.Unlock()

	var errs []error
	for _, server := range serving {
		errs = append(errs, server.Close())
	}
	s.busy.Wait()
	return errors.Join(errs...)
}

// arrivals is a heap of journeys by the time of arrival.
type arrivals []*journey

func (a arrivals) Len() int { return len(a) }

func (a arrivals) Less(i, j int) bool {
	if !a[i].arrival.Equal(a[j].arrival) {
		return a[i].arrival.Before(a[j].arrival)
	}
	return a[i].entry < a[j].entry
}

func (a arrivals) Swap(i, j int) { a[i], a[j] = a[j], a[i] }

func (a *arrivals) Push(x any) { *a = append(*a, x.(*journey)) }

func (a *arrivals) Pop() any {
	last := len(*a) - 1
	j := (*a)[last]
	(*a)[last] = nil
	*a = (*a)[:last]
	return j
}
