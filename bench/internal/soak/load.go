package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/ratelimits"
)

// load counts requests and what became of them.
type load struct {
	group sync.WaitGroup
	made  int

	mu         sync.Mutex
	outcomes   map[string]int
	unexpected map[string]int
	slowest    time.Duration
}

// begin runs one request.
func (l *load) begin(request func()) {
	l.made++
	l.group.Go(request)
}

// await waits until every request has an outcome, or should have had it long ago.
func (l *load) await() {
	done := make(chan struct{})
	go func() {
		l.group.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(patience):
	}
}

// note takes in the outcome of a request, of which there must be exactly one.
func (l *load) note(p plan, response *http.Response, err error, took time.Duration) {
	outcome, expected := outcomeOf(p, response, err)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.outcomes[outcome]++
	l.slowest = max(l.slowest, took)
	if what := fmt.Sprintf("%s: %v", outcome, err); !expected && (len(l.unexpected) < mostUnexpected || l.unexpected[what] > 0) {
		l.unexpected[what]++
	}
}

// sumUp hands over what was counted.
func (l *load) sumUp(r *Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.Made, r.Longest, r.Outcomes, r.Unexpected = l.made, l.slowest, l.outcomes, l.unexpected
}

// outcomeOf names an outcome, and says whether the request could have it.
func outcomeOf(p plan, response *http.Response, err error) (outcome string, expected bool) {
	switch {
	case err == nil && response.StatusCode == http.StatusTooManyRequests:
		return "answered 429 (its body can be sent only once)", p.once()
	case err == nil:
		return fmt.Sprintf("answered %dxx", response.StatusCode/100), true
	case response != nil:
		return "answered, the body got lost", true
	case is[*ratelimits.TooLongError](err):
		tooLong, _ := errors.AsType[*ratelimits.TooLongError](err)
		return "refused early: too long", !tooLong.Deadline || p.deadline > 0
	case is[*ratelimits.BudgetError](err):
		return "refused early: budget of invalid requests", true
	case is[*httpclient.CredentialError](err):
		return "refused early: credential does not work", true
	case is[*ratelimits.EdgeError](err):
		return "refused at the edge", true
	case is[*httpclient.AttemptTimeoutError](err):
		return "no answer in time", true
	case errors.Is(err, context.Canceled):
		return "cancelled", p.cancelAfter > 0
	case errors.Is(err, context.DeadlineExceeded):
		return "past its deadline", p.deadline > 0
	case is[*net.OpError](err), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET),
		strings.Contains(err.Error(), "connection reset"), strings.Contains(err.Error(), "server closed"):
		return "connection lost", true
	}
	return "something else", false
}

func is[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}
