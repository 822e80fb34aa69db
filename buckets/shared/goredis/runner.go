package goredis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ratelight/ratelight/buckets/shared"
)

// Runner implements shared.Runner and shared.Subscriber with a go-redis client. It is safe for concurrent use.
type Runner struct {
	client redis.UniversalClient
	hashes sync.Map // SHA-1 of each script, by *shared.Script
}

var (
	_ shared.Runner     = (*Runner)(nil)
	_ shared.Subscriber = (*Runner)(nil)
)

// New returns a Runner for shared.OnScripts. The Runner does not close the client. Close the client after the managers.
func New(client redis.UniversalClient) *Runner { return &Runner{client: client} }

// once is a command that the client does not repeat, whatever the client's settings.
type once struct{ *redis.Cmd }

// NoRetry tells the client not to repeat the command.
func (once) NoRetry() bool { return true }

// Run implements shared.Runner.
func (r *Runner) Run(ctx context.Context, script *shared.Script, keys []string, arguments ...string) ([]int64, error) {
	values, err := r.run(ctx, "evalsha", r.hash(script), keys, arguments)
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		values, err = r.run(ctx, "eval", script.Source, keys, arguments)
	}
	if errors.Is(err, redis.ErrClosed) {
		return nil, fmt.Errorf("%w: %w", shared.ErrClosed, err)
	}
	if err != nil {
		return nil, fmt.Errorf("script %s: %w", script.Name, err)
	}
	return values, nil
}

func (r *Runner) hash(script *shared.Script) string {
	if known, ok := r.hashes.Load(script); ok {
		return known.(string)
	}
	name := redis.NewScript(script.Source).Hash()
	r.hashes.Store(script, name)
	return name
}

// run sends one command. It returns when the context is cancelled, although the client may continue to wait for the
// reply.
func (r *Runner) run(ctx context.Context, command, script string, keys, arguments []string) ([]int64, error) {
	words := make([]any, 0, 3+len(keys)+len(arguments))
	words = append(words, command, script, len(keys))
	for _, key := range keys {
		words = append(words, key)
	}
	for _, argument := range arguments {
		words = append(words, argument)
	}
	sent := redis.NewCmd(ctx, words...)
	if len(keys) > 0 {
		sent.SetFirstKeyPos(3) // the first key determines the node of a cluster
	}
	answered := make(chan error, 1)
	go func() { answered <- r.client.Process(ctx, once{sent}) }()
	select {
	case err := <-answered:
		if err == nil {
			return sent.Int64Slice()
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		// The connection has the same deadline as the context, and may report the timeout before the context ends.
		if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
			return nil, context.DeadlineExceeded
		}
		return nil, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// healthCheck is how often the client tests the connection of an idle subscription.
const healthCheck = time.Second

// Subscribe implements shared.Subscriber.
func (r *Runner) Subscribe(ctx context.Context, channel string, received func(message string)) error {
	subscription := r.client.Subscribe(ctx) // without a channel, so that this does not wait for a connection
	defer func() { go subscription.Close() }()
	subscribed := make(chan struct{})
	go func() {
		defer close(subscribed)
		_ = subscription.Subscribe(ctx, channel) // if this fails, Channel (below) repeats it
	}()
	select {
	case <-subscribed:
	case <-ctx.Done():
		return ctx.Err()
	}
	messages := subscription.Channel(redis.WithChannelHealthCheckInterval(healthCheck))
	for {
		select {
		case m, ok := <-messages:
			if !ok {
				return redis.ErrClosed
			}
			if ctx.Err() == nil {
				received(m.Payload)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
