package redis

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/ratelight/ratelight/buckets/shared"
)

// later is a client that may be opened after the store. Until it is open, all calls fail with what was wrong at the last attempt.
type later struct {
	open func(context.Context) (*Client, error)

	life    context.Context // ends with Close
	end     context.CancelFunc
	running sync.WaitGroup
	opened  chan struct{} // closed when there is a client

	mu     sync.Mutex
	client *Client
	err    error
}

var (
	_ shared.Runner     = (*later)(nil)
	_ shared.Subscriber = (*later)(nil)
)

func newLater(open func(context.Context) (*Client, error)) *later {
	l := &later{open: open, opened: make(chan struct{})}
	l.life, l.end = context.WithCancel(context.Background())
	return l
}

// try makes one attempt.
func (l *later) try(ctx context.Context) error {
	c, err := l.open(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err = err; err == nil {
		l.client = c
		close(l.opened)
	}
	return err
}

// mayPass reports that what is wrong with an engine may be over without anybody's doing.
func mayPass(err error) bool {
	return errors.Is(err, ErrUnreachable) || errors.Is(err, ErrLoading) || errors.Is(err, ErrCluster)
}

// repeat makes attempts in the background until one succeeds. Also if something is wrong meanwhile that does not pass: the calls say so, and
// somebody may mend it.
func (l *later) repeat() {
	l.running.Go(func() {
		for pause := firstReconnect; ; pause = min(2*pause, longestReconnect) {
			timer := time.NewTimer(pause/2 + rand.N(pause)) // other processes may wait for the same engine
			select {
			case <-l.life.Done():
				timer.Stop()
				return
			case <-timer.C:
			}
			if l.try(l.life) == nil {
				return
			}
		}
	})
}

// now returns the client, or why there is none yet.
func (l *later) now() (*Client, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.client != nil:
		return l.client, nil
	case l.life.Err() != nil:
		return nil, ErrClosed
	}
	return nil, l.err
}

// Run runs a script, see shared.Runner.
func (l *later) Run(ctx context.Context, script *shared.Script, keys []string, arguments ...string) ([]int64, error) {
	c, err := l.now()
	if err != nil {
		return nil, err
	}
	return c.Run(ctx, script, keys, arguments...)
}

// Subscribe waits until there is a client, and subscribes, see shared.Subscriber.
func (l *later) Subscribe(ctx context.Context, channel string, received func(message string)) error {
	select {
	case <-l.opened:
	case <-ctx.Done():
		return ctx.Err()
	case <-l.life.Done():
	}
	c, err := l.now()
	if err != nil {
		return err
	}
	return c.Subscribe(ctx, channel, received)
}

// Close ends the attempts, and closes the client.
func (l *later) Close() {
	l.end()
	l.running.Wait()
	if c, err := l.now(); err == nil {
		c.Close()
	}
}
