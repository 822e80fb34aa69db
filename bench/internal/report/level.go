package report

import (
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// moment is how full a limit was at a time: the number of requests that it counted.
type moment struct {
	at   time.Duration
	used float64
}

// window is a fixed window of the simulator, from its opening to its close.
type window struct{ from, to time.Duration }

// levels is how full a limit was, as a line through moments until the end of the run.
func levels(limit *Limit, end time.Duration) []moment {
	switch limit.Quota.Kind {
	case discordsim.KindFixed:
		return fixedLevels(limit, end)
	case discordsim.KindSliding:
		return slidingLevels(limit, end)
	case discordsim.KindLeaky:
		return leakyLevels(limit, end)
	}
	return nil
}

// fixedLevels rises with each request and falls to nothing when the window closes.
func fixedLevels(limit *Limit, end time.Duration) (line []moment) {
	used, closes := 0.0, time.Duration(0)
	until := func(at time.Duration) {
		if used > 0 && closes <= at {
			line = append(line, moment{closes, used}, moment{closes, 0})
			used = 0
		}
		line = append(line, moment{at, used})
	}
	for _, use := range limit.Uses {
		until(use.At)
		used, closes = float64(use.Used), use.At+use.ResetAfter
		line = append(line, moment{use.At, used})
	}
	until(max(end, closesBefore(line)))
	return line
}

// closesBefore is the time of the last moment.
func closesBefore(line []moment) time.Duration {
	if len(line) == 0 {
		return 0
	}
	return line[len(line)-1].at
}

// slidingLevels falls by one a period after each request that was counted.
func slidingLevels(limit *Limit, end time.Duration) (line []moment) {
	var counted []time.Duration
	step := func(at time.Duration, change int) {
		line = append(line, moment{at, float64(len(counted))}, moment{at, float64(len(counted) + change)})
	}
	expire := func(now time.Duration) {
		for len(counted) > 0 && counted[0]+limit.Quota.Period <= now {
			step(counted[0]+limit.Quota.Period, -1)
			counted = counted[1:]
		}
	}
	for _, use := range limit.Uses {
		expire(use.At)
		if use.Taken {
			step(use.At, 1)
			counted = append(counted, use.At)
		}
	}
	expire(end)
	return append(line, moment{max(end, closesBefore(line)), float64(len(counted))})
}

// leakyLevels rises with each request and leaks all the time.
func leakyLevels(limit *Limit, end time.Duration) (line []moment) {
	interval := leakInterval(limit.Quota)
	var empty time.Duration // when the bucket is
	until := func(at time.Duration) {
		if len(line) > 0 && empty < at {
			line = append(line, moment{empty, 0})
		}
		line = append(line, moment{at, max(float64(empty-at)/interval, 0)})
	}
	for _, use := range limit.Uses {
		until(use.At)
		empty = use.At + use.ResetAfter
		line = append(line, moment{use.At, float64(use.ResetAfter) / interval})
	}
	until(max(end, closesBefore(line)))
	return line
}

// leakInterval is the time in which a leaky bucket forgets a request.
func leakInterval(quota discordsim.Quota) float64 {
	return float64(quota.Period) / float64(max(quota.Limit, 1))
}

// windows are those of a fixed limit that were open in the run. Others have none.
func windows(limit *Limit) (spans []window) {
	if limit.Quota.Kind != discordsim.KindFixed {
		return nil
	}
	for _, use := range limit.Uses {
		closes := use.At + use.ResetAfter
		if use.ResetAfter == 0 || len(spans) > 0 && spans[len(spans)-1].to == closes {
			continue
		}
		opens := use.At
		if limit.Quota.Aligned {
			opens = max(closes-limit.Quota.Period, 0)
		}
		spans = append(spans, window{opens, closes})
	}
	return spans
}
