package shared

import (
	"strconv"
	"time"
)

const (
	// partTime is how long a part may be used after the start of the call that brought it: certainly ended when the others
	// believe so, by a tenth, as clocks do not run alike.
	partTime = sessionTime * 9 / 10
	// stepSlack is by how much the server's clock may be wrong before that counts as a step.
	stepSlack = 250 * time.Millisecond
	// knowledge is for how long the server certainly remembers what nobody uses, a minute less than it does.
	knowledge = 9 * time.Minute
)

// holding is what one session has of a global limit. A part grows only by an answer, and it shrinks by one, or because none has
// come for too long:
//
//	none     part 0
//	held     part > 0, until its end; prolonged by every answer
//	lowered  used less than the server knows: it is to be told at once, as only then the rest goes to others
//
// It takes the time as an argument and has no lock.
type holding struct {
	part  int
	until time.Duration
	peak  int           // the most that was used since the server was told, or of late
	users int           // of the limit, when it was last heard of, this one included
	comes time.Duration // when there may be a part, if there is none

	failing bool // the last call was not answered

	cooling time.Duration // how long what was sent counts
	timeout time.Duration // of calls

	answered int64         // number of the last call that was
	sent     time.Duration // when that was sent
	engine   int64         // what the server's clock showed then, 0 if that is not to be believed any more
	born     int64         // which life of the server's state it was
	ends     int64         // which life has to end, because the clock was stepped forward
}

// saying is what a call says of a holding.
type saying struct {
	number, answered, latest, born, ends int64
	has, peak                            int
	claims                               time.Duration // if the server has forgotten: how long the others may take to say what they have
}

// partAnswer is what the server says of it.
type partAnswer struct {
	stale bool // it did nothing
	born  int64
	part  int
	users int
	hold  time.Duration
	wait  time.Duration
	comes time.Duration // from now on until there may be a part, 0 if there is one, or that is not known
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

// void gives up a part at once.
func (h *holding) void(now time.Duration) { h.until = min(h.until, now) }

// lapse gives up a part whose end has come.
func (h *holding) lapse(now time.Duration) {
	if now < h.until {
		return
	}
	h.part = 0
	if now >= h.until+h.cooling {
		h.peak = 0
	}
}

// forgotten reports that nothing has to be said of it any more: the server has given it to others.
func (h *holding) forgotten(now time.Duration) bool {
	return h.born == 0 || now >= h.sent+sessionTime+h.cooling && h.part == 0 && h.peak == 0
}

// say returns what a call with that number says.
func (h *holding) say(now time.Duration, number int64) saying {
	h.lapse(now)
	s := saying{number: number, has: h.part, peak: max(h.peak, h.part), ends: h.ends, claims: sessionTime + h.cooling}
	silent := now - h.sent
	if h.born == 0 || silent >= knowledge {
		return s
	}
	s.born = h.born
	if h.failing && silent >= s.claims {
		// The server was away, or the way to it. Nobody has anything left, or they have it and say so.
		s.claims = beatPeriod + h.timeout
	}
	if h.engine > 0 && h.ends == 0 {
		s.latest = h.engine + ceilMillis(silent+silent/1000+h.timeout+stepSlack) // clocks drift apart, by far less than that
	}
	// Whoever says nothing for a session time is forgotten: then it is no wonder if the server knows less.
	if silent < sessionTime-h.timeout-stepSlack {
		s.answered = h.answered
	}
	return s
}

// answer takes in the answer to what was said, by a call that was sent at a time. It reports whether the server has to be told
// something at once: that the part is used no more, or the same again.
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

// adopt takes in that so much was used without asking anybody, and is until the next answer, which has to come soon.
func (h *holding) adopt(now time.Duration, part int) {
	h.part, h.peak = part, max(h.peak, part)
	h.until = now + 2*h.timeout
}

// left takes in that the server knows that nothing is used.
func (h *holding) left(sent time.Duration, engine int64, a partAnswer) {
	h.sent, h.engine, h.born, h.users = sent, engine, a.born, a.users
	h.part, h.peak, h.until, h.comes, h.answered, h.ends, h.failing = 0, 0, 0, 0, 0, 0, false
}

// arguments returns it in the order in which the script expects it, with what a global limit adds.
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
