package shared

import (
	"sync"
	"time"

	"github.com/jonboulle/clockwork"
)

// never is what once of a repeater returns if no further call is needed for now.
const never time.Duration = -1

// repeater makes calls to the server, one after the other. It makes a call when its owner asks for one with the method
// call, and when the wait that once returned after the latest call is over.
type repeater struct {
	session *session
	lock    sync.Locker
	// once makes one call, and returns the wait until the next call, or never. It is called without the lock.
	once func() time.Duration

	calling bool
	again   bool // whether another call has to follow at once
	stopped bool
	timer   clockwork.Timer
	due     time.Duration // when the timer fires
}

// call starts a call. If a call is in progress, another one follows at once. r.lock must be held.
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

// within starts a call after d, unless a call is in progress or an earlier one is due. r.lock must be held.
func (r *repeater) within(d time.Duration) {
	due := r.session.now() + d
	if r.stopped || r.calling || r.timer != nil && r.due <= due {
		return
	}
	r.quiet()
	r.due, r.timer = due, r.session.clock.AfterFunc(d, r.ring)
}

// stop prevents all further calls. A call in progress continues. r.lock must be held.
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

// rest reports whether the next call has to follow at once. If not, rest sets the timer for it.
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
