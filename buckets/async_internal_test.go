package buckets

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// AcquireFunc does the same as AcquireRequest but does not block. It is for tests with many waiting requests. If the
// request has to wait, the request is in its queue when AcquireFunc returns. AcquireFunc calls done when the request
// may be sent or is rejected. For one manager, the calls of done do not overlap and come in the order in which the
// requests left.
func AcquireFunc(ctx context.Context, m *RESTBucketManager, r *Request, done func(Lease, error)) {
	c := asyncCallsOf(m)
	call := c.begin(done)
	w := m.waiters.get()
	waits, f, err := m.enter(ctx, w, r)
	if !waits {
		call.lease, call.err = m.deliver(w, r, err)
		c.end(call)
		return
	}
	c.flush()
	go func() {
		call.lease, call.err = m.deliver(w, r, m.await(w, f))
		c.end(call)
	}()
}

// AsyncUnderway reports whether any call of AcquireFunc still waits for its answer.
func AsyncUnderway(m *RESTBucketManager) bool {
	c := asyncCallsOf(m)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.underway > 0
}

// asyncCall is one call of AcquireFunc.
type asyncCall struct {
	number int
	done   func(Lease, error)
	lease  Lease
	err    error
}

// asyncCalls has the unfinished calls of AcquireFunc on one manager.
type asyncCalls struct {
	manager *RESTBucketManager

	mu       sync.Mutex
	begun    int
	underway int // calls whose answers are not yet in inOrder
	answered []*asyncCall
	inOrder  []*asyncCall
	running  bool
}

var allAsyncCalls sync.Map

func asyncCallsOf(m *RESTBucketManager) *asyncCalls {
	c, _ := allAsyncCalls.LoadOrStore(m, &asyncCalls{manager: m})
	return c.(*asyncCalls)
}

func (c *asyncCalls) begin(done func(Lease, error)) *asyncCall {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begun++
	c.underway++
	return &asyncCall{number: c.begun, done: done}
}

func (c *asyncCalls) end(call *asyncCall) {
	c.mu.Lock()
	c.answered = append(c.answered, call)
	c.mu.Unlock()
	c.flush()
}

// Once every call whose request has stopped waiting has an answer, flush sorts the answers and hands them to run.
// Before that, it does nothing.
func (c *asyncCalls) flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.answered) == 0 || len(c.answered) < c.underway-int(c.manager.waiting.Load()) {
		return
	}
	if len(c.answered) > 1 {
		places := c.places()
		slices.SortFunc(c.answered, func(x, y *asyncCall) int {
			return cmp.Or(cmp.Compare(places[x.lease.held], places[y.lease.held]), cmp.Compare(x.number, y.number))
		})
	}
	c.underway -= len(c.answered)
	c.inOrder = append(c.inOrder, c.answered...)
	c.answered = nil
	if !c.running {
		c.running = true
		go c.run()
	}
}

// places returns the position of each answered lease in the list of all requests in flight. The list has the order in
// which the requests left.
func (c *asyncCalls) places() map[*held]int {
	places := make(map[*held]int)
	for _, call := range c.answered {
		if call.lease.held != nil {
			places[call.lease.held] = 0
		}
	}
	left := len(places)
	c.manager.each(func(_ time.Duration, s *server) {
		for e, at := s.awaited.Head(), 1; e != nil && left > 0; e, at = e.Next(), at+1 {
			if _, ok := places[e.Value]; ok {
				places[e.Value] = at
				left--
			}
		}
	})
	return places
}

func (c *asyncCalls) run() {
	for {
		c.mu.Lock()
		if len(c.inOrder) == 0 {
			c.running = false
			c.mu.Unlock()
			return
		}
		call := c.inOrder[0]
		c.inOrder = c.inOrder[1:]
		c.mu.Unlock()
		call.done(call.lease, call.err)
	}
}
