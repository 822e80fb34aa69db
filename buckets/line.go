package buckets

import (
	"time"

	"github.com/jonboulle/clockwork"
)

// alarm is a timer that can be brought forward. It fires at the earliest time asked for since it last fired, or a little
// earlier than what is wanted by then: whoever it wakes looks again. Its owner's mutex guards it.
type alarm struct {
	timer clockwork.Timer
	due   time.Duration // 0: not set
}

// set makes the alarm ring at the given time, unless it rings earlier anyway. It does not block.
func (a *alarm) set(clock clockwork.Clock, now, at time.Duration, ring func()) {
	at = max(at, 1) // 0 is "not set"
	if a.due != 0 && a.due <= at {
		return
	}
	a.due = at
	if a.timer == nil {
		a.timer = clock.AfterFunc(at-now, ring)
		return
	}
	a.timer.Stop()
	a.timer.Reset(at - now)
}

// rang has to be called first by what the alarm calls.
func (a *alarm) rang() { a.due = 0 }

// stop makes the alarm forget its time.
func (a *alarm) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
	a.due = 0
}

// line is the buckets that stand before a gate, each at most once. They are served in turn, one request each, so a bucket
// with a long queue does not hold up the others. A bucket in which nobody waits any more leaves. The gate's mutex guards it, and
// what the buckets in it need for that.
type line struct {
	head, tail *RESTBucket
	length     int
	waiting    int // requests in the buckets' queues
	alarm      alarm
}

// left is what a bucket brought that is not in the line any more.
const left = -1

func (l *line) push(b *RESTBucket) {
	b.previousInLine = l.tail
	if l.tail == nil {
		l.head = b
	} else {
		l.tail.nextInLine = b
	}
	l.tail = b
	l.length++
	b.brought = int32(b.queued())
	l.waiting += int(b.brought)
}

// count takes in how many wait now in a bucket, whose lock is held, and takes it out if nobody does. It reports whether the
// bucket still stands in the line, or is about to be served.
func (l *line) count(b *RESTBucket) bool {
	if b.brought == left {
		return true
	}
	n := b.queued()
	if n == 0 {
		l.remove(b)
		return false
	}
	l.waiting += n - int(b.brought)
	b.brought = int32(n)
	return true
}

// pop takes the first bucket out, nil if there is none.
func (l *line) pop() *RESTBucket {
	b := l.head
	if b != nil {
		l.remove(b)
	}
	return b
}

func (l *line) remove(b *RESTBucket) {
	before, after := b.previousInLine, b.nextInLine
	if before == nil {
		l.head = after
	} else {
		before.nextInLine = after
	}
	if after == nil {
		l.tail = before
	} else {
		after.previousInLine = before
	}
	b.previousInLine, b.nextInLine = nil, nil
	l.length--
	l.waiting -= int(b.brought)
	b.brought = left
}

// clear empties the line.
func (l *line) clear() {
	for l.pop() != nil {
	}
}
