// Package redissim has a simulated Redis server for tests, which runs scripts in memory. A test can make the server
// lose calls and replies.
package redissim

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/memoryengine"
	"github.com/ratelight/ratelight/internal/redistest"
)

// Server is a simulated Redis server. It is a shared.Runner and a shared.Subscriber that any number of simulated
// processes can share. In a bubble of testing/synctest it uses the bubble's time, and must be made and closed in the
// bubble.
type Server struct {
	*memoryengine.Faults
	// Redis is the simulated server itself.
	Redis *miniredis.Miniredis

	connection sync.Mutex // held while a script runs
	client     *redistest.Client
	ahead      time.Duration // by how much the server's clock is ahead of the real clock
	stepped    bool          // whether StepClock was called
}

var (
	_ shared.Runner     = (*Server)(nil)
	_ shared.Subscriber = (*Server)(nil)
)

// New starts a server. Close ends it.
func New() *Server {
	s := &Server{Faults: memoryengine.NewFaults(), Redis: miniredis.NewMiniRedis()}
	s.Redis.ClockTTL(true)
	s.client = s.dial()
	return s
}

// Close ends the server, and drops its delayed calls.
func (s *Server) Close() {
	s.Faults.Close()
	s.client.Close()
	s.Redis.Close()
}

func (s *Server) dial() *redistest.Client {
	connection, err := s.Redis.Dial()
	if err != nil {
		panic(err) // cannot fail in memory
	}
	return redistest.NewClient(connection)
}

// Run implements shared.Runner.
func (s *Server) Run(ctx context.Context, script *shared.Script, keys []string, arguments ...string) ([]int64, error) {
	return memoryengine.Deliver(ctx, s.Faults, script.Name, func() ([]int64, error) {
		return s.run(script, keys, arguments)
	})
}

func (s *Server) run(script *shared.Script, keys, arguments []string) ([]int64, error) {
	command := append([]string{"EVAL", script.Source, strconv.Itoa(len(keys))}, keys...)
	s.connection.Lock()
	defer s.connection.Unlock()
	s.setClock()
	answer, err := s.client.Do(append(command, arguments...)...)
	if err != nil {
		return nil, err
	}
	list, ok := answer.([]any)
	if !ok {
		return nil, errors.New("redissim: the reply is not a list")
	}
	numbers := make([]int64, len(list))
	for i, element := range list {
		if numbers[i], ok = element.(int64); !ok {
			return nil, errors.New("redissim: the reply contains something other than a number")
		}
	}
	return numbers, nil
}

// Subscribe implements shared.Subscriber.
func (s *Server) Subscribe(ctx context.Context, channel string, received func(message string)) error {
	c := s.dial()
	stop := context.AfterFunc(ctx, c.Close)
	defer func() {
		if stop() {
			c.Close()
		}
	}()
	if err := c.Send("SUBSCRIBE", channel); err != nil {
		return ctx.Err()
	}
	for {
		answer, err := c.Receive()
		if err != nil {
			return ctx.Err()
		}
		push, _ := answer.([]any)
		if len(push) != 3 || push[0] != "message" {
			continue
		}
		if text, ok := push[2].(string); ok && !s.LosesMessages() {
			received(strings.Clone(text))
		}
	}
}
