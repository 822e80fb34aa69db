package shared

import (
	"strconv"
	"time"
)

const (
	// partTime is how long after the start of a call the part that it brought may be used. The others count on
	// sessionTime; a tenth less allows for clocks that run at different speeds.
	partTime = sessionTime * 9 / 10
	// stepSlack is the largest error of the server's clock that does not count as a step.
	stepSlack = 250 * time.Millisecond
	// knowledge is how long the server certainly stores what no session uses: keyTime minus a minute of reserve.
	knowledge = 9 * time.Minute
)

// holding is the part of a global limit that one session has. A part grows only by an answer. It shrinks by an answer,
// or because no answer has arrived in time:
//
//	none     part 0
//	held     part > 0, until its end; every answer prolongs it
//	lowered  the session uses less than the server knows. It reports that at once, so that others can get the rest
//
// All times are arguments. The caller must lock it.
type holding struct {
	part  int
	until time.Duration
	peak  int           // the most that was used since the last answer, or lately
	users int           // sessions that share the limit as of the last answer, this one included
	comes time.Duration // earliest time for a part while there is none, 0 if not known

	failing bool // the last call failed

	cooling time.Duration // how long a sent request counts
	timeout time.Duration // of calls

	answered int64         // number of the last call that was answered
	sent     time.Duration // when that call was sent
	engine   int64         // server's clock at that time in milliseconds, 0 if not reliable any more
	born     int64         // life of the server's state at that time
	ends     int64         // life to end because the clock was stepped forward, 0 if none
}

// saying is what a call reports of a holding.
type saying struct {
	number, answered, latest, born, ends int64
	has, peak                            int
	claims                               time.Duration // after a loss: time in which others report their parts
}

// partAnswer is the reply of script part.
type partAnswer struct {
	stale bool // the call had no effect
	born  int64
	part  int
	users int
	hold  time.Duration
	wait  time.Duration
	comes time.Duration // time until there may be a part, 0 if there is one or if not known
}

func newPartAnswer(values []int64) (a partAnswer, ok bool) {
	if len(values) < 7 {
		return a, false
	}
	return partAnswer{
		stale: values[0] != 0, born: values[1], part: int(values[2]), users: int(values[3]),
		hold: millis(values[4]), wait: min(millis(values[5]), beatPeriod), comes: millis(values[6]),
	}, true
}

// void ends the part at once.
func (h *holding) void(now time.Duration) { h.until = min(h.until, now) }

// lapse removes a part that has ended.
func (h *holding) lapse(now time.Duration) {
	if now < h.until {
		return
	}
	h.part = 0
	if now >= h.until+h.cooling {
		h.peak = 0
	}
}

// forgotten reports whether the server has certainly given the part to others, so that no report is needed.
func (h *holding) forgotten(now time.Duration) bool {
	return h.born == 0 || now >= h.sent+sessionTime+h.cooling && h.part == 0 && h.peak == 0
}

// say returns what the call with the number reports.
func (h *holding) say(now time.Duration, number int64) saying {
	h.lapse(now)
	s := saying{number: number, has: h.part, peak: max(h.peak, h.part), ends: h.ends, claims: sessionTime + h.cooling}
	silent := now - h.sent
	if h.born == 0 || silent >= knowledge {
		return s
	}
	s.born = h.born
	if h.failing && silent >= s.claims {
		// The server or the network was down: other sessions have no parts left, or are about to report them.
		s.claims = beatPeriod + h.timeout
	}
	if h.engine > 0 && h.ends == 0 {
		s.latest = h.engine + ceilMillis(silent+silent/1000+h.timeout+stepSlack) // clocks drift far less than that
	}
	// After sessionTime without a call the server rightly forgets the session, and may know less than this answer.
	if silent < sessionTime-h.timeout-stepSlack {
		s.answered = h.answered
	}
	return s
}

// answer records the answer to a call that was sent at the given time. It reports whether another call has to follow at
// once: to report that the part shrank, or to repeat a stale call.
func (h *holding) answer(s saying, sent time.Duration, engine int64, a partAnswer) (again bool) {
	h.failing = false
	if a.stale {
		h.engine = 0
		if a.born == h.born {
			h.ends = a.born
		}
		return true
	}
	h.answered, h.sent, h.engine, h.born, h.ends = s.number, sent, engine, a.born, 0
	h.part, h.users, h.comes = a.part, a.users, 0
	if a.comes > 0 {
		h.comes = sent + a.comes
	}
	h.peak = max(a.part, s.has)
	h.until = sent + partTime
	return a.part < s.has
}

// adopt records a part that is used without the server, until the next answer, which must arrive soon.
func (h *holding) adopt(now time.Duration, part int) {
	h.part, h.peak = part, max(h.peak, part)
	h.until = now + 2*h.timeout
}

// left records that the server knows that the session uses nothing.
func (h *holding) left(sent time.Duration, engine int64, a partAnswer) {
	h.sent, h.engine, h.born, h.users = sent, engine, a.born, a.users
	h.part, h.peak, h.until, h.comes, h.answered, h.ends, h.failing = 0, 0, 0, 0, 0, 0, false
}

// arguments returns the first arguments of script part.
func (s saying) arguments(user string, limit, need int, hold time.Duration, leave bool) []string {
	leaving := "0"
	if leave {
		leaving = "1"
	}
	n := func(i int64) string { return strconv.FormatInt(i, 10) }
	return []string{
		user, n(s.number), n(s.answered), n(s.latest), n(s.born), n(s.ends), n(int64(limit)),
		n(int64(s.has)), n(int64(s.peak)), n(int64(need)), n(ceilMillis(hold)), leaving,
		number(s.claims),
	}
}
