package discordsim

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"time"
)

const (
	// forgetAfter is how long the judge remembers answers. If a request travels longer than this, some of the answers that
	// had been delivered when it was sent may be missing from its judgement.
	forgetAfter = time.Minute
	// silentHold is how long, in the judge's view, a client has to wait after a refusal that names no time. Without such a
	// wait, the client would repeat its requests at once.
	silentHold = time.Second
)

// honesty says whether an answer's statements about a limit are true.
type honesty int

const (
	// silent: the answer says nothing that can be read, because headers are missing or contain garbage.
	silent honesty = iota
	// honest: what the answer says is true, or at least makes no client send too early.
	honest
	// stale: the answer says that nothing remains and that the reset is in 0 seconds. This describes a window that is
	// over, not the present one.
	stale
	// falsified: a client that believes the answer sends too many requests, or too early.
	falsified
)

// lesson is what a client learns about one gate when one answer is delivered.
type lesson struct {
	gate    *gate
	rule    *ruleState // the rule whose bucket is described; nil for the hold of a 429
	honesty honesty
	// left is how many more requests the limit accepts before wait is over. taken is how many requests had taken a place
	// when the answer was made.
	left, taken int
	wait        time.Duration
	ends        bool // wait is the time until a window ends; it may be 0 because the window closes late
	// shape is the key of the requests that have to wait, as far as the client knows: see exchange.shape.
	shape string
	// made is when the server made the answer.
	made     time.Time
	measures bool          // the answer shows how long a place is taken
	reading  *reading      // what an answer of a SlidingNext log shows, otherwise nil
	timed    time.Duration // time until the window of an accepted request ends; 0: the answer does not name it
	lags     bool          // Remaining is one too high
	late     time.Duration // how much later than announced the limit opens, as a refusal shows; 0: not shown
	// If the refusal travels at least this long, another client may have taken the place, and it shows no lateness.
	doubtful time.Duration
	early    bool // the request was accepted earlier than refusals had suggested
}

// fact is a lesson with its times. The client learns it at the time at, and believes that the wait ends at until. In
// truth the wait lasts from made to over.
type fact struct {
	made, over time.Time
	at, until  time.Time
	left       int
	taken      int
	shape      string
}

// lie is a time in which the client had reason to believe false answers. It begins when the first false answer is
// delivered, and ends when a true answer is delivered, but not before one period of the limit has passed since the last
// false answer.
type lie struct {
	from, last, truth time.Time
}

// knowledge records what answers have shown the client about one gate, and when. The times are necessary because a
// request is judged by the answers that had been delivered when it was sent. Answers that were delivered while it
// travelled do not count.
type knowledge struct {
	facts     []fact
	sends     []occupant    // the latest requests that have taken a place here
	taken     int           // how many requests have taken a place here
	described time.Time     // when the first honest description since the last change was read; zero: never
	changed   time.Time     // when the limit may have become different from what the client had learnt; zero: never
	measured  time.Time     // when the first honest answer was read that shows how long a place is taken; zero: never
	lost      bool          // at least one answer was never read
	quiet     time.Time     // when the first success without readable headers was read; zero: never
	stale     time.Time     // when the first stale answer was read; zero: never
	timed     time.Time     // first answer to an accepted request that named the end of its window; zero: none
	longest   time.Duration // the longest time to the end of a window that an answer to an accepted request has named
	lagging   time.Time     // when the first answer whose Remaining was one too high was read; zero: never
	lagTold   time.Time     // when such an answer was first read after another answer with a reset; zero: never
	lies      []lie
	strays    []*stray
	evidence  *evidence // only for a SlidingNext log
	revealed
}

// change records that, from now on, the limit may differ from what the client has learnt.
func (k *knowledge) change(now time.Time) {
	k.changed, k.described = now, time.Time{}
}

