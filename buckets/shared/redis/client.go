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

// Client is a client of a server. A Store uses a Client. Other stores that need a shared.Runner can also use a Client.
// A Client is safe for concurrent use.
type Client struct {
	connections *connections
	inner       rueidis.Client // nil until the client is connected
	hashes      sync.Map       // SHA-1 of each script, by *shared.Script

	life    context.Context // ends with Close
	end     context.CancelFunc
	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
}

var (
	_ shared.Runner     = (*Client)(nil)
	_ shared.Subscriber = (*Client)(nil)
)

func newClient() *Client {
	c := &Client{connections: newConnections()}
	c.life, c.end = context.WithCancel(context.Background())
	return c
}

// spawn runs f in a goroutine that Close waits for. It does nothing and returns false once the client is closed.
func (c *Client) spawn(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.running.Go(f)
	return true
}

// Close closes all connections, and waits until the client's goroutines have ended. Calls in progress fail with an
// error. Close may be called more than once.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.end()
	cut := time.AfterFunc(100*time.Millisecond, c.connections.cut)
	if c.inner != nil {
		c.inner.Close()
	}
	cut.Stop()
	c.connections.cut()
	c.running.Wait()
}

// Run implements shared.Runner.
func (c *Client) Run(ctx context.Context, script *shared.Script, keys []string, arguments ...string) ([]int64, error) {
	n := int64(len(keys))
	byHash := c.inner.B().Evalsha().Sha1(c.hash(script)).Numkeys(n).Key(keys...).Arg(arguments...).Build()
	result, err := c.do(ctx, byHash)
	if said, ok := rueidis.IsRedisErr(result.Error()); err == nil && ok && said.IsNoScript() {
		bySource := c.inner.B().Eval().Script(script.Source).Numkeys(n).Key(keys...).Arg(arguments...).Build()
		result, err = c.do(ctx, bySource)
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
			err = explained // ErrRefused may be an error that the script itself has returned
			var e *Error
			if errors.As(err, &e) && e.Problem == ErrPermission && e.Command == "" {
				e.Command = refusedCommand(script.Source, answer.Error())
			}
		}
	}
	return nil, fmt.Errorf("script %s: %w", script.Name, err)
}

// hash returns the SHA-1 of a script, which is the script's name on the server.
func (c *Client) hash(script *shared.Script) string {
	if known, ok := c.hashes.Load(script); ok {
		return known.(string)
	}
	sum := sha1.Sum([]byte(script.Source))
	name := hex.EncodeToString(sum[:])
	c.hashes.Store(script, name)
	return name
}

// do sends a command, and returns when the server has answered or the context ends. The inner client does not always
// return when the context ends, because it may be waiting for another call to set up a connection, or for the answers
// to older commands. The error of do is the error of the context, or ErrClosed.
func (c *Client) do(ctx context.Context, command rueidis.Completed) (rueidis.RedisResult, error) {
	answered := make(chan rueidis.RedisResult, 1)
	if !c.spawn(func() { answered <- c.inner.Do(ctx, command) }) {
		return rueidis.RedisResult{}, ErrClosed
	}
	select {
	case result := <-answered:
		if result.NonRedisError() != nil {
			if err := c.ended(ctx); err != nil {
				return rueidis.RedisResult{}, err
			}
		}
		return result, nil
	case <-ctx.Done():
		return rueidis.RedisResult{}, ctx.Err()
	}
}

// ended returns the error of the context if that has ended, ErrClosed if the client is closed, and nil otherwise.
func (c *Client) ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if c.life.Err() != nil {
		return ErrClosed
	}
	return nil
}

// Subscribe implements shared.Subscriber. It uses a connection of its own, so that a slow receiver delays no other
// calls, and so that Subscribe can return without a reply of the server.
func (c *Client) Subscribe(ctx context.Context, channel string, received func(message string)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.life, cancel)()
	pause := firstReconnect
	for {
		subscribed, _ := c.listen(ctx, channel, nil, received)
		if c.life.Err() != nil {
			return ErrClosed
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if subscribed {
			pause = firstReconnect
		}
		timer := time.NewTimer(pause/2 + rand.N(pause)) // random, so that not all processes reconnect at the same time
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
		pause = min(2*pause, longestReconnect)
	}
}

// listen subscribes once, until the connection breaks or the context ends. When the server confirms the subscription,
// listen calls confirmed if it is not nil. subscribed reports whether the server has confirmed the subscription.
func (c *Client) listen(
	ctx context.Context, channel string, confirmed func(), received func(message string),
) (subscribed bool, err error) {
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
	if !c.spawn(func() {
		connection, _ := c.inner.Dedicate()
		subscribe := connection.B().Subscribe().Channel(channel).Build()
		done <- connection.Receive(hooked, subscribe, func(m rueidis.PubSubMessage) {
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
		// An active subscription ends at once. Wait until it has ended, so that received is not called after listen has
		// returned. A subscription that is not active never calls received. Do not wait for its end, because connecting may
		// take long.
		if active.Load() {
			<-done
		}
		err = ctx.Err()
	}
	return active.Load(), err
}
