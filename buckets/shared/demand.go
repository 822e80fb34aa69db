package shared

import "time"

// demandMemory is how long a reported number of waiters counts without another report. While requests wait, the manager
// reports with every free slot, at least every two seconds.
const demandMemory = 3 * time.Second

// demand measures how many requests of a global limit are needed in a second: the requests that leave and those that
// wait. All times are arguments. The caller must lock it.
type demand struct {
	second        time.Duration // start of the current second
	count, before int           // requests that left in the current second and in the previous one
	waiting       int
	last          time.Duration // time of the latest report of waiting
	told          int           // the demand last reported to the server
}

// take records how many requests wait and how many leave.
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

// need returns the demand in requests a second: the requests that left in the last second, and those that wait. It
// assumes that the requests of the previous second left evenly.
func (d *demand) need(now time.Duration) int {
	d.roll(now)
	waiting := d.waiting
	if now-d.last >= demandMemory {
		waiting = 0
	}
	rest := time.Second - (now - d.second)
	return waiting + d.count + int(int64(d.before)*int64(rest)/int64(time.Second))
}

// tell returns the demand to report. While the session has a part, the reported demand rises only if the demand exceeds
// the part, and falls by half at most with every call. So a pause does not cost the part, and small changes need no
// report. While the session has no part, the reported demand does not fall, because no request can leave.
func (d *demand) tell(now time.Duration, held, limit int) int {
	n := min(d.need(now), limit)
	switch {
	case held == 0:
		d.told = max(n, d.told)
	case n > max(d.told, held):
		d.told = n
	case n <= min(d.told, held)/2:
		d.told = max(n, min(d.told, held)/2)
	}
	return d.told
}
