package shared

import (
	"sync"
	"time"

	"github.com/jonboulle/clockwork"
)

// never is the wait of a repeater whose owner needs no further call for now.
const never time.Duration = -1

// repeater makes calls one after the other: when its owner asks for one, and when the wait that the latest call
// returned is over.
type repeater struct {
	session *session
	lock    sync.Locker
	// once makes one call, without the lock, and returns the wait until the next call, or never.
	once func() time.Duration

	calling bool
	again   bool // another call has to follow at once
	stopped bool
	timer   clockwork.Timer
	due     time.Duration // when the timer fires
}

// call makes a call now, or at once after the call in progress. r.lock must be held.
func (r *repeater) call() {
	switch {
	case r.stopped:
	case r.calling:
		r.again = true
	default:
		r.quiet()
		r.calling = r.session.spawn(r.run)
	}
}

// within makes a call after d, unless an earlier call is due. r.lock must be held.
func (r *repeater) within(d time.Duration) {
	due := r.session.now() + d
	if r.stopped || r.calling || r.timer != nil && r.due <= due {
		return
	}
	r.quiet()
	r.due, r.timer = due, r.session.clock.AfterFunc(d, r.ring)
}

// stop prevents all further calls. A call in progress goes on. r.lock must be held.
func (r *repeater) stop() {
	r.stopped = true
	r.quiet()
}

func (r *repeater) quiet() {
	if r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
}

func (r *repeater) ring() {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.call()
}

func (r *repeater) run() {
	for r.rest(r.once()) {
	}
}

// rest reports whether the next call follows at once, and otherwise sets the timer.
func (r *repeater) rest(wait time.Duration) bool {
	r.lock.Lock()
	defer r.lock.Unlock()
	again := r.again
	r.again = false
	if !r.stopped && (again || wait == 0) {
		return true
	}
	r.calling = false
	if wait > 0 {
		r.within(wait)
	}
	return false
}
