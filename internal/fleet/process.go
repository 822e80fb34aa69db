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

// ErrDead is what becomes of a request of a dead process.
var ErrDead = errors.New("fleet: the process is dead")

// Process is one of a fleet.
type Process struct {
	// Number counts from 0.
	Number int
	// Transport is what it sends with.
	Transport *httpclient.Transport

	fleet  *Fleet
	clock  *clock          // nil: that of the bubble
	ctx    context.Context // of its requests
	cancel context.CancelFunc

	mu        sync.Mutex
	dead      bool
	cut       chan struct{} // closed when the connection is back, nil while it is there
	suspended chan struct{} // closed when it goes on, nil while it does
	backlog   []func()      // messages that came meanwhile
	flying    map[int64]*flight
	calls     map[string]int
}

// Request is one request as a caller makes it.
type Request struct {
	Method, Path, Body string
	Authorization      string // a usual one if empty
}

// Authorization is the usual one.
const Authorization = "Bot token"

// Message is a message to a channel.
func Message(channel int) Request {
	return Request{Method: http.MethodPost, Path: "/channels/" + strconv.Itoa(channel) + "/messages", Body: `{"content":"hello"}`}
}

// History reads the messages of a channel.
func History(channel int) Request {
	return Request{Method: http.MethodGet, Path: "/channels/" + strconv.Itoa(channel) + "/messages"}
}

// Outcome is what became of a request: a status or an error.
type Outcome struct {
	Status int
	Err    error
	// Wait is how long it took, in all.
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

// Kill ends the process in the middle of whatever it does: nobody is told anything any more. Requests that have left are processed all the
// same, and their answers lost.
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

// Dead reports that it was killed.
func (p *Process) Dead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// Cut breaks the process's connection to the server of shared limits: calls get no reply. Or it mends it.
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

// Close ends the process, and tells the others.
func (p *Process) Close() error {
	p.fleet.Note("process %d closes", p.Number)
	defer p.fleet.Note("process %d is closed", p.Number)
	return p.Transport.Close()
}

// Shutdown ends the process, and tells the others, when its requests are over. It is closed after ten seconds in any case.
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

// Calls returns how many calls it has made to the server of shared limits, of each script by its name.
func (p *Process) Calls() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.calls)
}
