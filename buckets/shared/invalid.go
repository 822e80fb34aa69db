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
	// invalidSlot is the precision with which the time of a response is known.
	invalidSlot = 10 * time.Second
	// invalidPeriod is as long as Discord's. A slot counts until all of it is over, so there is one slot more.
	invalidPeriod = ratelimits.DefaultInvalidPeriod
	invalidSlots  = int64(invalidPeriod / invalidSlot)
	// manyInvalid is the number of invalid responses of the others from which their count is asked for every second.
	manyInvalid = ratelimits.DefaultInvalidLimit / 10
	// invalidCalm is the time between two calls while no process has counted a response.
	invalidCalm = time.Minute
	// invalidRounds is how many more calls are made when the count of the others is not read any more.
	invalidRounds = 6
)

var invalidScript = script("invalid", "invalid.lua")

// invalid counts the invalid responses of an address together with all other processes. It reports a new count within a
// second. While the manager reads the count of the others, it asks for that: every second if the count is high, every
// minute if there are no responses at all, and every ten seconds otherwise. The first response is reported at once.
type invalid struct {
	session *session
	keys    []string

	others atomic.Int64
	wanted atomic.Bool // whether others was read since the last call

	mu     sync.Mutex
	count  int64                   // responses since the session began
	told   int64                   // part of count that the server knows
	before [invalidSlots + 1]int64 // ring of the counts at the end of the latest slots
	newest int64                   // number of the newest slot in before
	idle   int                     // calls in a row before which others was not read
	calm   bool                    // no process had counted a response at the last call
	calls  repeater
}

func (i *invalid) start(s *session) {
	i.session = s
	i.keys = []string{s.store.keys.invalid(s.store.options.address)}
	i.calls = repeater{session: s, lock: &i.mu, once: i.once}
}

// Invalid counts an invalid response, and returns the count of the other processes.
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
		i.calls.call() // others may be a minute old
	} else {
		i.calls.within(beatPeriod)
	}
	return int(i.others.Load())
}

// Others returns how many invalid responses the other processes have counted in the latest period.
func (s *session) Others() int {
	i := &s.parts.invalid
	if !i.wanted.Load() && i.wanted.CompareAndSwap(false, true) {
		i.ask()
	}
	return int(i.others.Load())
}

// ask makes a call at once if none is due.
func (i *invalid) ask() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.calls.timer == nil {
		i.idle = 0
		i.calls.call()
	}
}

// roll begins new slots. i.mu must be held.
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

// arguments returns the arguments of the next call. i.mu must be held.
func (i *invalid) arguments() []string {
	i.roll(i.session.now())
	return []string{
		i.session.id, strconv.FormatInt(i.count, 10), strconv.FormatInt(i.oldest(), 10),
		number(invalidPeriod), number(invalidSlot),
	}
}

// oldest returns the count of a period ago. i.mu must be held.
func (i *invalid) oldest() int64 { return i.before[(i.newest+1)%int64(len(i.before))] }

// last reports the remaining count when the session ends.
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