func earliest(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// learn records a lesson that the client can use from the time at on. Waits count from received, when the client
// received the answer. Lessons may come in any order.
func (k *knowledge) learn(l lesson, received, at time.Time) {
	switch l.honesty {
	case silent:
		if l.rule != nil {
			k.quiet = earliest(k.quiet, at)
		}
	case stale:
		k.stale = earliest(k.stale, at)
	case honest:
		if l.lags {
			if !k.timed.IsZero() && k.timed.Before(at) {
				k.lagTold = earliest(k.lagTold, at)
			}
			k.lagging = earliest(k.lagging, at)
		}
		if l.timed > 0 {
			k.timed, k.longest = earliest(k.timed, at), max(k.longest, l.timed)
		}
		if l.rule != nil {
			if !l.made.Before(k.changed) {
				k.described = earliest(k.described, at)
			}
			for _, s := range k.strays {
				if l.made.After(s.made) {
					s.told = earliest(s.told, at)
				}
			}
			if l.measures {
				k.measured = earliest(k.measured, at)
			}
		}
		if n := len(k.lies); n > 0 && k.lies[n-1].truth.IsZero() {
			k.lies[n-1].truth = at
		}
	case falsified:
		k.hearLie(at)
	}
	if l.reading != nil {
		if k.evidence == nil {
			k.evidence = &evidence{}
		}
		l.reading.read = at
		k.evidence.learn(*l.reading)
	}
	if l.late > 0 && received.Sub(l.made) < l.doubtful {
		k.show(l.late, at)
	}
	if l.early {
		k.accepted(l.made, at)
	}
	if l.wait > 0 || l.ends {
		k.remember(fact{
			made: l.made, over: l.made.Add(l.wait), at: at, until: received.Add(l.wait),
			left: l.left, taken: l.taken, shape: l.shape,
		})
	}
}

func (k *knowledge) hearLie(at time.Time) {
	if n := len(k.lies); n > 0 && k.lies[n-1].truth.IsZero() {
		k.lies[n-1].last = at
		return
	}
	k.lies = append(k.lies, lie{from: at, last: at})
	if len(k.lies) > 64 { // older lies are too old to excuse anything
		k.lies = k.lies[1:]
	}
}

func (k *knowledge) remember(f fact) {
	drop := 0
	for drop < len(k.facts) && f.at.Sub(k.facts[drop].until) > forgetAfter {
		drop++
	}
	if drop > 0 && drop*2 >= len(k.facts) {
		k.facts = k.facts[:copy(k.facts, k.facts[drop:])]
	}
	k.facts = append(k.facts, f)
}

// occupant is a counted request, which has taken a place.
type occupant struct {
	at    time.Time     // when it was sent
	there time.Duration // how long it travelled until it was counted
	reset time.Time     // the reset time that the answer to it announces
	stray *stray        // nil: the request is no stray
}

// note records a request that has taken a place, and the reset time that the answer to it announces.
func (k *knowledge) note(sent, now, reset time.Time) {
	drop := 0
	for drop < len(k.sends) && now.Sub(k.sends[drop].at) > forgetAfter {
		drop++
	}
	if drop > 0 && drop*2 >= len(k.sends) {
		k.sends = k.sends[:copy(k.sends, k.sends[drop:])]
	}
	k.sends = append(k.sends, occupant{at: sent, there: now.Sub(sent), reset: reset})
	k.taken++
}

// overtaken returns the latest time at which a request was sent: the refused request, sent at the given time, or any
// request that has taken a place in this limit. Perhaps a request that was sent later has arrived earlier and has
// filled the limit. An excuse for that request also excuses this refusal.
func (k *knowledge) overtaken(sent time.Time) time.Time {
	for _, s := range k.sends {
		sent = latest(sent, s.at)
	}
	return sent
}

// question asks about a refused request. sent is when it was sent. By that time, the client had certainly read all
// answers that were delivered up to heard.
type question struct {
	sent, heard time.Time
	shape       string
	discovery   *discovery // the discovery of the request's operation
	knows       bool       // the client knew where the request would be counted
}

// forbade reports whether the client, when it sent a request, had read that no place was free for it. This is so if two
// conditions hold: an answer had named a number of free places (left) until a time that had not been reached, and since
// that answer the client had sent at least as many requests that took a place.
//
// The answer that the server made last counts, because it may describe a new window. Of several answers that name the
// same opening, the one that travelled fastest is the most precise.
func (k *knowledge) forbade(q question) bool {
	var latest fact
	for _, f := range k.facts {
		if f.shape == q.shape && !f.at.After(q.heard) && !f.made.Before(latest.made) {
			latest = f
		}
	}
	until := latest.until
	for _, f := range k.facts {
		if f.shape == q.shape && !f.at.After(q.heard) && f.over.Equal(latest.over) && f.until.Before(until) {
			until = f.until
		}
	}
	if !until.After(q.sent) {
		return false
	}
	since := min(k.taken-latest.taken, len(k.sends))
	taken := 0
	for _, s := range k.sends[len(k.sends)-since:] {
		if !s.at.Before(latest.at) && !s.at.After(q.sent) && !s.stray.unknown(q) {
			taken++
		}
	}
	return taken >= latest.left
}

// excuse returns the reason why the client cannot be blamed for believing the answers, or "" if there is none.
func (k *knowledge) excuse(heard time.Time, period time.Duration) string {
	described := !k.described.IsZero() && !k.described.After(heard)
	if !k.changed.IsZero() && !described {
		return becauseChanged
	}
	for _, l := range k.lies {
		if !l.from.After(heard) && (l.truth.IsZero() || l.truth.After(heard) || !heard.After(l.last.Add(period))) {
			return becauseFalsified
		}
	}
	if k.lost && (k.measured.IsZero() || k.measured.After(heard)) ||
		!described && !k.quiet.IsZero() && !k.quiet.After(heard) {
		return becauseQuiet
	}
	if !k.stale.IsZero() && !k.stale.After(heard) && (k.timed.IsZero() || k.timed.After(heard)) {
		return becauseFalsified
	}
	return ""
}

// compareDescription returns how honest the limit headers of an answer are.
func compareDescription(header http.Header, truth State) honesty {
	limit, ok1 := readNumber(header.Get(headerLimit))
	remaining, ok2 := readNumber(header.Get(headerRemaining))
	reset, ok3 := statedReset(header)
	switch {
	case !ok1 || !ok2 || !ok3 || limit < 1:
		return silent
	case limit > float64(truth.Limit), remaining > float64(truth.Remaining), soonerThan(reset, truth.ResetAfter):
		if remaining == 0 && reset == 0 {
			return stale
		}
		return falsified
	}
	return honest
}

// statedReset returns the longest reset-after in seconds that headers can mean: the value of Reset-After or, without
// that header, the difference between Reset and Date. Date has whole seconds.
func statedReset(header http.Header) (after float64, ok bool) {
	if _, named := header[headerResetAfter]; named {
		return readNumber(header.Get(headerResetAfter))
	}
	reset, ok := readNumber(header.Get(headerReset))
	date, err := http.ParseTime(header.Get("Date"))
	return reset - float64(date.Unix()), ok && err == nil
}

// statedRetry returns the time that a 429 names, in seconds. If header and body differ, it returns the shorter time.
// Usually the header is the body's time, rounded up. Larger differences in both directions have been observed: a header
// that counts until the bucket is empty, a body in milliseconds, or a header that is too short. The client cannot know
// which of the two times is right, but certainly has to wait for the shorter time. A body that comes late or never is
// ignored.
func statedRetry(response *Response) (stated float64, ok bool) {
	stated, ok = readNumber(response.Header.Get(headerRetryAfter))
	if response.BodyDelay > 0 || response.Stall != StallNone {
		return stated, ok
	}
	var body struct {
		RetryAfter *float64 `json:"retry_after"`
	}
	if json.Unmarshal(response.Body, &body) != nil || body.RetryAfter == nil || *body.RetryAfter < 0 {
		return stated, ok
	}
	if !ok {
		return *body.RetryAfter, true
	}
	return min(stated, *body.RetryAfter), true
}

// compareRefusal returns how honest the times of a 429 are, and the shortest time that a client which believes them
// waits. The result is never longer than the true time, which the header rounds up to a whole second.
func compareRefusal(response *Response, truth time.Duration) (honesty, time.Duration) {
	stated, ok := statedRetry(response)
	if !ok {
		wait := min(truth, silentHold)
		if reset, ok := readNumber(response.Header.Get(headerResetAfter)); ok && reset < wait.Seconds() {
			wait = time.Duration(reset * float64(time.Second)) // the wait, if the bucket refused the request
		}
		return silent, wait
	}
	wait := min(time.Duration(min(stated, math.MaxInt32)*float64(time.Second)), truth)
	if soonerThan(stated, truth) {
		return falsified, wait
	}
	return honest, wait
}

// soonerThan reports whether a stated time is shorter than the true one by more than the rounding of headers to
// milliseconds.
func soonerThan(seconds float64, truth time.Duration) bool {
	return seconds < (truth - time.Millisecond).Seconds()
}

// readNumber reads the number in a header as a careful client does: ok is false for garbage and for an absent header.
func readNumber(text string) (float64, bool) {
	number, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(number) || math.IsInf(number, 0) || number < 0 {
		return 0, false
	}
	return number, true
}
