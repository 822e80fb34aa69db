package shared

import (
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

const (
	// invalidSlot is how exactly it is known when a response came.
	invalidSlot = 10 * time.Second
	// invalidPeriod is as long as Discord's, and a slot more, as a slot counts until all of it is over.
	invalidPeriod = ratelimits.DefaultInvalidPeriod
	invalidSlots  = int64(invalidPeriod / invalidSlot)
	// manyInvalid is from how many on it matters to know at once what the others count.
	manyInvalid = ratelimits.DefaultInvalidLimit / 10
	// invalidCalm is how often it asks while nobody has counted anything.
	invalidCalm = time.Minute
	// invalidRounds is how many slots of time it still asks for what the others count when nobody wants to know.
	invalidRounds = 6
)

var invalidScript = script("invalid", "invalid.lua")

// invalid counts the invalid responses of an address, together with all other processes of it: what was counted is told within a second, and
// what the others count is asked for while somebody wants to know: every minute if nobody has counted anything, and at once when that
// changes here, else every ten seconds, and every second when it becomes much.
type invalid struct {
	session *session
	keys    []string

	others atomic.Int64
	wanted atomic.Bool // since the last call

	mu     sync.Mutex
	count  int64 // since the session began
	told   int64
	before [invalidSlots + 1]int64 // count at the end of the latest slots of our time, a ring
	newest int64                   // of those slots
	idle   int                     // calls for which nobody wanted to know
	calm   bool                    // nobody had counted anything when it asked last
	calls  repeater
}

func (i *invalid) start(s *session) {
	i.session = s
	i.keys = []string{s.store.keys.invalid(s.store.options.address)}
	i.calls = repeater{session: s, lock: &i.mu, once: i.once}
}

// Invalid counts an invalid response.
func (s *session) Invalid() (others int) {
	i := &s.parts.invalid
	i.mu.Lock()
	defer i.mu.Unlock()
	i.roll(s.now())
	i.count++
	i.before[i.newest%int64(len(i.before))] = i.count
	i.idle = 0
	if i.calm {
		i.calm = false
		i.calls.call() // what the others count may be a minute old
	} else {
		i.calls.within(beatPeriod)
	}
	return int(i.others.Load())
}

// Others returns how many invalid responses the other processes have counted.
func (s *session) Others() int {
	i := &s.parts.invalid
	if !i.wanted.Load() && i.wanted.CompareAndSwap(false, true) {
		i.ask()
	}
	return int(i.others.Load())
}

// ask asks at once if nobody wanted to know before.
func (i *invalid) ask() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.calls.timer == nil {
		i.idle = 0
		i.calls.call()
	}
}

// roll begins new slots. i.mu is held.
func (i *invalid) roll(now time.Duration) {
	slot := int64(now / invalidSlot)
	i.newest = max(i.newest, slot-int64(len(i.before)))
	for i.newest < slot {
		i.newest++
		i.before[i.newest%int64(len(i.before))] = i.count
	}
}

func (i *invalid) once() time.Duration {
	i.mu.Lock()
	count := i.count
	arguments := i.arguments()
	i.mu.Unlock()
	reply, err := i.session.call(invalidScript, i.keys, arguments...)
	i.mu.Lock()
	defer i.mu.Unlock()
	if errors.Is(err, ErrClosed) {
		return never
	}
	if err != nil || len(reply.values) == 0 {
		return beatPeriod
	}
	i.told = count
	i.others.Store(reply.values[0])
	if i.wanted.Swap(false) {
		i.idle = 0
	} else {
		i.idle++
	}
	i.calm = reply.values[0] == 0 && i.count == i.oldest()
	switch {
	case i.calm && i.idle == 0:
		return invalidCalm
	case i.calm:
	case i.count > i.told || reply.values[0] >= manyInvalid && i.idle < invalidRounds:
		return beatPeriod
	case i.idle < invalidRounds:
		return invalidSlot
	}
	return never
}

// arguments returns what a call says. i.mu is held.
func (i *invalid) arguments() []string {
	i.roll(i.session.now())
	return []string{
		i.session.id, strconv.FormatInt(i.count, 10), strconv.FormatInt(i.oldest(), 10),
		number(invalidPeriod), number(invalidSlot),
	}
}

// oldest returns the count of a period ago. i.mu is held.
func (i *invalid) oldest() int64 { return i.before[(i.newest+1)%int64(len(i.before))] }

// last tells what was not told when the session ends.
func (i *invalid) last() {
	out, _ := i.session.away()
	i.mu.Lock()
	i.calls.stop()
	untold := i.count > i.told
	arguments := i.arguments()
	i.mu.Unlock()
	if untold && !out {
		i.session.lastCall(invalidScript, i.keys, arguments...)
	}
}
