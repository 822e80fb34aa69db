// Package redistest gives tests a server of shared limits in memory, which loses calls and replies on demand. It also
// starts real Redis and Valkey servers.
package redistest

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/ratelight/ratelight/buckets/shared"
)

// ErrDown is the error of calls to a server that is down.
var ErrDown = errors.New("redistest: connection refused")

// Fate is what happens to one call.
type Fate struct {
	// Before is how long the call takes to the server. It runs there even if its caller has given up meanwhile.
	Before time.Duration
	// After is how long the reply takes.
	After time.Duration
	// Lost calls never reach the server. LostReply loses the reply. Then the caller waits until its context ends.
	Lost, LostReply bool
}

// Memory is a server in memory. It is a shared.Runner and a shared.Subscriber for any number of processes. In a bubble
// of testing/synctest it runs in the time of the bubble, and has to be made and closed in the bubble.
type Memory struct {
	// Redis is the server itself: to look at its contents, to flush it, to set its clock.
	Redis *miniredis.Miniredis

	running sync.WaitGroup
	closed  chan struct{}

	mu     sync.Mutex
	calls  map[string]int
	down   bool
	frozen chan struct{} // closed when the server continues; nil if it is not frozen
	fate   func(script string) Fate
	quiet  bool

	connection sync.Mutex // held while a script runs
	client     *client
	saved      int           // number of snapshots
	ahead      time.Duration // by how much the server's clock is ahead
	stepped    bool          // the clock was stepped, so that the server has to be told the time
}

var (
	_ shared.Runner     = (*Memory)(nil)
	_ shared.Subscriber = (*Memory)(nil)
)

// NewMemory starts a server. Close ends it.
func NewMemory() *Memory {
	m := &Memory{Redis: miniredis.NewMiniRedis(), calls: map[string]int{}, closed: make(chan struct{})}
	m.Redis.ClockTTL(true)
	m.client = m.dial()
	return m
}

// Close ends the server and everything that runs in it.
func (m *Memory) Close() {
	close(m.closed)
	m.running.Wait()
	m.client.close()
	m.Redis.Close()
}

func (m *Memory) dial() *client {
	connection, err := m.Redis.Dial()
	if err != nil {
		panic(err) // cannot fail in memory
	}
	return newClient(connection)
}

// Decide lets f decide what happens to each call, by the name of its script. nil: calls are neither lost nor delayed.
func (m *Memory) Decide(f func(script string) Fate) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fate = f
}

// SetDown makes the server refuse all calls at once, or accept them again. It keeps its contents.
func (m *Memory) SetDown(down bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.down = down
}

// SetFrozen makes calls wait until the server continues, or until their contexts end. When the server continues, it
// runs the calls that were given up, too.
func (m *Memory) SetFrozen(frozen bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case frozen && m.frozen == nil:
		m.frozen = make(chan struct{})
	case !frozen && m.frozen != nil:
		close(m.frozen)
		m.frozen = nil
	}
}

// SetQuiet loses all messages from now on, or none.
func (m *Memory) SetQuiet(quiet bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.quiet = quiet
}

// Flush deletes everything but the snapshots of Save.
func (m *Memory) Flush() { m.Redis.DB(0).FlushDB() }

// Calls returns how many calls were made, by the names of scripts.
func (m *Memory) Calls() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.calls)
}

// Total returns how many calls were made.
func (m *Memory) Total() (n int) {
	for _, count := range m.Calls() {
		n += count
	}
	return n
}

// Run implements shared.Runner.
func (m *Memory) Run(ctx context.Context, script *shared.Script, keys []string, arguments ...string) ([]int64, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	m.calls[script.Name]++
	down, frozen, fate := m.down, m.frozen, Fate{}
	if m.fate != nil {
		fate = m.fate(script.Name)
	}
	m.mu.Unlock()
	if down {
		return nil, ErrDown
	}
	type result struct {
		reply []int64
		err   error
	}
	done := make(chan result, 1)
	m.running.Go(func() {
		if fate.Lost || !m.wait(fate.Before) || !m.thaw(frozen) {
			return
		}
		reply, err := m.run(script, keys, arguments)
		if !fate.LostReply && m.wait(fate.After) {
			done <- result{reply, err}
		}
	})
	select {
	case r := <-done:
		return r.reply, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// wait waits for d, and reports whether the server was not closed meanwhile.
func (m *Memory) wait(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-m.closed:
		return false
	}
}

func (m *Memory) thaw(frozen chan struct{}) bool {
	if frozen == nil {
		return true
	}
	select {
	case <-frozen:
		return true
	case <-m.closed:
		return false
	}
}

func (m *Memory) run(script *shared.Script, keys, arguments []string) ([]int64, error) {
	command := append([]string{"EVAL", script.Source, strconv.Itoa(len(keys))}, keys...)
	m.connection.Lock()
	defer m.connection.Unlock()
	m.setClock()
	answer, err := m.client.do(append(command, arguments...)...)
	if err != nil {
		return nil, err
	}
	list, ok := answer.([]any)
	if !ok {
		return nil, errors.New("redistest: the reply is not a list")
	}
	numbers := make([]int64, len(list))
	for i, element := range list {
		if numbers[i], ok = element.(int64); !ok {
			return nil, errors.New("redistest: the reply contains what is not a number")
		}
	}
	return numbers, nil
}

// Subscribe implements shared.Subscriber.
func (m *Memory) Subscribe(ctx context.Context, channel string, received func(message string)) error {
	c := m.dial()
	stop := context.AfterFunc(ctx, c.close)
	defer func() {
		if stop() {
			c.close()
		}
	}()
	if err := c.send("SUBSCRIBE", channel); err != nil {
		return ctx.Err()
	}
	for {
		answer, err := c.receive()
		if err != nil {
			return ctx.Err()
		}
		push, _ := answer.([]any)
		if len(push) != 3 || push[0] != "message" {
			continue
		}
		m.mu.Lock()
		lost := m.quiet || m.down || m.frozen != nil
		m.mu.Unlock()
		if text, ok := push[2].(string); ok && !lost {
			received(strings.Clone(text))
		}
	}
}
