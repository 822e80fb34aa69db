package fleet

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// ErrDead is the error of requests and calls of a dead process.
var ErrDead = errors.New("fleet: the process is dead")

// Process is one process of a fleet.
type Process struct {
	// Number is the index of the process in Fleet.Processes.
	Number int
	// Transport sends the process's requests.
	Transport *httpclient.Transport

	fleet  *Fleet
	clock  *clock          // nil: the process uses the bubble's clock
	ctx    context.Context // the context of its requests
	cancel context.CancelFunc

	mu        sync.Mutex
	dead      bool
	cut       chan struct{} // closed when the connection to the engine is restored; nil while the connection works
	suspended chan struct{} // closed when the process continues; nil while the process runs
	backlog   []func()      // each function delivers a message that came while the process was suspended
	flying    map[int64]*flight
	calls     map[string]int
}

// Request is one request as a caller makes it.
type Request struct {
	Method, Path, Body string
	Authorization      string // "": the constant Authorization
}

// Authorization is the default authorization of requests.
const Authorization = "Bot token"

// Message returns a request that sends a message to a channel.
func Message(channel int) Request {
	return Request{Method: http.MethodPost, Path: messagesOf(channel), Body: `{"content":"hello"}`}
}

// History returns a request for the messages of a channel.
func History(channel int) Request {
	return Request{Method: http.MethodGet, Path: messagesOf(channel)}
}

func messagesOf(channel int) string { return "/channels/" + strconv.Itoa(channel) + "/messages" }

// Outcome is the status or the error of a request.
type Outcome struct {
	Status int
	Err    error
	// Wait is how long Do took.
	Wait time.Duration
}

// Do sends a request and waits for its outcome.
func (p *Process) Do(ctx context.Context, r Request) Outcome {
	p.awake()
	start := p.fleet.Now()
	sequence := p.fleet.arrived(p, r)
	status, err := p.do(ctx, r, sequence)
	p.fleet.ended(sequence)
	return Outcome{Status: status, Err: err, Wait: p.fleet.Now() - start}
}

func (p *Process) do(ctx context.Context, r Request, sequence int64) (int, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(p.ctx, cancel)
	defer stop()
	var body io.Reader
	if r.Body != "" {
		body = strings.NewReader(r.Body)
	}
	request, err := http.NewRequestWithContext(ctx, r.Method, discordsim.BaseURL+r.Path, body)
	if err != nil {
		return 0, err
	}
	if r.Body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	if r.Authorization == "" {
		r.Authorization = Authorization
	}
	request.Header.Set("Authorization", r.Authorization)
	request.Header.Set(discordsim.SequenceHeader, strconv.FormatInt(sequence, 10))
	response, err := p.Transport.RoundTrip(request)
	if p.Dead() {
		return 0, ErrDead
	}
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, err
}

// Kill ends the process at once, whatever it is doing. From now on the process sends nothing, neither to Discord nor to
// the other processes. Requests that have left it are still processed, but the answers to them are lost.
func (p *Process) Kill() {
	p.Resume()
	p.mu.Lock()
	p.dead = true
	for _, f := range p.flying {
		if f.processed {
			f.cancel()
		}
	}
	p.mu.Unlock()
	p.cancel()
	p.fleet.Note("process %d is killed", p.Number)
}

// Dead reports whether the process was killed.
func (p *Process) Dead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// Cut breaks the process's connection to the engine, so that calls get no reply. If broken is false, it restores the
// connection.
func (p *Process) Cut(broken bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case broken && p.cut == nil:
		p.cut = make(chan struct{})
		p.fleet.Note("process %d is cut off from the engine", p.Number)
	case !broken && p.cut != nil:
		close(p.cut)
		p.cut = nil
		p.fleet.Note("process %d reaches the engine again", p.Number)
	}
}

// Close ends the process at once. The process tells the other processes that it ends.
func (p *Process) Close() error {
	p.fleet.Note("process %d closes", p.Number)
	defer p.fleet.Note("process %d is closed", p.Number)
	return p.Transport.Close()
}

// Shutdown ends the process when its requests have ended, or after ten seconds. The process tells the other processes
// that it ends.
func (p *Process) Shutdown() error {
	p.fleet.Note("process %d shuts down", p.Number)
	ctx, cancel := context.WithTimeout(p.ctx, 10*time.Second)
	defer cancel()
	if err := p.Transport.Shutdown(ctx); err != nil {
		return p.Close()
	}
	p.fleet.Note("process %d is shut down", p.Number)
	return nil
}

// Calls returns how many calls the process has made to the engine, by the purposes of the calls.
func (p *Process) Calls() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.calls)
}
