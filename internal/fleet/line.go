package fleet

import (
	"context"

	"github.com/ratelight/ratelight/buckets/shared"
)

// line is a process's connection to the engine.
type line struct{ process *Process }

var _ shared.Subscriber = (*line)(nil)

// Exchange implements shared.Engine.
func (l *line) Exchange(ctx context.Context, call *shared.Call) (*shared.Reply, error) {
	p := l.process
	p.awake()
	defer p.awake()
	p.mu.Lock()
	dead, cut := p.dead, p.cut
	if !dead {
		p.calls[call.Purpose]++
	}
	p.mu.Unlock()
	switch {
	case dead:
		return nil, ErrDead
	case cut != nil:
		<-ctx.Done()
		return nil, ctx.Err()
	}
	reply, err := p.fleet.Engine.Exchange(ctx, call)
	if p.Dead() {
		return nil, ErrDead
	}
	return reply, err
}

// Subscribe implements shared.Subscriber.
func (l *line) Subscribe(ctx context.Context, channel string, received func(message string)) error {
	p := l.process
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(p.ctx, cancel)
	defer stop()
	return p.fleet.Engine.Subscribe(ctx, channel, func(message string) {
		p.mu.Lock()
		lost, waits := p.dead || p.cut != nil, p.suspended != nil
		if waits && !lost {
			p.backlog = append(p.backlog, func() { received(message) })
		}
		p.mu.Unlock()
		if !lost && !waits {
			received(message)
		}
	})
}
