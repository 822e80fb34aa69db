package shared

import "time"

// demandMemory is how long it counts what a caller said of how many wait, if it says nothing else. While any wait it asks again
// when the next slot comes back, which takes two seconds at most.
const demandMemory = 3 * time.Second

// demand measures how much of a global limit is needed: how many requests left in a second, and how many wait.
// It takes the time as an argument and has no lock.
type demand struct {
	second        time.Duration // start of the second that is counted
	count, before int           // that left in it, and in the one before
	waiting       int
	last          time.Duration // when that was said
	told          int
}

// take takes in that so many wait, and so many leave.
func (d *demand) take(now time.Duration, waiting, leaving int) {
	d.roll(now)
	d.count += leaving
	d.waiting, d.last = waiting, now
}

func (d *demand) roll(now time.Duration) {
	switch age := now - d.second; {
	case age >= 2*time.Second:
		d.second, d.count, d.before = now, 0, 0
	case age >= time.Second:
		d.second, d.count, d.before = d.second+time.Second, 0, d.count
	}
}

// need returns how many requests a second are needed now: as many as have left in the latest one, if those of the second before did so
// evenly, and those that wait.
func (d *demand) need(now time.Duration) int {
	d.roll(now)
	waiting := d.waiting
	if now-d.last >= demandMemory {
		waiting = 0
	}
	rest := time.Second - (now - d.second)
	return waiting + d.count + int(int64(d.before)*int64(rest)/int64(time.Second))
}

// tell returns what to tell the others while so much is held: it rises at once and falls by half with every call, so that a pause does
// not cost a part. Who has nothing cannot ask for slots, and needs what it needed.
func (d *demand) tell(now time.Duration, held, limit int) int {
	n := min(d.need(now), limit)
	if held == 0 {
		d.told = max(n, d.told)
	} else {
		d.told = max(n, min(d.told, held)/2)
	}
	return d.told
}
