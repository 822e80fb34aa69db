package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/ratelimits"
)

// load counts requests and what became of them.
type load struct {
	group          sync.WaitGroup
	started, ended atomic.Int64
	late           atomic.Int64 // outcomes after Patience
	slowest        atomic.Int64

	mu         sync.Mutex
	kinds      map[string]int
	unexpected map[string]int
}

func (l *load) init() { l.kinds, l.unexpected = make(map[string]int), make(map[string]int) }

// begin runs one request.
func (l *load) begin(request func()) {
	l.started.Add(1)
	l.group.Go(request)
}

// idle returns a channel that is closed when no request is under way.
func (l *load) idle() <-chan struct{} {
	done := make(chan struct{})
	go func() {
		l.group.Wait()
		close(done)
	}()
	return done
}

// note takes in the outcome of a request, of which there must be exactly one.
func (l *load) note(p plan, response *http.Response, err error, took time.Duration) {
	kind, expected := outcomeOf(p, response, err)
	l.ended.Add(1)
	if took > Patience {
		l.late.Add(1)
	}
	for {
		before := l.slowest.Load()
		if int64(took) <= before || l.slowest.CompareAndSwap(before, int64(took)) {
			break
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kinds[kind]++
	if !expected {
		l.unexpectedly(fmt.Sprintf("%s: %v", kind, err))
	}
}

// surprise notes something that must not happen.
func (l *load) surprise(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unexpectedly(what)
}

// unexpectedly keeps a few of them. The lock is held.
func (l *load) unexpectedly(what string) {
	if _, known := l.unexpected[what]; known || len(l.unexpected) < maxFound {
		l.unexpected[what]++
	}
}

func (l *load) outcomes() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.kinds)
}

func (l *load) surprises() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.unexpected)
}

func (l *load) longest() time.Duration { return time.Duration(l.slowest.Load()) }

// outcomeOf names an outcome, and says whether the request could have it.
func outcomeOf(p plan, response *http.Response, err error) (kind string, expected bool) {
	if err == nil {
		if response.StatusCode == http.StatusTooManyRequests {
			return "answered 429 (its body can be sent only once)", p.once
		}
		return fmt.Sprintf("answered %dxx", response.StatusCode/100), true
	}
	if response != nil {
		return "answered, the body got lost", true
	}
	return failureOf(p, err)
}

func failureOf(p plan, err error) (kind string, expected bool) {
	if tooLong, ok := errors.AsType[*ratelimits.TooLongError](err); ok {
		return "refused early: too long", !tooLong.Deadline || p.deadline > 0
	}
	if _, ok := errors.AsType[*ratelimits.BudgetError](err); ok {
		return "refused early: budget of invalid requests", true
	}
	if _, ok := errors.AsType[*httpclient.CredentialError](err); ok {
		return "refused early: credential does not work", true
	}
	if _, ok := errors.AsType[*ratelimits.EdgeError](err); ok {
		return "refused at the edge", true
	}
	if _, ok := errors.AsType[*httpclient.AttemptTimeoutError](err); ok {
		return "no answer in time", true
	}
	switch {
	case errors.Is(err, context.Canceled):
		return "cancelled", p.cancelled
	case errors.Is(err, context.DeadlineExceeded):
		return "past its deadline", p.deadline > 0
	case connectionLost(err):
		return "connection lost", true
	}
	return "something else", false
}

// connectionLost reports what the network does to requests.
func connectionLost(err error) bool {
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return true
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		strings.Contains(err.Error(), "connection reset") || strings.Contains(err.Error(), "server closed")
}
