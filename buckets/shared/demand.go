package shared

import "time"

// demandMemory is how long a reported number of waiting requests counts without another report. While requests wait,
// the manager reports the number for each request that leaves, and at least every two seconds.
const demandMemory = 3 * time.Second

// demand measures how many requests a second a process needs from a global limit: the requests that leave and the
// requests that wait. The caller of the methods must hold a lock that guards the demand.
type demand struct {
	second        time.Duration // start of the current second
	count, before int           // requests that left in the current second and in the previous one
	waiting       int           // requests that waited at the latest report
	last          time.Duration // time of the latest report of waiting
	told          int           // the demand that was last reported to the server
}

// take records how many requests wait now and how many leave now.
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

// need returns the demand in requests a second: the requests that left in the last second, and the requests that wait.
// For the requests that left in the previous second, it assumes an even spread over that second.
func (d *demand) need(now time.Duration) int {
	d.roll(now)
	waiting := d.waiting
	if now-d.last >= demandMemory {
		waiting = 0
	}
	rest := time.Second - (now - d.second)
	return waiting + d.count + int(int64(d.before)*int64(rest)/int64(time.Second))
}

// tell returns the demand to report to the server. While the session has a part of the limit (held), the reported
// demand rises only if the demand exceeds the part, and it falls by half at most with every call. So the session does
// not lose its part in a short pause, and small changes need not be reported. While the session has no part, the
// reported demand does not fall, because no request can leave.
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
