package shared

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

const (
	// invalidSlot is the length of a slot. Responses are counted by the slot of time in which they arrive.
	invalidSlot = 10 * time.Second
	// invalidPeriod is Discord's period. A slot counts until all of it is older than the period, so one slot more counts
	// than fits into the period.
	invalidPeriod = ratelimits.DefaultInvalidPeriod
	invalidSlots  = int64(invalidPeriod / invalidSlot)
	// If the count of the other processes is manyInvalid or more, a session loads it every second.
	manyInvalid = ratelimits.DefaultInvalidLimit / 10
	// invalidCalm is the time between two calls while all counts are 0.
	invalidCalm = time.Minute
	// invalidRounds is how many more calls a session makes after the manager has stopped reading the count of the other
	// processes.
	invalidRounds = 6
)

// counts holds the numbers of invalid responses of all sessions in the latest period, by session. The server stores it.
type counts map[string]*count

// count holds the number of invalid responses of one session.
type count struct {
	Told  int64           `json:"told"`  // number since the session began
	Slots map[int64]int64 `json:"slots"` // number in each slot of the server's time
}

// others removes the slots that are older than a period, and the slots in the future, which can remain after the
// server's clock was set back. It returns the sum of the counts of all other sessions.
func (all counts) others(session string, now time.Duration) (sum int64) {
	slot := int64(now / invalidSlot)
	for name, c := range all {
		if c == nil {
			delete(all, name)
			continue
		}
		maps.DeleteFunc(c.Slots, func(at, n int64) bool { return at < slot-invalidSlots || at > slot+1 || n < 0 })
		if name == session {
			continue
		}
		if len(c.Slots) == 0 {
			delete(all, name)
		}
		for _, n := range c.Slots {
			sum += n
		}
	}
	return sum
}

// invalid counts the invalid responses of an address or an application together with all other processes. It reports
// the first response at once, and further ones within a second. As long as the manager keeps asking for the count of
// the other processes, invalid loads that count again: every second if it is high, every minute if the counts of all
// processes are 0, and otherwise every ten seconds.
type invalid struct {
	session *session
	cell    cell // of counts
	contest contest

	others atomic.Int64 // count of the other processes
	wanted atomic.Bool  // whether the manager has read others since the last call

	mu     sync.Mutex
	count  int64                   // number of responses since the session began
	told   int64                   // the part of count that the server knows
	before [invalidSlots + 1]int64 // the values of count at the ends of the latest slots, as a ring
	newest int64                   // number of the newest slot in before
	idle   int                     // number of calls in a row before which the manager did not read others
	calm   bool                    // whether all counts were 0 at the last call
	ahead  time.Duration           // the server's clock minus ours, for the server that has the counts
	calls  repeater
}

func (i *invalid) start(s *session) {
	i.session = s
	i.cell.key = s.store.keys.invalid(s.store.options.address)
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
		i.calls.call() // at once, because i.others may be a minute old
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

// ask makes a call at once, unless the timer of the next call is set.
func (i *invalid) ask() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.calls.timer == nil {
		i.idle = 0
		i.calls.call()
	}
}

// roll begins new slots until the newest one contains now. i.mu must be held.
func (i *invalid) roll(now time.Duration) {
	slot := int64(now / invalidSlot)
	i.newest = max(i.newest, slot-int64(len(i.before)))
	for i.newest < slot {
		i.newest++
		i.before[i.newest%int64(len(i.before))] = i.count
	}
}

func (i *invalid) once() time.Duration {
	if i.session.outageErr() != nil {
		return beatPeriod
	}
	return i.speak(i.session.context)
}

// speak makes one call, and returns the wait until the next call.
func (i *invalid) speak(ctx context.Context) time.Duration {
	i.mu.Lock()
	step := i.compose()
	i.mu.Unlock()
	r, err := i.session.try(ctx, &Call{Purpose: "invalid", Steps: []Step{step}})
	i.mu.Lock()
	defer i.mu.Unlock()
	if errors.Is(err, ErrClosed) {
		return never
	}
	if err != nil || len(r.values) == 0 {
		return beatPeriod
	}
	settled := i.cell.took(&step, r.values[0])
	i.contest.ended(!settled, &r)
	if i.learn(&r) != nil {
		return beatPeriod
	}
	if !settled && !i.calls.stopped {
		return i.contest.pause()
	}
	if !settled || i.count > i.told && step.Value == "" { // the call could not report the count, so make another one
		return 0
	}
	if i.wanted.Swap(false) {
		i.idle = 0
	} else {
		i.idle++
	}
	others := i.others.Load()
	i.calm = others == 0 && i.count == i.oldest()
	switch {
	case i.calm && i.idle == 0:
		return invalidCalm
	case i.calm:
	case i.count > i.told || others >= manyInvalid && i.idle < invalidRounds:
		return beatPeriod
	case i.idle < invalidRounds:
		return invalidSlot
	}
	return never
}

// compose returns the step of the next call. The step only loads if the server's clock is not known or there is nothing
// to report. i.mu must be held.
func (i *invalid) compose() Step {
	now := i.session.now()
	i.roll(now)
	if i.ahead == 0 || i.count == i.told {
		return Step{Key: i.cell.key}
	}
	all, at := counts{}, now+i.ahead
	_ = content(i.cell.value, &all) // cannot fail, because learn has decoded it before
	all.others(i.session.id, at)
	mine := &count{Slots: map[int64]int64{}}
	if known := all[i.session.id]; known != nil {
		mine.Told = known.Told
		maps.Copy(mine.Slots, known.Slots)
	}
	if news := i.count - max(mine.Told, i.oldest()); news > 0 {
		mine.Slots[int64(at/invalidSlot)] += news
	}
	mine.Told = i.count
	all[i.session.id] = mine
	return i.cell.replace(all, invalidPeriod+2*invalidSlot)
}

// learn records the value and the time in the reply to a call. i.mu must be held.
func (i *invalid) learn(r *reply) error {
	all := counts{}
	if err := i.session.content(&i.cell, &all); err != nil {
		return err
	}
	i.ahead, i.told = r.engine-r.received, i.oldest()
	if mine := all[i.session.id]; mine != nil {
		i.told = max(i.told, mine.Told)
	}
	i.others.Store(all.others(i.session.id, r.engine))
	return nil
}

// oldest returns the value that count had a period ago. i.mu must be held.
func (i *invalid) oldest() int64 { return i.before[(i.newest+1)%int64(len(i.before))] }

// last reports, when the session ends, the responses that the server does not know yet.
func (i *invalid) last() {
	out, _ := i.session.away()
	i.mu.Lock()
	i.calls.stop()
	untold := i.count > i.told
	i.mu.Unlock()
	if !untold || out {
		return
	}
	i.session.speakLast(func(exchange) time.Duration {
		ctx, cancel := context.WithTimeout(i.session.context, lastCallTime)
		defer cancel()
		return i.speak(ctx)
	})
}
