// Package memoryengine has an engine of shared limits in memory, for tests. A test can make the engine lose calls and
// replies.
package memoryengine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ratelight/ratelight/buckets/shared"
)

// Engine is an engine in memory that any number of simulated processes can share. In a bubble of testing/synctest it
// uses the bubble's time, and must be made and closed in the bubble.
type Engine struct {
	*Faults

	// mu guards all fields below.
	mu            sync.Mutex
	values        map[string]value
	subscriptions map[chan string]string // the name of the channel of each subscription
	ahead         time.Duration          // by how much the engine's clock is ahead of the real clock
}

// value is what the engine stores under a key.
type value struct {
	text    string
	foreign bool  // stands for a value that is not a text
	ends    int64 // when the value expires, in ms since 1970 by the engine's clock; 0: never
}

var (
	_ shared.Engine     = (*Engine)(nil)
	_ shared.Subscriber = (*Engine)(nil)
)

// New returns an empty engine. Close ends it.
func New() *Engine {
	return &Engine{Faults: NewFaults(), values: map[string]value{}, subscriptions: map[chan string]string{}}
}

// Exchange implements shared.Engine.
func (e *Engine) Exchange(ctx context.Context, call *shared.Call) (*shared.Reply, error) {
	sent := *call
	sent.Steps = slices.Clone(call.Steps) // the call may be carried out after its caller has given up and changed it
	return Deliver(ctx, e.Faults, call.Purpose, func() (*shared.Reply, error) { return e.carryOut(&sent) })
}

func (e *Engine) carryOut(call *shared.Call) (*shared.Reply, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	reply := &shared.Reply{Time: time.Duration(now.UnixMicro()) * time.Microsecond}
	if latest := call.NotAfter.Milliseconds(); latest > 0 && now.UnixMilli() > latest {
		reply.Late = true
		return reply, nil
	}
	replaced := map[string]value{} // stored at the end, if no step fails
	var messages []func()
	for i, step := range call.Steps {
		was, ok := replaced[step.Key]
		if !ok {
			was = e.value(step.Key)
		}
		version, _, ok := strings.Cut(was.text, " ")
		switch {
		case was.foreign:
			return nil, &shared.KeyError{Key: step.Key, Problem: "is no string"}
		case was.text != "" && (!ok || version == ""):
			return nil, &shared.KeyError{Key: step.Key, Problem: "does not begin with a version"}
		}
		loaded := shared.Loaded{Value: was.text}
		if was.ends > 0 {
			loaded.Life = time.Duration(was.ends-now.UnixMilli()) * time.Millisecond
		}
		if step.Value != "" && (step.Any || step.Version == version) {
			if step.Life <= 0 {
				return nil, fmt.Errorf("memoryengine: the new value of %s has no life", step.Key)
			}
			life := (step.Life + time.Millisecond - 1) / time.Millisecond
			replaced[step.Key] = value{text: step.Value, ends: now.UnixMilli() + int64(life)}
			loaded.Replaced, loaded.Value = true, ""
			version, _, _ = strings.Cut(step.Value, " ")
			for _, channel := range step.Channels {
				messages = append(messages, func() { e.publish(channel, step.Message+step.Value) })
			}
		}
		reply.Values = append(reply.Values, loaded)
		if i == 0 && call.Guard != "" && call.Guard != version {
			break
		}
	}
	maps.Copy(e.values, replaced)
	for _, publish := range messages {
		publish()
	}
	return reply, nil
}

// now returns the time of the engine's clock. e.mu must be held.
func (e *Engine) now() time.Time { return time.Now().Add(e.ahead) }

// value returns the value of a key. If the value has expired, it deletes the key first. e.mu must be held.
func (e *Engine) value(key string) value {
	v := e.values[key]
	if v.ends > 0 && v.ends <= e.now().UnixMilli() {
		delete(e.values, key)
		return value{}
	}
	return v
}

// publish sends a message to all subscriptions of a channel. A subscription loses the message if too many messages wait
// for it. e.mu must be held.
func (e *Engine) publish(channel, text string) {
	if e.LosesMessages() {
		return
	}
	for messages, name := range e.subscriptions {
		if name == channel {
			select {
			case messages <- text:
			default:
			}
		}
	}
}

// Subscribe implements shared.Subscriber.
func (e *Engine) Subscribe(ctx context.Context, channel string, received func(message string)) error {
	messages := make(chan string, 1000)
	e.mu.Lock()
	e.subscriptions[messages] = channel
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.subscriptions, messages)
	}()
	for {
		select {
		case text := <-messages:
			received(text)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
