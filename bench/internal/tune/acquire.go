package tune

import (
	"context"
	"sync"

	"github.com/ratelight/ratelight/buckets"
)

// acquirer asks a manager for permissions and hands its answers to the goroutine of the replay. The manager answers on a
// goroutine of its own, for which the replay waits, so that nothing ever happens side by side.
type acquirer struct {
	manager *buckets.RESTBucketManager
	open    int // requests without an answer

	waitsFor buckets.WaitsFor // what the request has waited for that is answered next

	mu      sync.Mutex
	some    *sync.Cond // there are answers
	answers []answer
}

// answer is what became of a request that was to be acquired.
type answer struct {
	to       *exchange
	lease    buckets.Lease
	err      error
	waitsFor buckets.WaitsFor
}

func newAcquirer(manager *buckets.RESTBucketManager) *acquirer {
	a := &acquirer{manager: manager}
	a.some = sync.NewCond(&a.mu)
	// It is called by the goroutine that answers, right before the answer.
	manager.AddHooks(buckets.Hooks{Waited: func(ctx context.Context, w buckets.Waited) {
		if ctx != atOnce {
			a.waitsFor = w.For
		}
	}})
	return a
}

// atOnce is for requests that do not wait.
var atOnce = buckets.ContextWithMaxWait(context.Background(), 0)

// acquire asks for one permission, and reports whether it was given at once, as most are if nobody else waits in the queue. Otherwise
// settle brings the answer.
func (a *acquirer) acquire(x *exchange, othersWait bool) bool {
	if !othersWait {
		if lease, err := a.manager.AcquireRequest(atOnce, &x.request); err == nil {
			x.answered(lease, nil, buckets.WaitsForNothing)
			return true
		}
	}
	a.open++
	a.manager.AcquireFunc(context.Background(), &x.request, func(lease buckets.Lease, err error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.answers = append(a.answers, answer{x, lease, err, a.waitsFor})
		a.waitsFor = buckets.WaitsForNothing
		a.some.Signal()
	})
	return false
}

// settle hands out answers until every request has one or waits in a queue. It is called after everything that may have told
// the manager something, or woken it.
func (a *acquirer) settle() {
	if a.open == 0 {
		return
	}
	for waiting := a.manager.Stats().Waiting; a.open > waiting; {
		for _, answer := range a.take() {
			a.open--
			answer.to.answered(answer.lease, answer.err, answer.waitsFor)
		}
	}
}

// take waits for answers.
func (a *acquirer) take() []answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.answers) == 0 {
		a.some.Wait()
	}
	answers := a.answers
	a.answers = nil
	return answers
}
