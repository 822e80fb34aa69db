package redis

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/ratelight/ratelight/buckets/shared"
)

// later is a client that may be opened after Open has returned. Until the client is open, all calls fail with the error
// of the latest attempt to open it.
type later struct {
	open func(context.Context) (*Client, error)

	life    context.Context // ends with Close
	end     context.CancelFunc
	running sync.WaitGroup
	opened  chan struct{} // closed as soon as client is set

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

// try makes one attempt to open the client.
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

// mayPass reports whether an error may disappear even if no operator acts.
func mayPass(err error) bool {
	return errors.Is(err, ErrUnreachable) || errors.Is(err, ErrLoading) || errors.Is(err, ErrCluster)
}

// repeat makes attempts in the background until one succeeds. It continues even after an error that does not disappear
// by itself. Calls return such an error until an operator has removed the cause of the error.
func (l *later) repeat() {
	l.running.Go(func() {
		for pause := firstReconnect; ; pause = min(2*pause, longestReconnect) {
			timer := time.NewTimer(pause/2 + rand.N(pause)) // random, because other processes may wait for the same server
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

// now returns the client, or an error that says why the client is not open.
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

// Run implements shared.Runner.
func (l *later) Run(ctx context.Context, script *shared.Script, keys []string, arguments ...string) ([]int64, error) {
	c, err := l.now()
	if err != nil {
		return nil, err
	}
	return c.Run(ctx, script, keys, arguments...)
}

// Subscribe implements shared.Subscriber. First it waits until the client is open.
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

// Close ends the attempts to open the client, and closes the client if it is open.
func (l *later) Close() {
	l.end()
	l.running.Wait()
	if c, err := l.now(); err == nil {
		c.Close()
	}
}
