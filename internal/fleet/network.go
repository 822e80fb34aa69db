package fleet

import (
	"context"
	"net/http"
	"strconv"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// network is a process's connection to Discord. A request that has left the process is processed even if the process
// dies later.
type network struct{ process *Process }

// flight is a request that has left the process and has not been answered yet.
type flight struct {
	cancel    context.CancelFunc
	processed bool
}

func (n *network) RoundTrip(r *http.Request) (*http.Response, error) {
	p := n.process
	p.awake()
	defer p.awake()
	sequence, err := strconv.ParseInt(r.Header.Get(discordsim.SequenceHeader), 10, 64)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	stop := context.AfterFunc(r.Context(), func() {
		if !p.Dead() {
			cancel()
		}
	})
	p.mu.Lock()
	if p.dead {
		p.mu.Unlock()
		stop()
		cancel()
		return nil, ErrDead
	}
	f := &flight{cancel: cancel}
	p.flying[sequence] = f
	p.mu.Unlock()
	p.fleet.sent(sequence)
	response, err := p.fleet.Discord.RoundTripper().RoundTrip(r.WithContext(ctx))
	p.mu.Lock()
	if p.flying[sequence] == f {
		delete(p.flying, sequence)
	}
	dead := p.dead
	p.mu.Unlock()
	stop()
	if err == nil && !dead {
		return response, nil // cancelling the context now would break the response's body
	}
	cancel()
	if dead {
		return nil, ErrDead
	}
	if r.Context().Err() != nil {
		err = r.Context().Err()
	}
	return nil, err
}

// processed records that Discord has processed a request.
func (p *Process) processed(sequence int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.flying[sequence]
	if f == nil {
		return
	}
	f.processed = true
	if p.dead {
		f.cancel()
	}
}
