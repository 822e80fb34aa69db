package redis

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/ratelight/ratelight/buckets/shared"
)

const (
	firstReconnect   = 50 * time.Millisecond
	longestReconnect = time.Second
)

// runner runs scripts and listens, through a client.
type runner struct {
	connections *connections
	client      rueidis.Client // nil until open
	hashes      sync.Map       // *shared.Script → its SHA-1

	life    context.Context // ends with close
	end     context.CancelFunc
	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
}

var (
	_ shared.Runner     = (*runner)(nil)
	_ shared.Subscriber = (*runner)(nil)
)

func newRunner() *runner {
	r := &runner{connections: newConnections()}
	r.life, r.end = context.WithCancel(context.Background())
	return r
}

// spawn runs f in a goroutine that close waits for, and reports whether it does.
func (r *runner) spawn(f func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.running.Go(f)
	return true
}

// close ends everything. Answers that are on their way have a moment.
func (r *runner) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.end()
	cut := time.AfterFunc(100*time.Millisecond, r.connections.cut)
	if r.client != nil {
		r.client.Close()
	}
	cut.Stop()
	r.connections.cut()
	r.running.Wait()
}

// Run runs a script, see shared.Runner.
func (r *runner) Run(ctx context.Context, script *shared.Script, keys []string, arguments ...string) ([]int64, error) {
	result, err := r.do(ctx, r.client.B().Evalsha().Sha1(r.hash(script)).Numkeys(int64(len(keys))).Key(keys...).Arg(arguments...).Build())
	if said, ok := rueidis.IsRedisErr(result.Error()); err == nil && ok && said.IsNoScript() {
		result, err = r.do(ctx, r.client.B().Eval().Script(script.Source).Numkeys(int64(len(keys))).Key(keys...).Arg(arguments...).Build())
	}
	if err != nil {
		return nil, fmt.Errorf("script %s: %w", script.Name, err)
	}
	values, err := result.AsIntSlice()
	if err == nil {
		return values, nil
	}
	if answer := result.Error(); answer == nil {
		err = fmt.Errorf("reply is not a list of integers: %w", err)
	} else {
		if explained := explain(answer); !errors.Is(explained, ErrRefused) {
			err = explained // the rest is what scripts say themselves
		}
	}
	return nil, fmt.Errorf("script %s: %w", script.Name, err)
}

// hash returns the name under which the engine keeps a script.
func (r *runner) hash(script *shared.Script) string {
	if known, ok := r.hashes.Load(script); ok {
		return known.(string)
	}
	sum := sha1.Sum([]byte(script.Source))
	name := hex.EncodeToString(sum[:])
	r.hashes.Store(script, name)
	return name
}

// do sends a command and returns when it is answered or the context ends. The client alone would not: it waits for connections
// that somebody else makes, and for room behind commands that are not answered. The error is that of the context, or ErrClosed.
func (r *runner) do(ctx context.Context, command rueidis.Completed) (rueidis.RedisResult, error) {
	answered := make(chan rueidis.RedisResult, 1)
	if !r.spawn(func() { answered <- r.client.Do(ctx, command) }) {
		return rueidis.RedisResult{}, ErrClosed
	}
	select {
	case result := <-answered:
		if result.NonRedisError() != nil {
			if err := r.ended(ctx); err != nil {
				return rueidis.RedisResult{}, err
			}
		}
		return result, nil
	case <-ctx.Done():
		return rueidis.RedisResult{}, ctx.Err()
	case <-r.life.Done():
		return rueidis.RedisResult{}, ErrClosed
	}
}

// ended returns why nothing is to be waited for any more, nil if there is no reason.
func (r *runner) ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if r.life.Err() != nil {
		return ErrClosed
	}
	return nil
}

// Subscribe calls received for every message on a channel, see shared.Subscriber. It has a connection of its own, so that a slow
// receiver delays nobody else, and leaving needs no answer of the engine.
func (r *runner) Subscribe(ctx context.Context, channel string, received func(message string)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.life, cancel)()
	pause := firstReconnect
	for {
		subscribed, _ := r.listen(ctx, channel, nil, received)
		if r.life.Err() != nil {
			return ErrClosed
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if subscribed {
			pause = firstReconnect
		}
		timer := time.NewTimer(pause/2 + rand.N(pause)) // processes lose an engine together; they need not come back together
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
		pause = min(2*pause, longestReconnect)
	}
}

// listen subscribes once, until the connection or the context ends, and reports whether it got that far. confirmed, if there is one,
// is called when it has.
func (r *runner) listen(ctx context.Context, channel string, confirmed func(), received func(message string)) (subscribed bool, err error) {
	var active atomic.Bool
	hooked := rueidis.WithOnSubscriptionHook(ctx, func(s rueidis.PubSubSubscription) {
		if s.Kind == "subscribe" {
			active.Store(true)
			if confirmed != nil {
				confirmed()
			}
		}
	})
	done := make(chan error, 1)
	if !r.spawn(func() {
		connection, _ := r.client.Dedicate()
		done <- connection.Receive(hooked, connection.B().Subscribe().Channel(channel).Build(), func(m rueidis.PubSubMessage) {
			if ctx.Err() == nil {
				received(m.Message)
			}
		})
		connection.Close()
	}) {
		return false, ErrClosed
	}
	select {
	case err = <-done:
	case <-ctx.Done():
		// Once it is active it ends at once; waiting for that keeps received from being called afterwards. Before, received is
		// not called any more anyway, but the connection may still be under way.
		if active.Load() {
			<-done
		}
		err = ctx.Err()
	}
	return active.Load(), err
}
