package load

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ratelight/ratelight/bench/internal/report"
	"github.com/ratelight/ratelight/internal/discordsim"
)

const (
	// patience is longer than any named scenario takes. A request that has no answer after this time never gets one.
	patience = 3 * time.Minute
	// grace is how long requests in flight may go on after an interruption.
	grace = 2 * time.Second
	// authorization is the credential of all simulated requests.
	authorization = "Bot simulated"
)

// Settings configures a run of a scenario.
type Settings struct {
	Seed uint64
	// RealTime says that the scheduler may delay the client. The judge then allows for such delays.
	RealTime bool
	// Record makes a timeline of every request, for the page.
	Record bool
	// Connect returns the client for a simulated Discord that listens at a URL; nil: a transport in this process.
	Connect func(ctx context.Context, url string) (Client, error)
}

// Client makes the requests of a run.
type Client interface {
	// RoundTrip makes the request of a process of the scenario.
	RoundTrip(process int, request *http.Request) (*http.Response, error)
	// Close ends the waits of all requests, and what the client has started. It may be called twice.
	Close()
}

// run is a scenario in progress.
type run struct {
	*Scenario
	start  time.Time
	client Client

	// mu guards all fields below.
	mu     sync.Mutex
	handed []time.Time     // when each request was handed to the client
	queued []time.Duration // from then until the accepted attempt was sent
	result Result
}

// Run makes all requests and waits for their outcomes. When the context ends, Run makes no more requests, waits briefly
// for the requests in flight, and returns a Result with Interrupted set. The error reports an invalid scenario, or a
// client that failed.
func (s *Scenario) Run(ctx context.Context, settings Settings) (_ Result, err error) {
	r := &run{Scenario: s, handed: make([]time.Time, s.Requests()), result: newResult(s)}
	result, goroutines := &r.result, runtime.NumGoroutine()
	config := s.begin(settings)
	config.Observe = r.observe
	if settings.Record {
		result.Timeline = report.NewTimeline()
		result.Timeline.Observe(&config)
	}
	server, err := discordsim.New(config)
	if err != nil {
		return Result{}, err
	}
	defer server.Close()
	var local *inProcess
	if settings.Connect == nil {
		local = s.connect(server)
		r.client = local
	} else {
		url, err := server.Listen()
		if err != nil {
			return Result{}, err
		}
		if r.client, err = settings.Connect(ctx, url); err != nil {
			return Result{}, err
		}
	}
	stalled := WatchStalls()
	r.start = time.Now()
	r.sendAll(ctx, local)
	result.Interrupted, result.Stalled = ctx.Err() != nil, max(stalled(), result.Stalled)
	result.Queued = Quantiles(r.queued)
	if local != nil {
		result.known = local.kinds()
	}
	if s.config.Length > 0 {
		result.Leaks.measure(local) // closing the client would hide a leak
	}
	r.client.Close()
	result.seen = server.Report()
	_ = server.Close() // there is never an error
	if s.config.Length > 0 {
		result.Leaks.Goroutines = goroutinesAbove(goroutines)
	}
	result.Ideal, err = s.Ideal(result.seen)
	if result.Answered < result.Requests && result.Ideal.Missing == "" {
		result.Ideal = Ideal{Missing: "not stated, because not all requests were answered"}
	}
	return *result, err
}

// observe records when an accepted request was sent, and how late the simulator processed it.
func (r *run) observe(event discordsim.Event) {
	late := time.Since(event.At)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.Stalled = max(r.result.Stalled, late)
	if event.Accepted > 0 && event.Sequence > 0 {
		r.queued = append(r.queued, max(event.SentAt.Sub(r.handed[event.Sequence-1]), 0))
	}
}

// sendAll makes all requests, and returns when each has an outcome or is given up. In a named scenario, it makes a
// request only when the previous request is granted or queued, so that the scheduler cannot change the order of the
// requests.
func (r *run) sendAll(ctx context.Context, local *inProcess) {
	sending, cutOff := context.WithCancel(context.WithoutCancel(ctx))
	defer cutOff()
	inTurn := r.Name != "" && local != nil
	if r.Name != "" {
		patient, giveUp := context.WithTimeout(ctx, patience)
		defer giveUp()
		ctx = patient
	}
	unwatch := context.AfterFunc(ctx, func() {
		r.client.Close() // ends all waits
		_ = Pause(sending, grace)
		cutOff()
	})
	defer unwatch()
	var group sync.WaitGroup
	defer group.Wait()
	for n, offer := range r.offers {
		if r.config.Length > 0 && n == len(r.offers)/2 {
			r.result.Leaks.HeapHalfway = heap()
		}
		if Pause(ctx, time.Until(r.start.Add(offer.due))) != nil {
			return
		}
		group.Go(func() { r.send(sending, n) })
		for inTurn && local.entered() <= n && ctx.Err() == nil {
			runtime.Gosched()
		}
	}
}

// send makes one request and records its outcome.
func (r *run) send(ctx context.Context, n int) {
	if after := r.config.cancelsAfter(n); after > 0 {
		limited, cancel := context.WithTimeout(ctx, after)
		defer cancel()
		ctx = limited
	}
	r.mu.Lock()
	r.handed[n] = time.Now()
	r.mu.Unlock()
	status, err := r.roundTrip(ctx, n)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.note(status, err, time.Since(r.start))
}

func (r *run) roundTrip(ctx context.Context, n int) (status int, err error) {
	body := strings.NewReader(fmt.Sprintf(`{"content":"message %d"}`, n+1))
	request, err := http.NewRequestWithContext(ctx, r.offers[n].method, discordsim.BaseURL+r.offers[n].path, body)
	if err != nil {
		return 0, err
	}
	request.Header.Set("Authorization", authorization)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set(discordsim.SequenceHeader, strconv.Itoa(n+1))
	response, err := r.client.RoundTrip(r.offers[n].process, request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, err
}
